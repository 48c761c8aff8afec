//! Rendezvous sockets: a vhost-user peer connects to ours, or we connect to that of the peer.
//!
//! ```text
//!           process that may open paths                process that serves the peer
//! listen    binds the path, removes it at the end      accepts, as often as a peer connects
//! connect   connects on request                        requests; gets the connection by a socket pair
//! ```
//!
//! So a process that may not open anything can be connected, and reconnected after its peer was restarted, to
//! this path only.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, send, socket_with,
};

mod error;
mod peer_credentials;
mod socket_broker;

pub use error::Error;
pub use peer_credentials::{process_at, user_at};
pub use socket_broker::SocketBroker;

/// Request byte, and the answer when a connection is attached. Any other answer is an errno.
const CONNECTED: u8 = 0;

/// A rendezvous point at which peers connect.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    kind: Kind,
    /// Identity of the socket file that we remove at the end: device and inode.
    made: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Kind {
    Listen(UnixListener),
    Dial {
        /// Sends requests for a connection.
        ask: UnixStream,
        /// Receives the requests in the process that connects; `None` in the process that only requests.
        hear: Option<UnixStream>,
    },
}

impl Door {
    /// Creates a socket at `path` that peers connect to, accessible to this user until its mode or group is
    /// changed. A deserted socket there is replaced.
    ///
    /// # Errors
    /// Another program listens there, or the path cannot be used.
    pub fn listen(path: &Path) -> Result<Self, Error> {
        let listener = match bound(path) {
            Err(rustix::io::Errno::ADDRINUSE) => {
                remove_deserted(path)?;
                bound(path)
            }
            bound => bound,
        };
        let listener = listener
            .map_err(|error| Error::system(format!("listening at {}", path.display()), error.into()))?;
        let made = fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()));
        Ok(Self { path: path.to_owned(), kind: Kind::Listen(listener), made })
    }

    /// Creates a door that connects to a peer's socket, which need not exist yet.
    ///
    /// # Errors
    /// No socket pair can be created.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let pair = UnixStream::pair().and_then(|(ask, hear)| {
            ask.set_nonblocking(true)?;
            hear.set_nonblocking(true)?;
            Ok((ask, hear))
        });
        let (ask, hear) = pair.map_err(|error| Error::system("making a socket pair", error))?;
        Ok(Self { path: path.to_owned(), kind: Kind::Dial { ask, hear: Some(hear) }, made: None })
    }

    /// Returns the socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if this side listens.
    pub fn listens(&self) -> bool {
        matches!(self.kind, Kind::Listen(_))
    }

    /// Returns the descriptor for the process that serves peers.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Listen(listener) => listener.as_fd(),
            Kind::Dial { ask, .. } => ask.as_fd(),
        }
    }

    /// Adopts a door that another process has opened, from its [`Door::descriptor`].
    pub fn adopt(path: &Path, listens: bool, descriptor: OwnedFd) -> Self {
        let kind = if listens {
            Kind::Listen(descriptor.into())
        } else {
            Kind::Dial { ask: descriptor.into(), hear: None }
        };
        Self { path: path.to_owned(), kind, made: None }
    }
}

