//! Generic netlink: families of requests whose numbers the kernel assigns when they are registered (`linux/genetlink.h`). Used
//! here are features of interfaces (family `ethtool`) and NAPI instances (family `netdev`).

mod features;
mod message;
mod napi;

use std::io;
use std::sync::{Mutex, PoisonError};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

pub use self::napi::Napi;

use self::message::{Part, RequestHeader, parts};
use crate::attribute::{Attributes, attributes};
use crate::socket::{DATAGRAM, receive};

/// The control family, which resolves family names to numbers (`GENL_ID_CTRL`), its request (`CTRL_CMD_GETFAMILY`), and its
/// attributes for number and name.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NUMBER: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Attempts at a dump whose table changes meanwhile.
const DUMPS: usize = 32;

/// A generic netlink socket, bound to the namespace in which it was opened, wherever it is used later.
#[derive(Debug)]
pub struct Generic {
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// Sequence number of the last request.
    sequence: u32,
    buffer: Vec<u8>,
}

/// A request: family, command, and attributes.
#[derive(Clone, Copy, Debug)]
struct Request<'a> {
    family: u16,
    command: u8,
    attributes: &'a Attributes,
}

/// An answer: the attributes of each of its messages.
type Bodies = Vec<Vec<u8>>;

impl Generic {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel has no generic netlink, or the process is out of descriptors.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_GENERIC)?;
        Ok(Self { connection: Mutex::new(Connection { socket, sequence: 0, buffer: vec![0; DATAGRAM] }) })
    }

    /// Resolves the name of a family to its number.
    ///
    /// # Errors
    /// ENOENT: this kernel has no family of that name.
    fn family(&self, name: &str) -> io::Result<u16> {
        let asked = Attributes::default().text(FAMILY_NAME, name);
        let answer =
            self.ask(Request { family: CONTROL, command: GET_FAMILY, attributes: &asked }, NLM_F_ACK)?;
        let number = answer.iter().flat_map(|body| attributes(body)).find_map(|(kind, value)| {
            let number: [u8; 2] = value.try_into().ok()?;
            (kind == FAMILY_NUMBER).then_some(u16::from_ne_bytes(number))
        });
        number.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }

    /// Dumps a whole table.
    fn dump(&self, question: Request<'_>) -> io::Result<Bodies> {
        for _ in 0..DUMPS {
            match self.ask(question, NLM_F_DUMP) {
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
                answer => return answer,
            }
        }
        Err(dump_interrupted())
    }

    /// Sends a request and receives its answer, once.
    fn ask(&self, question: Request<'_>, flags: u16) -> io::Result<Bodies> {
        // An aborted exchange does no harm: the next one uses another sequence number.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner).exchange(question, flags)
    }
}

impl Connection {
    fn exchange(&mut self, question: Request<'_>, flags: u16) -> io::Result<Bodies> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let Request { family, command, attributes } = question;
        let message = RequestHeader { family, flags, sequence: self.sequence, command };
        self.socket.send_to(&message.octets(attributes), &SocketAddr::new(0, 0), 0)?;
        let (mut bodies, mut interrupted) = (Vec::new(), false);
        loop {
            let len = receive(&self.socket, &mut self.buffer)?;
            for part in parts(&self.buffer[..len], self.sequence) {
                match part? {
                    Part::Body { attributes, is_interrupted } => {
                        interrupted |= is_interrupted;
                        bodies.push(attributes.to_vec());
                    }
                    Part::End(outcome) => {
                        outcome?;
                        return if interrupted { Err(dump_interrupted()) } else { Ok(bodies) };
                    }
                }
            }
        }
    }
}

fn dump_interrupted() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the table changed while it was dumped")
}

#[cfg(test)]
mod tests;
