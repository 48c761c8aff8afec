//! Address of the responder: a loopback port, or a Unix socket.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use door::Door;

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Port of the loopback interface: any user of this host may connect.
    Tcp(SocketAddr),
    /// Unix socket that only its owner may use.
    Unix(PathBuf),
}

/// Listening socket; dropping it removes a Unix socket's file.
#[derive(Debug)]
pub(super) enum Listener {
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
                Ok(Self::Tcp(listener))
            }
            Place::Unix(path) => {
                let door = Door::listen(path).map_err(|error| match error {
                    door::Error::Taken { why, .. } => anyhow!("it {why}"),
                    door::Error::System { answer, .. } => answer.into(),
                });
                Ok(Self::Unix(door.with_context(|| format!("cannot listen on {}", path.display()))?))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(door) => door.descriptor(),
        }
    }
}
