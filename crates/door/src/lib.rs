//! Sockets by which programs meet: a vhost-user peer connects to ours, or we connect to its.
//!
//! ```text
//!              who may open paths                         who serves the peer
//! listen   binds the path, keeps the name   -- door -->   accepts, as often as somebody comes
//! connect  dials when it is asked           <-- ask --    asks; gets the connection by a socket pair
//! ```
//!
//! So a process that may open nothing can be connected, and connected again after its peer was started anew, to this one
//! path only.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, send, socket_with,
};

mod error;
mod passage;
mod who;

pub use error::Error;
pub use passage::Passage;
pub use who::{process_at, user_at};

/// What is asked, and the answer where there is a connection. Any other answer is an errno.
const YES: u8 = 0;

/// A place where peers come in.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    kind: Kind,
    /// The file that is ours to remove: device and number.
    made: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Kind {
    Listen(UnixListener),
    Dial {
        /// Where one asks.
        ask: UnixStream,
        /// Where who dials hears it; not in the process that only asks.
        hear: Option<UnixStream>,
    },
}

impl Door {
    /// Makes a socket at `path` that peers connect to: those of this user, until somebody gives it another mode or group. One that
    /// nobody listens at any more is replaced.
    ///
    /// # Errors
    /// Somebody listens there, or the path cannot be had.
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

    /// A door through which one goes to a peer's socket. It need not be there yet.
    ///
    /// # Errors
    /// No socket pair can be had.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let pair = UnixStream::pair().and_then(|(ask, hear)| {
            ask.set_nonblocking(true)?;
            hear.set_nonblocking(true)?;
            Ok((ask, hear))
        });
        let (ask, hear) = pair.map_err(|error| Error::system("making a socket pair", error))?;
        Ok(Self { path: path.to_owned(), kind: Kind::Dial { ask, hear: Some(hear) }, made: None })
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether we are the one that listens.
    pub fn listens(&self) -> bool {
        matches!(self.kind, Kind::Listen(_))
    }

    /// The descriptor for who is to serve peers.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Listen(listener) => listener.as_fd(),
            Kind::Dial { ask, .. } => ask.as_fd(),
        }
    }

    /// A door that another process has opened, from its [`Door::descriptor`].
    pub fn adopt(path: &Path, listens: bool, descriptor: OwnedFd) -> Self {
        let kind = if listens {
            Kind::Listen(descriptor.into())
        } else {
            Kind::Dial { ask: descriptor.into(), hear: None }
        };
        Self { path: path.to_owned(), kind, made: None }
    }
}

/// For who serves peers.
impl Door {
    /// Asks for a connection; what comes of it is for [`Door::enter`]. Who listens need not ask.
    ///
    /// # Errors
    /// Nobody hears it.
    pub fn ask(&self) -> io::Result<()> {
        if let Kind::Dial { ask, .. } = &self.kind {
            // Asked already and not answered: then it will be.
            match send(ask, &[YES], SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::AGAIN) => {}
                sent => drop(sent?),
            }
            // Where nobody else dials, we do.
            self.answer();
        }
        Ok(())
    }

    /// A peer that has come, if one has; it does not wait. The connection blocks.
    ///
    /// # Errors
    /// Nobody was there when we dialled, or the door is broken.
    pub fn enter(&self) -> io::Result<Option<UnixStream>> {
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

    /// Readable when [`Door::enter`] has something to say.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.descriptor()
    }
}

/// For who may open paths.
impl Door {
    /// Readable when a connection is asked for; none where that cannot be, or is for another process to hear.
    pub fn asked(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Dial { hear: Some(hear), .. } => Some(hear.as_fd()),
            _ => None,
        }
    }

    /// Dials for who has asked, if somebody has, and hands over what comes of it. It does not wait: a local socket connects
    /// at once or not at all.
    pub fn answer(&self) {
        if self.was_asked() {
            self.hand_over(dial(&self.path));
        }
    }

    /// Whether a connection has been asked for since this was looked at last.
    fn was_asked(&self) -> bool {
        let Kind::Dial { hear: Some(hear), .. } = &self.kind else { return false };
        let heard = fd_passing::receive(hear, &mut [0; 64], 0, RecvFlags::DONTWAIT);
        heard.is_ok_and(|heard| heard.octets > 0)
    }

    /// Hands what came of it to who has asked.
    fn hand_over(&self, dialled: Result<OwnedFd, rustix::io::Errno>) {
        let Kind::Dial { hear: Some(hear), .. } = &self.kind else { return };
        let word = match &dialled {
            Ok(_) => YES,
            Err(error) => u8::try_from(error.raw_os_error()).unwrap_or(u8::MAX).max(1),
        };
        // Who does not listen to the answer asks again.
        let _ = fd_passing::send(hear, &[word], dialled.ok().as_slice(), SendFlags::DONTWAIT);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Not what somebody else has put there meanwhile.
        let here = |file: fs::Metadata| Some((file.dev(), file.ino())) == self.made;
        if self.made.is_some() && fs::symlink_metadata(&self.path).is_ok_and(here) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Places that are kept for peers until they are let in.
const BACKLOG: i32 = 128;

/// A socket at `path` that its owner alone may use, whatever this process masks.
fn bound(path: &Path) -> Result<UnixListener, rustix::io::Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The mode of the socket itself is that of its file (unix_bind_bsd), so that there is no moment in which that has another.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket that was left behind.
///
/// # Errors
/// There is none, or somebody listens there.
pub fn remove_deserted(path: &Path) -> Result<(), Error> {
    let taken = |why| Error::taken(path, why);
    let file =
        fs::symlink_metadata(path).map_err(|error| Error::system(format!("{}", path.display()), error))?;
    if !file.file_type().is_socket() {
        return Err(taken("is a file, but no socket"));
    }
    match dial(path) {
        Err(rustix::io::Errno::CONNREFUSED) => {}
        _ => return Err(taken("is a socket of another program")),
    }
    fs::remove_file(path).map_err(|error| Error::system(format!("removing {}", path.display()), error))
}

/// Connects without waiting; the connection itself waits.
///
/// # Errors
/// `AGAIN`: whoever listens there lets nobody in just now. Those of connect(2).
pub fn dial(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::io::ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

/// The answer of who dials.
fn hear_answer(ask: &UnixStream) -> Result<Option<OwnedFd>, rustix::io::Errno> {
    let mut word = [0];
    let mut heard = fd_passing::receive(ask, &mut word, 1, RecvFlags::DONTWAIT)?;
    if heard.octets == 0 || heard.truncated {
        return Err(rustix::io::Errno::PIPE);
    }
    match (word, heard.descriptors.pop()) {
        ([YES], Some(peer)) => Ok(Some(peer)),
        ([YES], None) => Err(rustix::io::Errno::BADF),
        ([errno], _) => Err(rustix::io::Errno::from_raw_os_error(errno.into())),
    }
}

#[cfg(test)]
mod tests;
