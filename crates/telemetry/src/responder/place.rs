//! Address of the responder: a loopback port, or a Unix socket.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use door::Door;

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Port of the loopback interface: any user of this host may connect.
    Tcp(SocketAddr),
    /// Unix socket that only its owner may use.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = anyhow::Error;

    /// Parses `127.0.0.1:9477`, `[::1]:9477` or `unix:/run/ringroad/edge.prom`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong =
            || anyhow!("{text:?} is not a place to listen; write \"127.0.0.1:9477\" or \"unix:/PATH\"");
        if let Some(path) = text.strip_prefix("unix:") {
            ensure!(path.starts_with('/') && !path.ends_with('/') && !path.contains('\0'), wrong());
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let address: SocketAddr = text.parse().map_err(|_| wrong())?;
        ensure!(
            address.ip().is_loopback(),
            "{text:?} is not a loopback address; write \"127.0.0.1:{}\", and let a proxy with access control face the network",
            address.port()
        );
        Ok(Self::Tcp(address))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// Listening socket; dropping it removes a Unix socket's file.
#[derive(Debug)]
pub(super) struct Listener {
    socket: Socket,
    place: Place,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(Door),
}

impl Listener {
    pub(super) fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Tcp(address) => {
                let listener =
                    TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
                listener.set_nonblocking(true).context("cannot listen without waiting")?;
                let place = Place::Tcp(listener.local_addr().context("cannot tell the port")?);
                Ok(Self { socket: Socket::Tcp(listener), place })
            }
            Place::Unix(path) => {
                let door = Door::listen(path).map_err(|error| match error {
                    door::Error::Taken { why, .. } => anyhow!("it {why}"),
                    door::Error::System { answer, .. } => answer.into(),
                });
                let door = door.with_context(|| format!("cannot listen on {}", path.display()))?;
                Ok(Self { socket: Socket::Unix(door), place: place.clone() })
            }
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(door) => door.descriptor(),
        }
    }
}
