//! Programs at a `vhost-user-frontend:` socket, which are handed a router's memory and rings, and misuse them.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstatfs, memfd_create};
use rustix::net::RecvFlags;

use super::Attack;
use crate::vhost_peer::make_wait;
use crate::vhost_peer::request::{
    GET_FEATURES, GET_PROTOCOL_FEATURES, SET_MEM_TABLE, SET_PROTOCOL_FEATURES, SET_VRING_KICK,
};

/// VIRTIO_F_VERSION_1, and nothing else.
const VERSION_1: u64 = 1 << 32;
/// VHOST_USER_F_PROTOCOL_FEATURES (protocol features exist), and the protocol feature REPLY_ACK (requests are
/// acknowledged).
const PROTOCOL: u64 = 1 << 30;
const REPLY_ACK: u64 = 1 << 3;
/// `f_type` of hugetlbfs.
const HUGETLBFS: i64 = 0x9584_58f6;
/// Interval between two checks for a connection.
const LOOK: Duration = Duration::from_millis(5);
/// Longest body of a message.
const LONGEST: usize = 4096;

/// Misuse by a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Takes the pages out of the memory that it was handed; huge pages it keeps for itself.
    Pages,
    /// Takes the rings, and never gives them back.
    Keep,
    /// Fills the doorbells (kick eventfds) that it was handed, so that writers block.
    FillKick,
    /// Never replies.
    Silence,
    /// Sends replies that were not requested.
    Nonsense,
}

/// Program that performs a misuse.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    misuse: Misuse,
    listener: Option<UnixListener>,
    had: Option<HandedOver>,
}

/// Connection, and the memory handed over by it.
#[derive(Debug)]
struct HandedOver {
    stream: UnixStream,
    memory: File,
    /// Pages that were huge pages of the router's.
    thief: Option<File>,
}

impl Program {
    /// Creates a program at whose socket a router connects.
    pub fn new(path: &Path, misuse: Misuse) -> Self {
        Self { path: path.to_owned(), misuse, listener: None, had: None }
    }

