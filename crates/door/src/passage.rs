//! A way between two processes that may both open nothing: two doors that lead to each other, with no path between them.
//!
//! ```text
//!  who is handed over -- front --> who holds the passage <-- back -- who serves
//!                      asks              |                  waits
//!                        <---- both ends of a new connection ---->
//! ```

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::{Door, Error};

/// Two doors, of which one is asked at.
#[derive(Debug)]
pub struct Passage {
    /// Where one asks for a connection.
    front: Door,
    /// Where the other end of it comes out.
    back: Door,
}

impl Passage {
    /// A passage of this name, which is no path of any file.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new(name: &str) -> Result<Self, Error> {
        Ok(Self { front: Door::connect(Path::new(name))?, back: Door::connect(Path::new(name))? })
    }

    /// For who asks.
    pub const fn front(&self) -> &Door {
        &self.front
    }

    /// For who waits for those that ask.
    pub const fn back(&self) -> &Door {
        &self.back
    }

    /// Another front, for who takes the place of one that is gone, with whatever lay before it.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn renew_front(&mut self) -> Result<(), Error> {
        self.front = Door::connect(self.front.path())?;
        Ok(())
    }

    /// Another back, likewise.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn renew_back(&mut self) -> Result<(), Error> {
        self.back = Door::connect(self.back.path())?;
        Ok(())
    }

    /// Readable when somebody asks.
    pub fn asked(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.front.asked().into_iter().chain(self.back.asked())
    }

    /// Connects who has asked with who waits. It does not wait.
    pub fn answer(&self) {
        // Who waits may ask as well; it is served when the other one comes.
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
