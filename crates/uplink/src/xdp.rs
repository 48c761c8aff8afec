//! Interface of the host as a port, by AF_XDP: a program at the driver redirects each received frame to the
//! socket of its queue, and frames are in memory shared with the kernel. To receive a burst costs no system
//! call; to send in copy mode costs one for 32 frames.
//!
//! While it is open, the interface belongs exclusively to the port: the host's own stack receives nothing
//! from it. Program, sockets and everything else belong to descriptors, so nothing is left behind when the
//! last of them is closed, for whatever reason.
//!
//! Opening the interface ([`Xdp::open`]) and serving it ([`Xdp::ports`]) can be done by two processes: the
//! first keeps the program, and hands sockets and memory over ([`Xdp::descriptors`], [`Xdp::from_parts`]).

mod abi;
mod counters;
mod device;
mod interface;
mod program;
mod revival;
mod rings;
mod sink;
mod socket;
mod source;
mod umem;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

pub use counters::{XdpKernelCounters, XdpReadCounters, XdpWriteCounters};
pub use device::XdpHealth;
pub use program::Hook;
pub use revival::XdpReplacer;
pub use sink::XdpSink;
pub use source::XdpSource;

use crate::netns::within;
use crate::{Error, Netns};
use device::{Device, Queue};
use interface::Interface;
use program::Attached;
use revival::QueueHandover;
use sink::Sender;
use socket::{Bound, Mapped, Wish};
use source::Receiver;
use umem::{LARGEST_CHUNK, Layout};

/// Ethernet header with two VLAN tags, in octets.
const HEADERS: u32 = 22;
/// Largest MTU of a NIC, and of an interface, in octets.
const LARGEST_MTU: u32 = 9216;
/// Most chunks in which a frame lies.
const MOST_PIECES: u32 = umem::pieces(LARGEST_MTU + HEADERS);
/// Permitted ring sizes, in frames, or in pieces of them.
const RINGS: std::ops::RangeInclusive<u32> = 256..=16_384;

/// Configuration of an interface.
#[derive(Clone, Debug)]
pub struct XdpConfig<'a> {
    /// MTU of the NIC behind the port, in octets.
    pub mtu: u32,
    /// Number of frames that wait for the source; with the pieces of each, rounded up to a power of two from 256 to 16,384.
    pub queue_len: u32,
    /// Budget of frames for each time that the serving thread polls the driver, which replaces the driver's
    /// interrupt; `None`: interrupts.
    pub busy_poll: Option<u16>,
    /// Its network namespace; `None`: the calling thread's.
    pub netns: Option<&'a Netns>,
}

impl Default for XdpConfig<'_> {
    fn default() -> Self {
        Self { mtu: 1500, queue_len: 1000, busy_poll: None, netns: None }
    }
}

/// An open interface.
#[derive(Debug)]
pub struct Xdp {
    parts: XdpParts,
    sockets: Vec<Bound>,
    /// Keeps frames coming; only in the process that opened the interface.
    hold: Option<ProgramHold>,
}

/// Description of an open interface, without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpParts {
    /// Name of the interface.
    pub interface: String,
    /// Number of receive queues, each with a socket.
    pub queues: usize,
    /// Number of transmit queues.
    pub transmit: usize,
    /// Octets of a chunk.
    chunk: u32,
    /// Chunks in which a frame may lie.
    pieces: u32,
    /// Entries of each ring.
    ring: u32,
    /// True if frames are where the NIC itself puts them (zero-copy).
    pub zero_copy: bool,
    /// True if the program runs in the driver.
    pub in_driver: bool,
    /// True if the serving thread is to poll the driver.
    busy_poll: bool,
    /// True if the interface was deleted: then there are no descriptors.
    gone: bool,
}

#[derive(Debug)]
struct ProgramHold {
    program: Attached,
    index: u32,
    wish: Wish,
    netns: Option<Netns>,
    _hearing: OwnedFd,
}

impl XdpParts {
    fn layout(&self) -> Layout {
        Layout { chunk: self.chunk, pieces: self.pieces, receive: self.ring, transmit: self.ring }
    }

    /// Describes how frames are received: `zero-copy, in the driver`.
    pub fn way(&self) -> String {
        let copy = if self.zero_copy { "zero-copy" } else { "copy mode" };
        let hook = if self.in_driver { "in the driver" } else { "generic" };
        format!("{copy}, {hook}, {} queues", self.queues)
    }
}

impl Xdp {
    /// Opens all queues of an interface. An error leaves nothing behind.
    ///
    /// # Errors
    /// The interface does not exist, is down or in use, or the kernel refuses what is needed.
    pub fn open(name: &str, config: &XdpConfig<'_>) -> Result<Self, Error> {
        within(config.netns, || Self::open_here(name, config))
    }

