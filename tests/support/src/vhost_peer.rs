//! A vhost-user frontend that sends arbitrary messages, to play incorrect peers.
//!
//! ```text
//!   its memory   0x0    ring 0: descriptors, +0x8_0000 available, +0xa_0000 used
//!                0x10_0000   ring 1
//!                0x20_0000   buffers of 2,048 octets
//! ```

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::net::SendFlags;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Requests (vhost-user, "Front-end message types").
pub mod request {
    /// Returns the features that the device offers; it has a reply.
    pub const GET_FEATURES: u32 = 1;
    /// Sets the features that the driver accepted.
    pub const SET_FEATURES: u32 = 2;
    /// Declares the sender the owner of the device.
    pub const SET_OWNER: u32 = 3;
    /// The memory table.
    pub const SET_MEM_TABLE: u32 = 5;
    /// Sets the number of entries of a ring.
    pub const SET_VRING_NUM: u32 = 8;
    /// Sets the addresses of a ring.
    pub const SET_VRING_ADDR: u32 = 9;
    /// Sets the index at which a ring starts.
    pub const SET_VRING_BASE: u32 = 10;
    /// Stops a ring, and returns its index; it has a reply.
    pub const GET_VRING_BASE: u32 = 11;
    /// Sets the eventfd that the driver signals (doorbell).
    pub const SET_VRING_KICK: u32 = 12;
    /// Sets the eventfd that signals the driver (call).
    pub const SET_VRING_CALL: u32 = 13;
    /// Returns the offered protocol features; it has a reply.
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    /// Sets the accepted protocol features.
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
}

use request::{
    GET_FEATURES, GET_VRING_BASE, SET_FEATURES, SET_MEM_TABLE, SET_OWNER, SET_VRING_ADDR, SET_VRING_BASE,
    SET_VRING_CALL, SET_VRING_KICK, SET_VRING_NUM,
};

/// Size of its memory in octets.
pub const MEMORY: u64 = 0x40_0000;
/// Offset of the buffers, and length of each.
pub const BUFFERS: u64 = 0x20_0000;
const BUFFER: u32 = 2048;
/// Default number of entries of a ring.
const ENTRIES: u16 = 64;
/// Most entries with a buffer of their own.
const MOST_BUFFERS: u16 = ((MEMORY - BUFFERS) / BUFFER as u64) as u16;
/// Octets reserved for a ring, and offsets of its areas; the largest ring has 32,768 entries.
const RING: u64 = 0x10_0000;
const AVAILABLE: u64 = 0x8_0000;
const USED: u64 = 0xa_0000;
/// VIRTIO_F_VERSION_1, the only feature.
const VERSION_1: u64 = 1 << 32;
/// VIRTQ_DESC_F_NEXT: the chain continues.
pub const NEXT: u16 = 1;
/// VIRTQ_DESC_F_WRITE: the device writes the buffer.
pub const WRITE: u16 = 2;

/// Connection with memory to share.
#[derive(Debug)]
pub struct VhostPeer {
    socket: UnixStream,
    memory: File,
    entries: u16,
}

impl VhostPeer {
    /// Connects to a listening backend.
    pub fn connect(path: &Path) -> Result<Self> {
        Self::over(UnixStream::connect(path).with_context(|| path.display().to_string())?)
    }

    /// Creates a peer on an existing connection.
    pub fn over(socket: UnixStream) -> Result<Self> {
        let memory = File::from(memfd_create("vhost-peer", MemfdFlags::CLOEXEC)?);
        memory.set_len(MEMORY)?;
        Ok(Self { socket, memory, entries: ENTRIES })
    }

    /// Returns another handle to the same connection and memory.
    pub fn try_clone(&self) -> Result<Self> {
        let (socket, memory) = (self.socket.try_clone()?, self.memory.try_clone()?);
        Ok(Self { socket, memory, entries: self.entries })
    }

    /// Sets the number of entries of its rings: a power of two up to 32,768.
    pub fn with_entries(mut self, entries: u16) -> Self {
        self.entries = entries;
        self
    }

