//! Machines of other programs at a `vhost-user-backend:` socket, each of which misbehaves.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::Attack;
use crate::vhost_peer::request::{GET_FEATURES, SET_FEATURES, SET_OWNER};
use crate::vhost_peer::{BUFFERS, MEMORY, NEXT, RingWords, VhostPeer, WRITE, event, make_wait, ring};

/// Indices of the ring that the device fills, and of the one that it empties.
const RECEIVE: u32 = 0;
const TRANSMIT: u32 = 1;
/// Entries of the largest valid ring.
const LARGEST: u16 = 32_768;
/// Descriptors of the longest valid chain.
const LONGEST_CHAIN: u16 = 256;
/// Ranges of the largest memory table, and most descriptors of a message.
const MOST: usize = 32;
const TERABYTE: u64 = 1 << 40;
/// Interval between two checks whether it is accepted, or disconnected.
const LOOK: Duration = Duration::from_millis(5);
/// Wait that is shorter than the backend's own checking interval.
const A_LITTLE: Duration = Duration::from_millis(40);
/// Acts between two readings of the clock.
const BURST: usize = 1000;

/// Attack of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Makes the backend block when it signals an interrupt (call eventfd).
    Wait,
    /// Makes each signal block, but never for long.
    WaitALittle,
    /// Shares 32 ranges of a terabyte each.
    Terabytes,
    /// Shares a file on a disk.
    Disk,
    /// Has rings of 32,768 entries, each of which offers the same chain of 256 descriptors, in both
    /// directions.
    Chains,
    /// Offers an endless chain.
    Loop,
    /// Connects and disconnects repeatedly.
    Hasty,
    /// Sends a message octet by octet, and never completes it.
    Crumbs,
    /// Adds 32 descriptors to a message that takes none.
    Descriptors,
    /// Rings its doorbells without offering anything.
    Kicks,
    /// Takes its rings back and sets them up again while frames are in them.
    Bases,
    /// Shares its memory again while frames are in it.
    Tables,
    /// Truncates its memory while it is accessed.
    Cut,
    /// Changes indices, heads and descriptors while they are read.
    Indices,
    /// Sends requests and reads no replies.
    Deaf,
}

impl Deed {
    /// All deeds.
    pub const ALL: [Self; 15] = [
        Self::Wait,
        Self::WaitALittle,
        Self::Terabytes,
        Self::Disk,
        Self::Chains,
        Self::Loop,
        Self::Hasty,
        Self::Crumbs,
        Self::Descriptors,
        Self::Kicks,
        Self::Bases,
        Self::Tables,
        Self::Cut,
        Self::Indices,
        Self::Deaf,
    ];
}

/// Machine that performs a deed.
#[derive(Debug)]
pub struct Machine {
    socket: PathBuf,
    /// Folder on a disk.
    folder: PathBuf,
    deed: Deed,
    /// Connection that has sent a request which is not answered yet.
    waits: Option<VhostPeer>,
    met: Option<ServedConnection>,
    noise: u64,
}

/// Connection whose rings are served.
#[derive(Debug)]
struct ServedConnection {
    peer: VhostPeer,
    calls: Vec<OwnedFd>,
    doorbells: Vec<OwnedFd>,
    words: RingWords,
}

impl Machine {
    /// Creates a machine for the backend that listens here; its file on a disk goes into `folder`.
    pub fn new(socket: &Path, folder: &Path, deed: Deed) -> Self {
        Self { socket: socket.to_owned(), folder: folder.to_owned(), deed, waits: None, met: None, noise: 1 }
    }

    /// Attacks once, with the memory and rings already set up if the connection is still open.
    fn go_on(&mut self, until: Instant) -> Result<bool> {
        if self.met.as_ref().is_none_or(|met| met.peer.is_closed()) {
            self.met = None;
            let Some(peer) = self.meet(until)? else { return Ok(false) };
            self.met = ServedConnection::lay_out(peer, self.deed).ok();
        }
        let Some(met) = &self.met else { return Ok(false) };
        let done = match self.deed {
            Deed::Chains => met.refill(),
            Deed::Kicks => met.kick(),
            Deed::Bases => met.lay_out_anew(),
            Deed::Tables => met.share_anew(),
            _ => scramble(met, &mut self.noise),
        };
        // A connection that is closed in the middle starts anew next time.
        Ok(done.is_ok() || !met.peer.is_closed())
    }

