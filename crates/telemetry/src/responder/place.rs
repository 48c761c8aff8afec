//! Where the responder listens: a loopback port, or a socket in the file system.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Clients that may wait to be let in.
const BACKLOG: i32 = 16;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A port of the loopback interface: every user of this host may ask.
    Tcp(SocketAddr),
    /// A socket that only its owner may use.
    Unix(PathBuf),
}

impl FromStr for Place {
    type Err = anyhow::Error;

    /// Reads `127.0.0.1:9477`, `[::1]:9477` or `unix:/run/ringroad/edge.prom`.
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

/// A listening socket; one in the file system goes with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    place: Place,
    /// Device and inode of the socket's file.
    file: Option<(u64, u64)>,
}

impl Listener {
    pub(super) fn bind(place: &Place) -> Result<Self> {
        match place {
            Place::Tcp(address) => {
                let listener =
                    TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
                listener.set_nonblocking(true).context("cannot listen without waiting")?;
                let place = Place::Tcp(listener.local_addr().context("cannot tell the port")?);
                Ok(Self { socket: listener.into(), place, file: None })
            }
            Place::Unix(path) => {
                let socket =
                    bind_unix(path).with_context(|| format!("cannot listen on {}", path.display()))?;
                let file = fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
                Ok(Self { socket, place: place.clone(), file })
            }
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Place::Unix(path) = &self.place else { return };
        // Somebody may have put another one there.
        let there = fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        if there.is_some() && there == self.file {
            let _ = fs::remove_file(path);
        }
    }
}

/// A socket there that its owner may use, and nobody before its mode says so.
fn bind_unix(path: &Path) -> Result<OwnedFd> {
    let address = SocketAddrUnix::new(path).context("the path is too long for a socket")?;
    let socket = unix_socket()?;
    // Of the socket itself, and so of its file from its first moment on.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).context("cannot set its mode")?;
    match bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            remove_stale(path, &address)?;
            bind(&socket, &address)?;
        }
        bound => bound?,
    }
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn unix_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).context("cannot make a socket")
}

/// Removes a socket that nobody listens to any more; an error if it is something else.
fn remove_stale(path: &Path, address: &SocketAddrUnix) -> Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    ensure!(is_socket, "there is a file of that name that is not a socket");
    match connect(unix_socket()?, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).context("cannot remove a stale socket"),
        _ => Err(anyhow!("somebody listens there already")),
    }
}