    /// Returns the connection.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Returns the file of its memory.
    pub fn memory(&self) -> &File {
        &self.memory
    }

    /// Sends one message with these descriptors.
    pub fn send(&self, request: u32, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<()> {
        let header = [request, 1, body.len() as u32].map(u32::to_le_bytes).concat();
        fd_passing::send(&self.socket, &[header.as_slice(), body].concat(), fds, SendFlags::empty())?;
        Ok(())
    }

    /// Accepts the features of a minimal modern driver, and shares its memory: the start of an honest peer.
    pub fn begin(&self) -> Result<()> {
        self.send(SET_OWNER, &[], &[])?;
        self.send(SET_FEATURES, &VERSION_1.to_le_bytes(), &[])?;
        self.share_memory()
    }

    /// Shares its memory, possibly again.
    pub fn share_memory(&self) -> Result<()> {
        self.share(&[[0, MEMORY, 0, 0]], &[self.memory.as_fd()])
    }

    /// Sends a memory table: guest-physical address, length, the peer's own address and the offset in the file of each
    /// range.
    pub fn share(&self, ranges: &[[u64; 4]], files: &[BorrowedFd<'_>]) -> Result<()> {
        let words = ranges.iter().flatten().flat_map(|word| word.to_le_bytes());
        let table: Vec<u8> = (ranges.len() as u64).to_le_bytes().into_iter().chain(words).collect();
        self.send(SET_MEM_TABLE, &table, files)
    }

    /// Sets up a ring completely except for its doorbell.
    pub fn lay_out(&self, ring: u32, call: &OwnedFd) -> Result<()> {
        let state = |value: u32| [ring, value].map(u32::to_le_bytes).concat();
        self.send(SET_VRING_NUM, &state(self.entries.into()), &[])?;
        self.send(SET_VRING_BASE, &state(0), &[])?;
        let at = u64::from(ring) * RING;
        let places = [at, at + USED, at + AVAILABLE, 0].map(u64::to_le_bytes).concat();
        self.send(SET_VRING_ADDR, &[state(0), places].concat(), &[])?;
        self.send(SET_VRING_CALL, &u64::from(ring).to_le_bytes(), &[call.as_fd()])
    }

    /// Gives a ring its doorbell: from then on it is served.
    pub fn give_doorbell(&self, ring: u32) -> Result<OwnedFd> {
        let doorbell = event()?;
        self.send(SET_VRING_KICK, &u64::from(ring).to_le_bytes(), &[doorbell.as_fd()])?;
        Ok(doorbell)
    }

    /// Writes a descriptor of a ring: with `NEXT` in its flags the chain continues at the following entry.
    pub fn describe(&self, ring: u32, entry: u16, buffer: (u64, u32), flags: u16) -> Result<()> {
        self.describe_to(ring, entry, buffer, (flags, entry.wrapping_add(1)))
    }

    /// Writes a descriptor of a ring whose chain continues anywhere.
    pub fn describe_to(&self, ring: u32, entry: u16, buffer: (u64, u32), rest: (u16, u16)) -> Result<()> {
        let rest = [rest.0, rest.1].map(u16::to_le_bytes).concat();
        let octets = [buffer.0.to_le_bytes().to_vec(), buffer.1.to_le_bytes().to_vec(), rest].concat();
        Ok(self.memory.write_all_at(&octets, u64::from(ring) * RING + 16 * u64::from(entry))?)
    }

    /// Writes all entries of a ring's available area: `head` gives the chain offered in each.
    pub fn offer(&self, ring: u32, head: impl Fn(u16) -> u16) -> Result<()> {
        let heads: Vec<u8> = (0..self.entries).flat_map(|place| head(place).to_le_bytes()).collect();
        Ok(self.memory.write_all_at(&heads, u64::from(ring) * RING + AVAILABLE + 4)?)
    }

    /// Posts a writable buffer in each entry of a ring.
    pub fn post(&self, ring: u32) -> Result<()> {
        ensure!(self.entries <= MOST_BUFFERS, "{} entries have no buffers", self.entries);
        for entry in 0..self.entries {
            let buffer = BUFFERS + u64::from(entry) * u64::from(BUFFER);
            self.describe(ring, entry, (buffer, BUFFER), WRITE)?;
        }
        self.offer(ring, |place| place)?;
        Ok(self.memory.write_all_at(&self.entries.to_le_bytes(), u64::from(ring) * RING + AVAILABLE + 2)?)
    }

    /// Maps its memory as ring words, which can be changed while the rings are served.
    pub fn words(&self) -> Result<RingWords> {
        let file = FileOffset::new(self.memory.try_clone()?, 0);
        Ok(RingWords(MmapRegion::from_file(file, MEMORY as usize).context("cannot map its memory")?))
    }

    /// Waits until the backend has processed all earlier messages.
    pub fn wait_until_heard(&self) -> Result<()> {
        self.send(GET_FEATURES, &[], &[])?;
        // The header, and a word.
        (&self.socket).read_exact(&mut [0; 12 + 8]).context("it does not answer")
    }

    /// Takes a ring back; returns its index.
    pub fn take_back(&self, ring: u32) -> Result<u32> {
        self.send(GET_VRING_BASE, &[ring, 0].map(u32::to_le_bytes).concat(), &[])?;
        let mut answer = [0; 12 + 8];
        (&self.socket).read_exact(&mut answer).context("it does not answer")?;
        Ok(u32::from_le_bytes([answer[16], answer[17], answer[18], answer[19]]))
    }

    /// Returns true if the backend has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.is_left_within(Duration::ZERO)
    }

    /// Returns true if the backend closes the connection within `most`.
    pub fn is_left_within(&self, most: Duration) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        poll(&mut fds, Timespec::try_from(most).ok().as_ref()).is_ok() && !fds[0].revents().is_empty()
    }
}