    fn open_here(name: &str, config: &XdpConfig<'_>) -> Result<Self, Error> {
        let interface = Interface::find(name)?;
        let layout = layout(config, interface.mtu)?;
        let wish = Wish { layout, busy_poll: config.busy_poll };
        let program = Attached::new(name, interface.index, interface.receive, layout.is_in_pieces())?;
        let hearing = interface::hear_everything(name, interface.index)?;
        let sockets = bind_all((name, interface.index), interface.receive, wish, &program)?;
        let parts = XdpParts {
            interface: name.to_owned(),
            queues: sockets.len(),
            transmit: interface.transmit.min(interface.receive) as usize,
            chunk: layout.chunk,
            pieces: layout.pieces,
            ring: layout.receive,
            zero_copy: sockets.iter().all(Bound::is_zero_copy),
            in_driver: program.hook() == Hook::Driver,
            busy_poll: config.busy_poll.is_some(),
            gone: false,
        };
        let (index, netns) = (interface.index, config.netns.cloned());
        let hold = ProgramHold { program, index, wish, netns, _hearing: hearing };
        Ok(Self { parts, sockets, hold: Some(hold) })
    }

    /// Closes the sockets after the process that served them has died, because their ring positions are
    /// unknown. Frames that arrive from now on are lost until [`Xdp::renew`].
    pub fn release(&mut self) {
        if self.hold.is_some() {
            self.sockets.clear();
        }
    }

    /// Returns true if the interface still exists.
    pub fn is_there(&self) -> bool {
        !self.parts.gone && !self.sockets.first().is_some_and(|bound| abi::is_cut_off(bound.socket.as_fd()))
    }

    /// Returns another handle to this interface. Only one of them may be served at a time.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let sockets = self.sockets.iter().map(Bound::try_clone).collect::<io::Result<_>>();
        let failed = |e| Error::system(format!("having `{}` once more", self.parts.interface), e);
        Ok(Self { parts: self.parts.clone(), sockets: sockets.map_err(failed)?, hold: None })
    }

    /// Creates new sockets after [`Xdp::release`]. An interface that was deleted meanwhile, or is down, is
    /// given up: it counts as deleted ([`Xdp::is_there`]) until it is opened anew.
    ///
    /// # Errors
    /// See [`Xdp::open`]; `QueueTaken` for some milliseconds after the last copy of an old socket
    /// was closed.
    pub fn renew(&mut self) -> Result<(), Error> {
        let Some(hold) = &self.hold else { return Ok(()) };
        if !self.sockets.is_empty() {
            return Ok(());
        }
        let interface = (self.parts.interface.as_str(), hold.index);
        let bind = || bind_all(interface, self.parts.queues as u32, hold.wish, &hold.program);
        match within(hold.netns.as_ref(), bind) {
            Err(Error::NoInterface { .. } | Error::Down { .. }) => {
                (self.hold, self.parts.gone) = (None, true)
            }
            bound => self.sockets = bound?,
        }
        Ok(())
    }

    /// Checks that IP packets of this size fit into the memory with which it was opened. The queue lengths
    /// cannot be changed.
    ///
    /// # Errors
    /// They do not fit.
    pub fn resize(&self, mtu: u32) -> Result<(), Error> {
        if mtu.saturating_add(HEADERS) <= self.parts.layout().longest() {
            return Ok(());
        }
        Err(Error::Range {
            what: "the MTU of a NIC at an interface that is open",
            found: mtu.into(),
            expected: "no more than fits into the memory it was opened with: start the run anew",
        })
    }

    /// Returns its description, which accompanies [`Xdp::descriptors`].
    pub fn parts(&self) -> &XdpParts {
        &self.parts
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.parts.interface
    }

    /// Returns socket and memory of each queue, to be sent to another process.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().flat_map(|bound| [bound.socket.as_fd(), bound.memory.as_fd()])
    }

    /// Returns the number of descriptors of an interface with this description.
    pub fn descriptors_of(parts: &XdpParts) -> usize {
        if parts.gone { 0 } else { parts.queues.saturating_mul(2) }
    }

    /// Adopts an interface that another process opened, by the descriptors in order.
    ///
    /// # Errors
    /// There are too few descriptors, or the description is invalid.
    pub fn from_parts(
        parts: XdpParts,
        descriptors: impl IntoIterator<Item = OwnedFd>,
    ) -> Result<Self, Error> {
        let mut left = descriptors.into_iter();
        let mut sockets = Vec::new();
        while let (Some(socket), Some(memory)) = (left.next(), left.next()) {
            sockets.push(Bound { socket, memory });
        }
        let good_ring = parts.ring.is_power_of_two() && RINGS.contains(&parts.ring);
        let good_chunk = match parts.pieces {
            1 => [2048, LARGEST_CHUNK].contains(&parts.chunk),
            pieces => parts.chunk == LARGEST_CHUNK && (2..=MOST_PIECES).contains(&pieces),
        };
        if 2 * sockets.len() != Self::descriptors_of(&parts) || !good_ring || !good_chunk {
            let wrong = io::Error::from(io::ErrorKind::InvalidData);
            return Err(Error::system(format!("taking over the sockets of `{}`", parts.interface), wrong));
        }
        Ok(Self { parts, sockets, hold: None })
    }

    /// Returns its sources and sinks, distributed over this many threads, or fewer if it has fewer queues. To
    /// be called only once, in one process: it gives the kernel the receive chunks. The ports of a deleted
    /// interface move nothing until it exists again.
    ///
    /// # Errors
    /// The rings cannot be mapped.
    pub fn ports(&self, threads: usize) -> Result<XdpPorts, Error> {
        self.map_all(threads.max(1))
            .map_err(|e| Error::system(format!("mapping the rings of `{}`", self.parts.interface), e))
    }

    fn map_all(&self, threads: usize) -> io::Result<XdpPorts> {
        let name = &self.parts.interface;
        let device = if self.parts.gone { Device::deleted(name) } else { Device::named(name) };
        let (queues, receivers) = self.map_queues(&device)?;
        let desks = (0..self.parts.queues.min(threads)).map(|_| QueueHandover::new());
        let desks = desks.collect::<io::Result<Vec<_>>>()?;
        let hands = revival::deal(receivers, &desks)?.into_iter().zip(&desks);
        let (busy_poll, overflows) = (self.parts.busy_poll, Arc::<AtomicBool>::default());
        let sources =
            hands.map(|(hand, desk)| XdpSource::new(hand, desk.clone(), busy_poll, overflows.clone()));
        let sources = sources.collect();
        let sinks = 0..self.parts.transmit.min(threads);
        let sinks: Vec<_> = sinks.map(|n| Arc::new(XdpSink::new(queues.get(n).cloned()))).collect();
        let health = Arc::new(XdpHealth::new(device, queues));
        let revival = XdpReplacer { desks, sinks: sinks.clone(), health: health.clone() };
        Ok(XdpPorts { sources, sinks, health, revival, overflows })
    }

    /// Maps all queues; returns them and their receive halves.
    fn map_queues(&self, device: &Arc<Device>) -> io::Result<(Vec<Arc<Queue>>, Vec<Receiver>)> {
        self.sockets.iter().map(|bound| self.map_queue(bound, device)).collect()
    }

    fn map_queue(&self, bound: &Bound, device: &Arc<Device>) -> io::Result<(Arc<Queue>, Receiver)> {
        let layout = self.parts.layout();
        let Mapped { fill, completion, receive, transmit, umem } = bound.map(layout)?;
        let sender = Sender::new(transmit, completion, layout.transmit_chunks());
        let queue = Arc::new(Queue {
            socket: bound.try_clone()?.socket,
            umem,
            device: device.clone(),
            sender: Mutex::new(sender),
            busy: AtomicBool::new(false),
        });
        let mut receiver = Receiver::new(queue.clone(), receive, fill);
        receiver.fill_up();
        Ok((queue, receiver))
    }
}

