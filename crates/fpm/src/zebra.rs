//! Connection to zebra: a listening socket in the control namespace, and the one connection that counts.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use crate::Broken;
use crate::session::Session;

/// Most reads of one turn: 2 MiB, or about 20,000 routes, so that a full table comes in batches and other work gets its turn.
const READS: usize = 8;
/// Most connections that wait to be accepted.
const WAITING: usize = 4096;

/// What a turn has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing more to read for the moment.
    Empty,
    /// More may be there.
    More,
    /// The connection has ended, by zebra or because of an error.
    Closed(Option<Broken>),
}

/// Sockets towards zebra.
#[derive(Debug)]
pub struct Zebra {
    listener: TcpListener,
    stream: Option<TcpStream>,
}

impl Zebra {
    /// Serves a listening socket, which was opened in the control namespace at port [`crate::PORT`].
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { listener, stream: None })
    }

    /// Accepts a new connection, reads what is there, and sends answers. Never waits.
    ///
    /// # Errors
    /// The listening socket fails. The connection goes on.
    pub fn turn(&mut self, session: &mut Session) -> io::Result<Turn> {
        self.accept(session)?;
        let turn = self.read(session);
        if matches!(turn, Turn::Closed(_)) {
            self.stream = None;
            session.closed();
        } else {
            self.answer(session);
        }
        Ok(turn)
    }

    /// zebra will not come back: the connection ends, and those that wait to be accepted. What was not read by now is not heard.
    pub fn hang_up(&mut self, session: &mut Session) {
        self.stream = None;
        for _ in 0..WAITING {
            if self.listener.accept().is_err() {
                break;
            }
        }
        session.closed();
    }

    /// Ends the connection, so that zebra connects again, and sends everything.
    pub fn begin_anew(&mut self, session: &mut Session) {
        self.stream = None;
        session.closed();
    }

    /// Descriptors to wait for: readable when there is work.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.stream.as_ref().map(AsFd::as_fd))
    }

    /// Returns the connection if answers wait for it: writable when there is work.
    pub fn blocked(&self, session: &Session) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().filter(|_| session.has_answers()).map(AsFd::as_fd)
    }

    /// A newer connection takes the place of the former one: zebra was restarted before its end was noticed.
    fn accept(&mut self, session: &mut Session) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if stream.set_nonblocking(true).is_ok() {
                        self.stream = Some(stream);
                        session.connected();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read(&mut self, session: &mut Session) -> Turn {
        let Some(stream) = &mut self.stream else { return Turn::Empty };
        for _ in 0..READS {
            match stream.read(session.room()) {
                Ok(0) => return Turn::Closed(None),
                Ok(count) => session.filled(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Turn::Empty,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Turn::Closed(None),
            }
            if let Err(broken) = session.take() {
                return Turn::Closed(Some(broken));
            }
        }
        Turn::More
    }

    /// An error of writing is found again by the next read.
    fn answer(&mut self, session: &mut Session) {
        let Some(stream) = &mut self.stream else { return };
        while !session.answers().waiting().is_empty() {
            match stream.write(session.answers().waiting()) {
                Ok(count) if count > 0 => session.answers().sent(count),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;
