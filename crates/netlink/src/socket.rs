//! Netlink requests, each with its answer.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_ECHO, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::answers::{Content, answers};
use crate::{Object, raw};

/// Buffer for a datagram in octets: the kernel fills at most 32 KiB with a part of a dump.
pub(crate) const DATAGRAM: usize = 64 << 10;
/// Attempts at a dump whose table changes meanwhile.
const DUMPS: usize = 32;

/// A netlink socket, bound to the namespace in which it was opened, wherever it is used later. Each request
/// waits for the kernel's answer, which the kernel produces within the system call.
#[derive(Debug)]
pub struct Netlink {
    connection: Mutex<Connection>,
}

#[derive(Debug)]
struct Connection {
    socket: Socket,
    /// Sequence number of the last request.
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a socket in the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, or the process is out of descriptors.
    pub fn open() -> io::Result<Self> {
        let connection = Connection { socket: open()?, sequence: 0, buffer: vec![0; DATAGRAM] };
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Dumps all objects of a kind.
    ///
    /// # Errors
    /// The kernel refuses, or the table changed during each attempt.
    pub fn all<T: Object>(&self) -> io::Result<Vec<T>> {
        self.all_kept(|_| true)
    }

    /// Dumps all objects of a kind for which `keeps` returns true.
    ///
    /// # Errors
    /// See [`Netlink::all`].
    pub fn all_kept<T: Object>(&self, keeps: fn(&T) -> bool) -> io::Result<Vec<T>> {
        T::dump(self, keeps)
    }

    /// Dumps the objects that a request asks for, and for which `keeps` returns true.
    pub(crate) fn dumped<T: Object>(
        &self,
        wanted: &RouteNetlinkMessage,
        keeps: fn(&T) -> bool,
    ) -> io::Result<Vec<T>> {
        for _ in 0..DUMPS {
            let mut objects = Vec::new();
            let mut take = |content| {
                objects.extend(object::<T>(content).map(|(_, object)| object).filter(keeps));
            };
            if self.connection().exchange(wanted.clone(), NLM_F_DUMP, &mut take)? == Dump::Whole {
                return Ok(objects);
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the table changed during each of 32 dumps"))
    }

    /// Dumps all objects of a kind once, without keeping any. Returns false if the table changed meanwhile: the
    /// dump may lack objects. One of IPv6 routes may lack some of a table that changes in any case.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn each<T: Object>(&self, take: &mut dyn FnMut(T)) -> io::Result<bool> {
        let mut read = |content| object::<T>(content).into_iter().for_each(|(_, object)| take(object));
        Ok(self.connection().exchange(T::wanted(), NLM_F_DUMP, &mut read)? == Dump::Whole)
    }

    /// Does something while the kernel heeds all of the header of a request for a dump, if it can (NETLINK_GET_STRICT_CHK, Linux
    /// 4.20).
    pub(crate) fn strictly<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_strict = self.connection().socket.set_netlink_get_strict_chk(true).is_ok();
        let done = work();
        if is_strict {
            let _ = self.connection().socket.set_netlink_get_strict_chk(false);
        }
        done
    }

    /// Sends a request for a change.
    pub(crate) fn change(&self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.connection().exchange(request, NLM_F_ACK | flags, &mut drop).map(drop)
    }

    /// Queries a single object.
    pub(crate) fn one<T: Object>(&self, request: RouteNetlinkMessage) -> io::Result<T> {
        let mut found = None;
        let mut take = |content| found = object::<T>(content).map(|(_, object)| object);
        self.connection().exchange(request, NLM_F_ACK, &mut take)?;
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Queries a queueing discipline; returns its message without the header. `None`: the kernel does not tell of it.
    pub(crate) fn one_queue(&self, request: RouteNetlinkMessage) -> io::Result<Option<Vec<u8>>> {
        let mut found = None;
        let mut take = |content| {
            if let Content::Queue(octets) = content {
                found = Some(octets);
            }
        };
        // Without the flag for an echo the kernel tells listeners only, and not who has asked.
        self.connection().exchange(request, NLM_F_ACK | NLM_F_ECHO, &mut take)?;
        Ok(found)
    }

    /// Sends a request for a change in octets, for objects that [`RouteNetlinkMessage`] does not know.
    pub(crate) fn change_raw(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.connection().exchange_raw(kind, NLM_F_ACK | flags, body).map(drop)
    }

    /// Dumps such objects: returns the octets of each.
    pub(crate) fn dump_raw(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        for _ in 0..DUMPS {
            match self.connection().exchange_raw(kind, flags, body) {
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {}
                answer => return answer,
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the table changed during each of 32 dumps"))
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // An aborted exchange does no harm: the next one uses another sequence number.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The object of an answer, and whether it exists; `None`: the answer is about something else.
fn object<T: Object>(content: Content) -> Option<(bool, T)> {
    match content {
        Content::Object(message) => T::read(message),
        Content::Queue(_) | Content::End(_) | Content::Other => None,
    }
}

/// Consistency of a dump: the table may change meanwhile.
#[derive(Debug, PartialEq, Eq)]
enum Dump {
    Whole,
    Interrupted,
}

impl Connection {
    /// Sends a request, and passes the objects and queueing disciplines of its answer to `take`.
    fn exchange(
        &mut self,
        request: RouteNetlinkMessage,
        flags: u16,
        take: &mut dyn FnMut(Content),
    ) -> io::Result<Dump> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let sequence = self.sequence;
        let octets = octets(request, NLM_F_REQUEST | flags, sequence);
        self.socket.send_to(&octets, &SocketAddr::new(0, 0), 0)?;
        let mut dump = Dump::Whole;
        loop {
            let len = receive(&self.socket, &mut self.buffer)?;
            for answer in answers(&self.buffer[..len]) {
                let answer = answer.inspect_err(|_| discard(&self.socket))?;
                if answer.sequence != sequence {
                    continue;
                }
                if answer.interrupted {
                    dump = Dump::Interrupted;
                }
                match answer.content {
                    content @ (Content::Object(_) | Content::Queue(_)) => take(content),
                    Content::End(outcome) => return outcome.map(|()| dump),
                    Content::Other => {}
                }
            }
        }
    }
}

impl Connection {
    /// Sends a request in octets; returns the octets of each object of its answer.
    fn exchange_raw(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let octets = raw::request(kind, NLM_F_REQUEST | flags, self.sequence, body);
        self.socket.send_to(&octets, &SocketAddr::new(0, 0), 0)?;
        let mut answer = raw::Answer::default();
        loop {
            let len = receive(&self.socket, &mut self.buffer)?;
            if answer.take(&self.buffer[..len], self.sequence)? {
                return Ok(answer.bodies);
            }
        }
    }
}

/// Opens an rtnetlink socket.
pub(crate) fn open() -> io::Result<Socket> {
    Socket::new(NETLINK_ROUTE)
}

/// Discards what the kernel has still to answer: it refuses another dump (EBUSY) until the last one was read to its end.
fn discard(socket: &Socket) {
    let mut none: &mut [u8] = &mut [];
    loop {
        match socket.recv_from(&mut none, libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Receives one datagram from the kernel into `buffer`. Returns its length.
pub(crate) fn receive(socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut room = &mut *buffer;
        match socket.recv_from(&mut room, libc::MSG_TRUNC) {
            // Only the kernel has port 0: datagrams of other processes are ignored.
            Ok((_, from)) if from.port_number() != 0 => {}
            Ok((len, _)) if len > buffer.len() => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is too long"));
            }
            Ok((len, _)) => return Ok(len),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn octets(request: RouteNetlinkMessage, flags: u16, sequence: u32) -> Vec<u8> {
    let mut message = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(request));
    message.header.flags = flags;
    message.header.sequence_number = sequence;
    message.finalize();
    let mut octets = vec![0; message.buffer_len()];
    message.serialize(&mut octets);
    octets
}