/// Words of a peer's rings in its memory.
#[derive(Debug)]
pub struct RingWords(MmapRegion);

impl RingWords {
    /// Sets the available index.
    pub fn set_available(&self, ring: u32, index: u16) -> Result<()> {
        self.store(u64::from(ring) * RING + AVAILABLE + 2, index)
    }

    /// Suppresses interrupts for used chains (VIRTQ_AVAIL_F_NO_INTERRUPT).
    pub fn ask_for_silence(&self, ring: u32) -> Result<()> {
        self.store(u64::from(ring) * RING + AVAILABLE, 1)
    }

    /// Returns the used index.
    pub fn used(&self, ring: u32) -> Result<u16> {
        self.load(u64::from(ring) * RING + USED + 2)
    }

    /// Returns true if the device wants to be notified of available chains.
    pub fn wants_bell(&self, ring: u32) -> Result<bool> {
        std::sync::atomic::fence(Ordering::SeqCst);
        Ok(self.load(u64::from(ring) * RING + USED)? & 1 == 0)
    }

    /// Writes a word anywhere.
    pub fn store(&self, at: u64, word: u16) -> Result<()> {
        Ok(self.0.as_volatile_slice().store(word, at as usize, Ordering::Release)?)
    }

    fn load(&self, at: u64) -> Result<u16> {
        Ok(self.0.as_volatile_slice().load(at as usize, Ordering::Acquire)?)
    }
}

/// Rings a doorbell.
pub fn ring(doorbell: &OwnedFd) {
    // A full counter is already signalled.
    let _ = rustix::io::write(doorbell, &1_u64.to_ne_bytes());
}

/// Creates an eventfd like that of an honest peer.
pub fn event() -> Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Returns true if the eventfd is signalled.
pub fn is_rung(event: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(event, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)) == Ok(1)
}

/// Makes writers to an eventfd block until it is read.
pub fn make_wait(event: &OwnedFd) -> Result<()> {
    // It may be signalled meanwhile: read its value until the maximum can be written.
    fcntl_setfl(event, OFlags::NONBLOCK)?;
    while rustix::io::write(event, &(u64::MAX - 1).to_ne_bytes()).is_err() {
        let _ = rustix::io::read(event, &mut [0; 8]);
    }
    Ok(fcntl_setfl(event, OFlags::empty())?)
}
