//! Client side: sends requests and waits for answers, with a timeout.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::line::{encode_request, parse_answer};
use crate::{Answer, Counters, Error, LONGEST_ANSWER, Request, RunStatus};

/// Time between two attempts to connect while a run's accept queue is full.
const RETRY: Duration = Duration::from_millis(10);

/// A connection to a run.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    timeout: Duration,
}

impl Client {
    /// Connects to the socket of a run; each answer may take up to `timeout`.
    ///
    /// # Errors
    /// There is no listener, this user may not connect, or the run does not accept the connection in time.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, Error> {
        let end = Instant::now() + timeout;
        let stream = loop {
            // Non-blocking connect, to notice a run that accepts no connections.
            match door::dial(path) {
                Ok(socket) => break UnixStream::from(socket),
                Err(Errno::AGAIN) if Instant::now() < end => std::thread::sleep(RETRY),
                Err(Errno::AGAIN) => return Err(Error::new("the run lets nobody in: its queue is full")),
                Err(Errno::CONNREFUSED) => {
                    return Err(Error::new(format!("nobody listens at {}: the run is dead", path.display())));
                }
                Err(error) => {
                    return Err(Error::new(format!("cannot connect to {}: {error}", path.display())));
                }
            }
        };
        Ok(Self { stream, input: Vec::new(), timeout })
    }

    /// Sets the timeout of further answers.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// The run's error; or it does not answer in time, or violates the protocol.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, Error> {
        self.send(request)?;
        self.next_answer()
    }

    /// Asks how the run and its routers are.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn status(&mut self) -> Result<RunStatus, Error> {
        match self.ask(&Request::Ps {})? {
            Answer::Ps(status) => Ok(status),
            _ => Err(unexpected()),
        }
    }

    /// Asks for the counters of a router or a group; `None`: of the whole run.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn counters(&mut self, router: Option<&str>) -> Result<Counters, Error> {
        match self.ask(&Request::Counters { router: router.map(str::to_owned) })? {
            Answer::Counters(counters) => Ok(counters),
            _ => Err(unexpected()),
        }
    }

    /// Sends a request; read its answers with [`Client::next_answer`].
    ///
    /// # Errors
    /// The run does not read it in time.
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        let line = encode_request(request)?;
        let sent =
            self.stream.set_write_timeout(Some(self.timeout)).and_then(|()| self.stream.write_all(&line));
        match sent {
            Ok(()) => Ok(()),
            // The run has closed the connection after sending its error, which the next answer returns.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            Err(error) if is_timeout(error.kind()) => Err(self.silent()),
            Err(error) => Err(Error::new(format!("cannot send to the run: {error}"))),
        }
    }

    /// Sends a request with a descriptor.
    ///
    /// # Errors
    /// The run does not read it.
    pub fn send_with(&mut self, request: &Request, file: BorrowedFd<'_>) -> Result<(), Error> {
        let line = encode_request(request)?;
        // A request is far shorter than what a socket accepts at once.
        match fd_passing::send(&self.stream, &line, &[file], SendFlags::empty()) {
            Ok(sent) if sent == line.len() => Ok(()),
            // The run has closed the connection after sending its error, which the next answer returns.
            Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(error) => Err(Error::new(format!("cannot send to the run: {error}"))),
            Ok(_) => Err(Error::new("cannot send to the run: it does not listen")),
        }
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// Those of [`Client::ask`].
    pub fn next_answer(&mut self) -> Result<Answer, Error> {
        let end = Instant::now() + self.timeout;
        let mut searched = 0;
        loop {
            if let Some(at) = self.input.get(searched..).and_then(|new| new.iter().position(|o| *o == b'\n'))
            {
                let rest = self.input.split_off(searched + at + 1);
                let line = std::mem::replace(&mut self.input, rest);
                return parse_answer(&line)?;
            }
            searched = self.input.len();
            if searched > LONGEST_ANSWER {
                return Err(Error::new(format!("the run's answer is longer than {LONGEST_ANSWER} octets")));
            }
            self.read_more(end)?;
        }
    }

    fn read_more(&mut self, end: Instant) -> Result<(), Error> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.silent());
        }
        let mut octets = [0; 16 << 10];
        let read = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut octets));
        match read {
            Ok(0) => Err(ended()),
            Ok(len) => {
                self.input.extend_from_slice(&octets[..len]);
                Ok(())
            }
            Err(error) if is_timeout(error.kind()) || error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(ended()),
            Err(error) => Err(Error::new(format!("cannot read from the run: {error}"))),
        }
    }

    fn silent(&self) -> Error {
        Error::new(format!("the run does not answer within {} s", self.timeout.as_secs_f64()))
    }
}

/// For polls: the run hangs up when it ends.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Error for an answer of an unexpected type.
pub fn unexpected() -> Error {
    Error::new("the run answers something else than was asked: is it of another version?")
}

fn ended() -> Error {
    Error::new("the run ended before it answered")
}

fn is_timeout(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