    /// Accepts the next connection; none before `until`.
    fn accept(&mut self, until: Instant) -> Result<Option<UnixStream>> {
        if self.listener.is_none() {
            let _ = fs::remove_file(&self.path);
            let listener = UnixListener::bind(&self.path).with_context(|| self.path.display().to_string())?;
            listener.set_nonblocking(true)?;
            self.listener = Some(listener);
        }
        while let Some(listener) = &self.listener
            && Instant::now() < until
        {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
                    return Ok(Some(stream));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(LOOK),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Receives a router's memory and rings, unless it has them.
    fn take(&mut self, until: Instant) -> Result<bool> {
        if self.had.as_ref().is_none_or(HandedOver::is_closed) {
            self.had = None;
            let Some(stream) = self.accept(until)? else { return Ok(false) };
            // A peer that does not hand them over is not awaited any longer.
            self.had = be_handed(&stream).ok().map(|memory| HandedOver { stream, memory, thief: None });
        }
        let Some(had) = &mut self.had else { return Ok(false) };
        if self.misuse == Misuse::Pages {
            had.punch()?;
        }
        Ok(true)
    }

    /// Fills the doorbells of one connection, until that is closed.
    fn fill_kicks(&mut self, until: Instant) -> Result<bool> {
        let Some(stream) = self.accept(until)? else { return Ok(false) };
        let mut doorbells = Vec::new();
        // From then on the peer waits for an acknowledgement of each request.
        let mut is_acked = false;
        while let Ok((request, doorbell)) = hear(&stream) {
            let answer = match request {
                GET_FEATURES => Some(VERSION_1 | PROTOCOL),
                GET_PROTOCOL_FEATURES => Some(REPLY_ACK),
                _ => is_acked.then_some(0),
            };
            is_acked |= request == SET_PROTOCOL_FEATURES;
            if request == SET_VRING_KICK {
                let doorbell = OwnedFd::from(doorbell.context("a ring without a doorbell")?);
                make_wait(&doorbell)?;
                doorbells.push(doorbell);
            }
            if let Some(answer) = answer {
                say(&stream, request, answer)?;
            }
        }
        Ok(!doorbells.is_empty())
    }

    fn say_nothing(&mut self, until: Instant) -> Result<bool> {
        let Some(stream) = self.accept(until)? else { return Ok(false) };
        read_to_the_end(&stream, until)?;
        Ok(true)
    }

    fn say_nonsense(&mut self, until: Instant) -> Result<bool> {
        let Some(mut stream) = self.accept(until)? else { return Ok(false) };
        let nonsense = [SET_MEM_TABLE, 5, LONGEST as u32].map(u32::to_le_bytes).concat();
        let _ = stream.write_all(&[nonsense, vec![0xa5; LONGEST]].concat());
        read_to_the_end(&stream, until)?;
        Ok(true)
    }
}

impl Attack for Program {
    fn act(&mut self, until: Instant) -> Result<bool> {
        match self.misuse {
            Misuse::Pages | Misuse::Keep => self.take(until),
            Misuse::FillKick => self.fill_kicks(until),
            Misuse::Silence => self.say_nothing(until),
            Misuse::Nonsense => self.say_nonsense(until),
        }
    }

    fn rest(&mut self) -> Result<()> {
        (self.listener, self.had) = (None, None);
        let _ = fs::remove_file(&self.path);
        Ok(())
    }
}

impl HandedOver {
    fn is_closed(&self) -> bool {
        // No more replies are sent: further requests wait.
        self.stream.set_nonblocking(true).is_err() || matches!((&self.stream).read(&mut [0; 64]), Ok(0))
    }

    fn punch(&mut self) -> Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let octets = self.memory.metadata()?.len();
        fallocate(&self.memory, hole, 0, octets)?;
        if self.thief.is_none() && fstatfs(&self.memory)?.f_type == HUGETLBFS {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
            let thief = File::from(memfd_create("thief", flags)?);
            thief.set_len(octets)?;
            // Pages that the router accesses meanwhile are allocated again: then try later.
            let taken = fallocate(&thief, FallocateFlags::empty(), 0, octets);
            self.thief = taken.ok().map(|()| thief);
        }
        Ok(())
    }
}

/// Plays an honest program on this connection until it has been handed a router's memory.
///
/// # Errors
/// The peer does not hand it over.
pub fn be_handed(stream: &UnixStream) -> Result<File> {
    loop {
        match hear(stream)? {
            (GET_FEATURES, _) => {
                say(stream, GET_FEATURES, VERSION_1)?;
            }
            (SET_MEM_TABLE, memory) => {
                return memory.context("a table without a file");
            }
            _ => {}
        }
    }
}

/// Receives requests until this one, and does not reply.
///
/// # Errors
/// The connection ends before that.
pub fn be_asked(stream: &UnixStream, request: u32) -> Result<()> {
    while hear(stream)?.0 != request {}
    Ok(())
}

/// Replies with a number.
fn say(mut stream: &UnixStream, request: u32, answer: u64) -> Result<()> {
    let head = [request, 5, 8].map(u32::to_le_bytes).concat();
    Ok(stream.write_all(&[head, answer.to_le_bytes().to_vec()].concat())?)
}

/// Receives one message, without its body, with the descriptor that accompanies it.
fn hear(stream: &UnixStream) -> Result<(u32, Option<File>)> {
    let mut header = [0; 12];
    let mut heard = fd_passing::receive(stream, &mut header, 1, RecvFlags::WAITALL)?;
    ensure!(heard.octets == 12, "{} octets of a header", heard.octets);
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let body = word(8) as usize;
    ensure!(body <= LONGEST, "a body of {body} octets");
    (&mut &*stream).read_exact(&mut vec![0; body])?;
    Ok((word(0), heard.descriptors.pop().map(File::from)))
}

/// Reads until the peer closes the connection, or `until`.
fn read_to_the_end(mut stream: &UnixStream, until: Instant) -> Result<()> {
    stream.set_read_timeout(Some(LOOK))?;
    let mut octets = [0; LONGEST];
    while Instant::now() < until {
        match stream.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}