    /// Returns a connection on which a request was answered; none before `until`.
    fn meet(&mut self, until: Instant) -> Result<Option<VhostPeer>> {
        if self.waits.as_ref().is_none_or(VhostPeer::is_closed) {
            let entries = if self.deed == Deed::Chains { LARGEST } else { 64 };
            let peer = self.connect(until)?.map(|peer| peer.with_entries(entries));
            let asked = |peer: &VhostPeer| peer.begin().and_then(|()| peer.send(GET_FEATURES, &[], &[]));
            self.waits = peer.filter(|peer| asked(peer).is_ok());
        }
        let is_met = self.waits.as_ref().is_some_and(|peer| is_answered(peer, until));
        Ok(self.waits.take_if(|_| is_met))
    }

    /// Connects as soon as there is room.
    fn connect(&self, until: Instant) -> Result<Option<VhostPeer>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let address = SocketAddrUnix::new(&self.socket)?;
        while Instant::now() < until {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            match connect(&socket, &address) {
                Ok(()) => {
                    let stream = UnixStream::from(socket);
                    stream.set_nonblocking(false)?;
                    return VhostPeer::over(stream).map(Some);
                }
                Err(Errno::AGAIN) => sleep(LOOK),
                Err(error) => return Err(error).with_context(|| self.socket.display().to_string()),
            }
        }
        Ok(None)
    }

    /// Performs a deed, for which the connection is closed, on a connection of its own.
    fn be_sent_away(&mut self, until: Instant, deed: impl FnOnce(&VhostPeer) -> Result<()>) -> Result<bool> {
        let Some(peer) = self.meet(until)? else { return Ok(false) };
        let said = deed(&peer);
        // A connection closed in the middle cannot send more.
        if is_closed(&peer, until) { Ok(true) } else { said.map(|()| false) }
    }

    /// Sends octet by octet; the header announces more than will come.
    fn crumbs(&mut self, until: Instant) -> Result<bool> {
        let Some(peer) = self.meet(until)? else { return Ok(false) };
        let message = [SET_FEATURES, 1, 8, 0].map(u32::to_le_bytes).concat();
        for octet in message {
            if is_closed(&peer, (Instant::now() + Duration::from_millis(100)).min(until)) {
                return Ok(true);
            }
            let _ = rustix::io::write(peer.socket(), &[octet]);
        }
        is_closed(&peer, until);
        Ok(true)
    }

    fn hurry(&self, until: Instant) -> Result<bool> {
        let Some(peer) = self.connect(until)? else { return Ok(false) };
        drop(peer);
        Ok(true)
    }

    fn say_much(&self, until: Instant) -> Result<bool> {
        let Some(peer) = self.connect(until)? else { return Ok(false) };
        peer.socket().set_nonblocking(true)?;
        while Instant::now() < until && !peer.is_closed() {
            if peer.send(GET_FEATURES, &[], &[]).is_err() {
                sleep(LOOK);
            }
        }
        Ok(peer.is_closed())
    }
}

impl Attack for Machine {
    fn act(&mut self, until: Instant) -> Result<bool> {
        match self.deed {
            Deed::Wait => self.be_sent_away(until, wait_for_ever),
            Deed::WaitALittle => self.be_sent_away(until, |peer| hold_up(peer, until)),
            Deed::Terabytes => self.be_sent_away(until, share_terabytes),
            Deed::Disk => {
                let path = self.folder.join("memory");
                self.be_sent_away(until, |peer| share_a_disk(peer, &path))
            }
            Deed::Loop => self.be_sent_away(until, never_end),
            Deed::Cut => self.be_sent_away(until, cut_off),
            Deed::Descriptors => self.be_sent_away(until, say_with_descriptors),
            Deed::Hasty => self.hurry(until),
            Deed::Crumbs => self.crumbs(until),
            Deed::Deaf => self.say_much(until),
            Deed::Chains | Deed::Kicks | Deed::Bases | Deed::Tables | Deed::Indices => self.go_on(until),
        }
    }