/// For the process that serves peers.
impl Door {
    /// Requests a connection, to be fetched by [`Door::accept`]. Does nothing if this side listens.
    ///
    /// # Errors
    /// The connecting process is gone.
    pub fn request(&self) -> io::Result<()> {
        if let Kind::Dial { ask, .. } = &self.kind {
            // An earlier request is pending and will be answered.
            match send(ask, &[CONNECTED], SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::AGAIN) => {}
                sent => drop(sent?),
            }
            // If no other process connects for us, connect here.
            self.serve_request();
        }
        Ok(())
    }

    /// Returns a connected peer, if there is one; never blocks. The connection itself is in blocking mode.
    ///
    /// # Errors
    /// The connection attempt failed, or the door is broken.
    pub fn accept(&self) -> io::Result<Option<UnixStream>> {
        let entered = match &self.kind {
            Kind::Listen(listener) => accept_with(listener, SocketFlags::CLOEXEC).map(Some),
            Kind::Dial { ask, .. } => hear_answer(ask),
        };
        match entered {
            Ok(peer) => Ok(peer.map(UnixStream::from)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a descriptor that is readable when [`Door::accept`] has a result.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

/// For the process that may open paths.
impl Door {
    /// Returns a descriptor that is readable when a connection is requested; `None` if that cannot happen, or
    /// another process handles the requests.
    pub fn asked(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Dial { hear: Some(hear), .. } => Some(hear.as_fd()),
            _ => None,
        }
    }

    /// Connects if there is a request, and hands the result over. Never blocks: a local socket connects at
    /// once or not at all.
    pub fn serve_request(&self) {
        if self.was_asked() {
            self.hand_over(dial(&self.path));
        }
    }

    /// Returns true if a connection was requested since the last call.
    fn was_asked(&self) -> bool {
        let Kind::Dial { hear: Some(hear), .. } = &self.kind else { return false };
        let heard = fd_passing::receive(hear, &mut [0; 64], 0, RecvFlags::DONTWAIT);
        heard.is_ok_and(|heard| heard.octets > 0)
    }

    /// Hands the result to the requester.
    fn hand_over(&self, dialled: Result<OwnedFd, rustix::io::Errno>) {
        let Kind::Dial { hear: Some(hear), .. } = &self.kind else { return };
        let word = match &dialled {
            Ok(_) => CONNECTED,
            Err(error) => u8::try_from(error.raw_os_error()).unwrap_or(u8::MAX).max(1),
        };
        // A requester that missed the answer requests again.
        let _ = fd_passing::send(hear, &[word], dialled.ok().as_slice(), SendFlags::DONTWAIT);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Not if another program has put its own file there meanwhile.
        let here = |file: fs::Metadata| Some((file.dev(), file.ino())) == self.made;
        if self.made.is_some() && fs::symlink_metadata(&self.path).is_ok_and(here) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Maximum number of pending connections.
const BACKLOG: i32 = 128;

/// Binds a socket at `path` that only its owner may use, whatever the umask of this process.
fn bound(path: &Path) -> Result<UnixListener, rustix::io::Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file gets the mode of the socket itself (unix_bind_bsd), so that it never has another one.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Time that a program has between bind(2) and listen(2). Until then its socket looks deserted.
const UNTIL_LISTEN: Duration = Duration::from_millis(20);

/// Removes a deserted socket.
///
/// # Errors
/// There is none, or a program listens there.
pub fn remove_deserted(path: &Path) -> Result<(), Error> {
    remove_if_deserted(path, || sleep(UNTIL_LISTEN))
}

/// Removes a socket that is deserted before and after a pause.
fn remove_if_deserted(path: &Path, pause: impl FnOnce()) -> Result<(), Error> {
    let failed = |what: &str, error| Error::system(format!("{what}{}", path.display()), error);
    let file = fs::symlink_metadata(path).map_err(|error| failed("", error))?;
    if !file.file_type().is_socket() {
        return Err(Error::taken(path, "is a file, but no socket"));
    }
    if !is_deserted(path)? {
        return Ok(());
    }
    pause();
    if !is_deserted(path)? {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removing ", error)),
        _ => Ok(()),
    }
}

/// Returns true if a socket is deserted, and false if it was removed.
///
/// # Errors
/// A program listens there.
fn is_deserted(path: &Path) -> Result<bool, Error> {
    match dial(path) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(true),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        _ => Err(Error::taken(path, "is a socket of another program")),
    }
}

/// Connects without blocking; the connection itself is in blocking mode.
///
/// # Errors
/// `AGAIN`: the backlog of the listener is full. Others as for connect(2).
pub fn dial(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// Receives the answer of the connecting process.
fn hear_answer(ask: &UnixStream) -> Result<Option<OwnedFd>, rustix::io::Errno> {
    let mut word = [0];
    let mut heard = fd_passing::receive(ask, &mut word, 1, RecvFlags::DONTWAIT)?;
    if heard.octets == 0 || heard.truncated {
        return Err(rustix::io::Errno::PIPE);
    }
    match (word, heard.descriptors.pop()) {
        ([CONNECTED], Some(peer)) => Ok(Some(peer)),
        ([CONNECTED], None) => Err(rustix::io::Errno::BADF),
        ([errno], _) => Err(rustix::io::Errno::from_raw_os_error(errno.into())),
    }
}

#[cfg(test)]
mod tests;
