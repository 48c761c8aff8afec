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
use std::time::{Duration, Instant};

use super::{Door, Error};

/// Pause after a request, so that a process that asks without end costs the holder little. Others ask at most
/// ten times a second.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// Two doors, connected to each other on requests at the front.
#[derive(Debug)]
pub struct SocketBroker {
    /// The door at which connections are requested.
    front: Door,
    /// The door at which their other ends are delivered.
    back: Door,
    /// End of the pause after the last request.
    next: Option<Instant>,
}

impl SocketBroker {
    /// Creates a broker with this name, which is not the path of any file.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(name: &str) -> Result<Self, Error> {
        let door = || Door::connect(Path::new(name));
        Ok(Self { front: door()?, back: door()?, next: None })
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

    /// Returns descriptors that are readable when a connection is requested; none during a pause.
    pub fn asked(&self, now: Instant) -> impl Iterator<Item = BorrowedFd<'_>> {
        let doors = [&self.front, &self.back].into_iter().filter(move |_| self.due(now).is_none());
        doors.filter_map(Door::asked)
    }

    /// Returns the end of the pause, if there is one.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        self.next.filter(|next| now < *next)
    }

    /// Connects a requester with the waiting process, except during a pause. Never blocks.
    pub fn serve_request(&mut self, now: Instant) {
        if self.due(now).is_some() {
            return;
        }
        // The waiting process may request as well; it is served when the other one requests.
        let (is_awaited, is_asked) = (self.back.was_asked(), self.front.was_asked());
        if is_awaited || is_asked {
            self.next = Some(now + PAUSE);
        }
        if is_asked {
            self.connect();
        }
    }

    fn connect(&self) {
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