    fn rest(&mut self) -> Result<()> {
        self.met = None;
        Ok(())
    }
}

impl ServedConnection {
    /// Sets both rings up, as this deed requires.
    fn lay_out(peer: VhostPeer, deed: Deed) -> Result<Self> {
        if deed == Deed::Chains {
            chain(&peer, RECEIVE, WRITE)?;
            chain(&peer, TRANSMIT, 0)?;
        } else {
            peer.post(RECEIVE)?;
            send_noise(&peer)?;
        }
        let (mut calls, mut doorbells) = (Vec::new(), Vec::new());
        for number in [RECEIVE, TRANSMIT] {
            let call = event()?;
            peer.lay_out(number, &call)?;
            doorbells.push(peer.give_doorbell(number)?);
            calls.push(call);
        }
        let words = peer.words()?;
        Ok(Self { peer, calls, doorbells, words })
    }

    /// Offers used entries again.
    fn offer_again(&self, entries: u16) -> Result<()> {
        for (number, doorbell) in [RECEIVE, TRANSMIT].into_iter().zip(&self.doorbells) {
            self.words.set_available(number, self.words.used(number)?.wrapping_add(entries))?;
            if self.words.wants_bell(number)? {
                ring(doorbell);
            }
        }
        Ok(())
    }

    fn refill(&self) -> Result<()> {
        self.offer_again(LARGEST)?;
        sleep(Duration::from_micros(100));
        Ok(())
    }

    fn kick(&self) -> Result<()> {
        for _ in 0..BURST {
            self.doorbells.iter().for_each(ring);
        }
        Ok(())
    }

    fn lay_out_anew(&self) -> Result<()> {
        for (number, call) in [RECEIVE, TRANSMIT].into_iter().zip(&self.calls) {
            self.peer.take_back(number)?;
            self.peer.lay_out(number, call)?;
            self.peer.give_doorbell(number)?;
        }
        self.offer_again(64)
    }

    fn share_anew(&self) -> Result<()> {
        self.peer.share_memory()?;
        self.offer_again(64)?;
        self.peer.wait_until_heard()
    }
}

/// Stores arbitrary values in the rings, where the backend reads them.
fn scramble(met: &ServedConnection, noise: &mut u64) -> Result<()> {
    for _ in 0..BURST {
        // xorshift64; any numbers will do.
        *noise ^= *noise << 13;
        *noise ^= *noise >> 7;
        *noise ^= *noise << 17;
        let (word, number) = (*noise as u16, (*noise >> 16) as u32 & 1);
        match (*noise >> 17) & 7 {
            0 => met.words.set_available(number, word)?,
            1 => ring(&met.doorbells[number as usize]),
            // A word of a descriptor, or of an available entry, of the 64 that exist.
            2..5 => met.words.store(u64::from(number) * 0x10_0000 + ((*noise >> 20) & 0x3fe), word)?,
            _ => met.words.store(u64::from(number) * 0x10_0000 + 0x8_0004 + ((*noise >> 20) & 0x7e), word)?,
        }
    }
    Ok(())
}

fn wait_for_ever(peer: &VhostPeer) -> Result<()> {
    let call = event()?;
    peer.post(RECEIVE)?;
    peer.lay_out(RECEIVE, &call)?;
    // Received frames are signalled; so are sent ones.
    let other = event()?;
    send_noise(peer)?;
    peer.lay_out(TRANSMIT, &other)?;
    // They are checked on arrival.
    peer.wait_until_heard()?;
    make_wait(&call)?;
    make_wait(&other)?;
    peer.give_doorbell(RECEIVE)?;
    ring(&peer.give_doorbell(TRANSMIT)?);
    Ok(())
}