/// Both directions of an interface.
pub struct XdpPorts {
    /// Receive direction, one source per thread.
    pub sources: Vec<XdpSource>,
    /// Transmit direction, one sink per thread.
    pub sinks: Vec<Arc<XdpSink>>,
    /// Supervision, to be called about once a second.
    pub health: Arc<XdpHealth>,
    /// Replaces the interface by another one.
    pub revival: XdpReplacer,
    overflows: Arc<AtomicBool>,
}

impl XdpPorts {
    /// Sets whether frames stop waiting for room in their sink ([`port::Source::waits`]) while half of a queue is in use, or more. A
    /// reader that looks for certain frames needs that: of a full queue the kernel would drop any. At first they always wait.
    pub fn overflow(&self, does: bool) {
        self.overflows.store(does, Relaxed);
    }
}

fn layout(config: &XdpConfig<'_>, interface_mtu: u32) -> Result<Layout, Error> {
    let mtu = config.mtu.max(interface_mtu);
    if mtu > LARGEST_MTU {
        return Err(Error::Range {
            what: "the MTU of the interface",
            found: mtu.into(),
            expected: "at most 9216 (see `ip link set … mtu`)",
        });
    }
    // Each piece of a frame takes an entry.
    let entries = config.queue_len.saturating_mul(umem::pieces(mtu + HEADERS));
    let ring = entries.clamp(*RINGS.start(), *RINGS.end()).next_power_of_two();
    Ok(Layout::new(mtu + HEADERS, ring))
}

fn bind_all(
    interface: (&str, u32),
    queues: u32,
    wish: Wish,
    program: &Attached,
) -> Result<Vec<Bound>, Error> {
    let bind = |queue| {
        let bound = Bound::new(interface, queue, wish)?;
        program.direct(queue, bound.socket.as_fd())?;
        Ok(bound)
    };
    (0..queues).map(bind).collect()
}

/// Entry point of the fuzz target `xdp_rings`.
#[cfg(feature = "fuzz")]
pub fn fuzz_rings(input: &[u8]) {
    fuzzed::run(input);
}

#[cfg(test)]
#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../fuzz/bodies/xdp_rings.rs"]
mod fuzzed;
#[cfg(test)]
mod tests;
