//! Connection between two processes that may both open nothing: two connected doors, without a path between
//! them.
//!
//! ```text
//!  process that hands its rings over -- front --> holder of the broker  <-- back -- process that serves them
//!                                 requests                |                waits
//!                                    <---- both ends of a new connection ---->
//! ```

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{Door, Error};

/// Two doors, connected to each other on requests at the front.
#[derive(Debug)]
pub struct SocketBroker {
    /// The door at which connections are requested.
    front: Door,
    /// The door at which their other ends are delivered.
    back: Door,
}

impl SocketBroker {
    /// Creates a broker with this name, which is not the path of any file.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(name: &str) -> Result<Self, Error> {
        Ok(Self { front: Door::connect(Path::new(name))?, back: Door::connect(Path::new(name))? })
    }

    /// Returns the door for the requesting process.
    pub const fn front(&self) -> &Door {
        &self.front
    }

    /// Returns the door for the process that waits for requesters.
    pub const fn back(&self) -> &Door {
        &self.back
    }

    /// Replaces the front, for the successor of a process that has ended; pending requests are discarded.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn renew_front(&mut self) -> Result<(), Error> {
        self.front = Door::connect(self.front.path())?;
        Ok(())
    }

    /// Replaces the back, likewise.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn renew_back(&mut self) -> Result<(), Error> {
        self.back = Door::connect(self.back.path())?;
        Ok(())
    }

    /// Returns descriptors that are readable when a connection is requested.
    pub fn asked(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.front.asked().into_iter().chain(self.back.asked())
    }

    /// Connects a requester with the waiting process. Never blocks.
    pub fn serve_request(&self) {
        // The waiting process may request as well; it is served when the other one requests.
        self.back.was_asked();
        if !self.front.was_asked() {
            return;
        }
        match UnixStream::pair() {
            Ok((one, other)) => {
                self.back.hand_over(Ok(other.into()));
                self.front.hand_over(Ok(one.into()));
            }
            Err(error) => {
                let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::MFILE);
                self.front.hand_over(Err(errno));
            }
        }
    }
}