/// Lets a blocked signal continue after [`A_LITTLE`], and makes the next one block again.
fn hold_up(peer: &VhostPeer, until: Instant) -> Result<()> {
    let met = ServedConnection::lay_out(peer.try_clone()?, Deed::WaitALittle)?;
    // They are checked on arrival.
    peer.wait_until_heard()?;
    while !peer.is_closed() && Instant::now() < until {
        met.calls.iter().try_for_each(make_wait)?;
        met.offer_again(64)?;
        sleep(A_LITTLE);
        for call in &met.calls {
            rustix::io::read(call, &mut [0; 8])?;
        }
        // A blocked writer has signalled by then.
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn share_terabytes(peer: &VhostPeer) -> Result<()> {
    let files: Vec<File> = (0..MOST)
        .map(|_| {
            let file = File::from(memfd_create("terabyte", MemfdFlags::CLOEXEC)?);
            file.set_len(TERABYTE).map(|()| file).map_err(anyhow::Error::from)
        })
        .collect::<Result<_>>()?;
    let ranges: Vec<[u64; 4]> = (0..MOST as u64).map(|n| [n * TERABYTE, TERABYTE, n * TERABYTE, 0]).collect();
    let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    peer.share(&ranges, &fds)
}

fn share_a_disk(peer: &VhostPeer, path: &Path) -> Result<()> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(MEMORY)?;
    peer.share(&[[0, MEMORY, 0, 0]], &[file.as_fd()])
}

fn never_end(peer: &VhostPeer) -> Result<()> {
    send_noise(peer)?;
    peer.describe_to(TRANSMIT, 0, (BUFFERS, 64), (NEXT, 0))?;
    peer.lay_out(TRANSMIT, &event()?)?;
    ring(&peer.give_doorbell(TRANSMIT)?);
    Ok(())
}

fn cut_off(peer: &VhostPeer) -> Result<()> {
    send_noise(peer)?;
    peer.lay_out(TRANSMIT, &event()?)?;
    ring(&peer.give_doorbell(TRANSMIT)?);
    Ok(peer.memory().set_len(0)?)
}

fn say_with_descriptors(peer: &VhostPeer) -> Result<()> {
    let doorbell = event()?;
    peer.send(SET_OWNER, &[], &[doorbell.as_fd(); MOST])
}

/// Offers 64 frames of zeros for transmission.
fn send_noise(peer: &VhostPeer) -> Result<()> {
    (0..64).try_for_each(|entry| peer.describe(TRANSMIT, entry, (BUFFERS, 12 + 60), 0))?;
    peer.offer(TRANSMIT, |place| place)?;
    peer.words()?.set_available(TRANSMIT, 64)
}

/// Builds one chain of descriptors of an octet each, and offers it in all places of a ring.
fn chain(peer: &VhostPeer, number: u32, flags: u16) -> Result<()> {
    for entry in 0..LONGEST_CHAIN {
        let more = if entry + 1 < LONGEST_CHAIN { NEXT } else { 0 };
        peer.describe(number, entry, (BUFFERS + u64::from(entry), 1), flags | more)?;
    }
    peer.offer(number, |_| 0)
}

/// Returns true if the request is answered before `until`.
fn is_answered(peer: &VhostPeer, until: Instant) -> bool {
    let left = until.saturating_duration_since(Instant::now());
    let mut socket = peer.socket();
    // A reply arrives as a whole; the timeout afterwards is longer, but not infinite.
    !left.is_zero()
        && socket.set_read_timeout(Some(left)).is_ok()
        && socket.read_exact(&mut [0; 12 + 8]).is_ok()
        && socket.set_read_timeout(Some(Duration::from_secs(10))).is_ok()
}

/// Returns true if the backend closes the connection before `until`.
fn is_closed(peer: &VhostPeer, until: Instant) -> bool {
    peer.is_left_within(until.saturating_duration_since(Instant::now()))
}
