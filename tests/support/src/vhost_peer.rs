//! A front end of vhost-user that says and passes what it is told to: for peers that a correct one would never be.
//!
//! ```text
//!   its memory   0x0    ring 0: descriptors, +0x1000 available, +0x2000 used
//!                0x1_0000    ring 1
//!                0x10_0000   buffers of 2,048 octets
//! ```

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::cmsg_space;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Requests (vhost-user, "Front-end message types").
pub mod request {
    /// Features that the device offers; it is answered.
    pub const GET_FEATURES: u32 = 1;
    /// Features that the driver picked.
    pub const SET_FEATURES: u32 = 2;
    /// Whoever speaks owns the device.
    pub const SET_OWNER: u32 = 3;
    /// The memory table.
    pub const SET_MEM_TABLE: u32 = 5;
    /// Entries of a ring.
    pub const SET_VRING_NUM: u32 = 8;
    /// Where a ring lies.
    pub const SET_VRING_ADDR: u32 = 9;
    /// Where a ring goes on.
    pub const SET_VRING_BASE: u32 = 10;
    /// What the driver rings.
    pub const SET_VRING_KICK: u32 = 12;
    /// What the driver is rung by.
    pub const SET_VRING_CALL: u32 = 13;
}

use request::{
    GET_FEATURES, SET_FEATURES, SET_MEM_TABLE, SET_OWNER, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_CALL,
    SET_VRING_KICK, SET_VRING_NUM,
};

/// Octets of its memory.
const MEMORY: u64 = 0x20_0000;
/// Where the buffers begin, and what each has.
const BUFFERS: u64 = 0x10_0000;
const BUFFER: u32 = 2048;
/// Entries of a ring.
const ENTRIES: u16 = 64;
/// The octets of a ring, and where in them its areas are.
const RING: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
/// VIRTIO_F_VERSION_1, and nothing else.
const VERSION_1: u64 = 1 << 32;
/// VIRTQ_DESC_F_WRITE.
const WRITE: u16 = 2;

/// A connection, and memory to share.
#[derive(Debug)]
pub struct VhostPeer {
    socket: UnixStream,
    memory: File,
}

impl VhostPeer {
    /// Connects to where a back end listens.
    pub fn connect(path: &Path) -> Result<Self> {
        let socket = UnixStream::connect(path).with_context(|| path.display().to_string())?;
        let memory = File::from(memfd_create("vhost-peer", MemfdFlags::CLOEXEC)?);
        memory.set_len(MEMORY)?;
        Ok(Self { socket, memory })
    }

    /// Sends one message with these descriptors.
    pub fn say(&self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let header = [request, 1, body.len() as u32].map(u32::to_le_bytes).concat();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        sendmsg(
            &self.socket,
            &[IoSlice::new(&header), IoSlice::new(body)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Agrees on the plainest modern driver, and shares its memory: what an honest peer begins with.
    pub fn begin(&self) -> Result<()> {
        self.say(SET_OWNER, &[], &[])?;
        self.say(SET_FEATURES, &VERSION_1.to_le_bytes(), &[])?;
        self.share(&[[0, MEMORY, 0, 0]], &[self.memory.as_fd()])
    }

    /// A memory table: guest-physical address, octets, the peer's own address and the place in the file of each range.
    pub fn share(&self, ranges: &[[u64; 4]], files: &[BorrowedFd<'_>]) -> Result<()> {
        let words = ranges.iter().flatten().flat_map(|word| word.to_le_bytes());
        let table: Vec<u8> = (ranges.len() as u64).to_le_bytes().into_iter().chain(words).collect();
        self.say(SET_MEM_TABLE, &table, files)
    }

    /// Lays out a ring; all that it takes to serve it is there with its doorbell.
    pub fn lay_out(&self, ring: u32, call: &OwnedFd) -> Result<()> {
        let state = |value: u32| [ring, value].map(u32::to_le_bytes).concat();
        self.say(SET_VRING_NUM, &state(ENTRIES.into()), &[])?;
        self.say(SET_VRING_BASE, &state(0), &[])?;
        let at = u64::from(ring) * RING;
        let places = [at, at + USED, at + AVAILABLE, 0].map(u64::to_le_bytes).concat();
        self.say(SET_VRING_ADDR, &[state(0), places].concat(), &[])?;
        self.say(SET_VRING_CALL, &u64::from(ring).to_le_bytes(), &[call.as_fd()])
    }

    /// Gives a ring its doorbell: from here on it is served.
    pub fn give_doorbell(&self, ring: u32) -> Result<()> {
        self.say(SET_VRING_KICK, &u64::from(ring).to_le_bytes(), &[event()?.as_fd()])
    }

    /// Posts a buffer in each entry of a ring, to be written.
    pub fn post(&self, ring: u32) -> Result<()> {
        let at = u64::from(ring) * RING;
        for entry in 0..ENTRIES {
            let buffer = BUFFERS + u64::from(entry) * u64::from(BUFFER);
            let rest = [WRITE, 0].map(u16::to_le_bytes).concat();
            let descriptor = [buffer.to_le_bytes().to_vec(), BUFFER.to_le_bytes().to_vec(), rest].concat();
            self.memory.write_all_at(&descriptor, at + 16 * u64::from(entry))?;
            self.memory.write_all_at(&entry.to_le_bytes(), at + AVAILABLE + 4 + 2 * u64::from(entry))?;
        }
        Ok(self.memory.write_all_at(&ENTRIES.to_le_bytes(), at + AVAILABLE + 2)?)
    }

    /// Waits until the other side has heard all that was said.
    pub fn wait_until_heard(&self) -> Result<()> {
        self.say(GET_FEATURES, &[], &[])?;
        // The header, and a word.
        (&self.socket).read_exact(&mut [0; 12 + 8]).context("it does not answer")
    }

    /// Whether the other side has closed the connection.
    pub fn is_left(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds[0].revents().is_empty()
    }
}

/// An event descriptor as an honest peer has it.
pub fn event() -> Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Whether somebody has rung it, and nobody has noticed.
pub fn is_rung(event: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(event, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(1)
}

/// Makes whoever writes to an event descriptor wait, until somebody reads it.
pub fn make_wait(event: &OwnedFd) -> Result<()> {
    // What is in it already is taken out first, if anything is.
    let _ = rustix::io::read(event, &mut [0; 8]);
    fcntl_setfl(event, OFlags::empty())?;
    rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes())?;
    Ok(())
}
