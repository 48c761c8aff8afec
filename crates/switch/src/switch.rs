//! The learning switch: connects ports, and copies a frame at most once on its way from one to another.
//!
//! The steps of a burst, all in the thread that delivers it to a [`SwitchPort`]:
//! 1. `collect`: prefetch the headers and read the addresses;
//! 2. `classify`: learn the sources, look up the destinations, sort the frames by receiver;
//! 3. one [`Sink::deliver`] for each receiver, which **reserves** places, **copies** and **publishes**. The receiver
//!    implements these three, because each kind of ring has its own form of them: an ingress queue leases slots of its
//!    own (the port is `queued`, and the receiver's own thread does the rest), a NIC's receive ring leases buffers that
//!    its driver posted (the port is `direct`). For the switch both are the same.
//!
//! Several threads may enter at the same time. No step takes a lock for a frame or allocates for a burst: the list of
//! ports is a snapshot that a thread keeps until the list changes, and the MAC table consists of atomic words.
//!
//! Balance of the counters of a switch whose ports stay (`out` and `drop_full` are those of the receivers):
//! * for each port: in_frames = forwarded + flood_unknown + flood_broadcast + drop_same_port + drop_malformed
//!   + drop_pause + drop_removed
//! * for the switch: Σ forwarded + Σ flood_copies = Σ out_frames + Σ drop_full
//!
//! Of the addresses that bridges keep to themselves (01:80:c2:00:00:00 to 0f) only that of pauses is not flooded, because a
//! pause stops whatever is at the other end of a cable. The switch speaks none of the other protocols: it takes the place of a
//! cable, by which routers and hosts find each other (LLDP), bundle links (LACP), and bridges outside find loops (BPDU).
//!
//! A frame must not come back to a switch that it has left, or it is flooded forever: there is no spanning tree.
//! Switches that are connected to one another must form a tree.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use frame::Mac;
use frame::offload::Offloads;
use ledger::PortCounters;
use port::{Frame, Sink};
use ring::BURST;

use crate::entry::{LANES, PortInput, PortOutput, Ports};
use crate::table::MacTable;

/// Maximum number of ports of one switch.
pub const MAX_PORTS: usize = 1024;

/// The number of a port in its switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortId(pub u16);

/// Configuration of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Seconds after which a silent station is removed; 0: never.
    pub ageing: u32,
    /// Maximum number of known stations, at most 2 million.
    pub capacity: usize,
}

impl Default for Config {
    /// 300 s (IEEE 802.1D, table 7-5) and 8192 stations.
    fn default() -> Self {
        Self { ageing: 300, capacity: 8192 }
    }
}

/// Reason why a port could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The name is in use; names identify ports.
    #[error("switch {switch} already has a port named {port}; give this one another name")]
    NameTaken {
        /// The switch.
        switch: String,
        /// The port.
        port: String,
    },
    /// No port number is left.
    #[error("switch {switch} has {MAX_PORTS} ports and can have no more; use a second switch")]
    Full {
        /// The switch.
        switch: String,
    },
}

/// State shared by all ports of a switch.
pub(crate) struct Shared {
    pub(crate) table: MacTable,
    ports: RwLock<Arc<Ports>>,
    generation: AtomicU64,
}

impl Shared {
    /// Returns a number that changes whenever the list of ports does.
    #[inline(always)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the current snapshot of ports.
    pub(crate) fn ports(&self) -> Arc<Ports> {
        self.ports.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list of ports. Only one thread may call this at a time.
    fn set_ports(&self, exits: Vec<Arc<PortOutput>>) {
        let generation = self.generation() + 1;
        let new = Arc::new(Ports::new(generation, exits));
        let mut ports = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *ports, new);
        self.generation.store(generation, Ordering::Release);
        drop(ports);
        // Drops ports that only the old list referred to, after the lock is released.
        drop(before);
    }
}

struct Member {
    entry: Arc<PortInput>,
    exit: Arc<PortOutput>,
}

#[derive(Default)]
struct Members {
    list: Vec<Member>,
    next: u16,
    /// Ports that are being removed, by which bursts may still be under way to others.
    leaving: Vec<Arc<PortInput>>,
}

/// A learning switch.
pub struct Switch {
    name: String,
    shared: Arc<Shared>,
    members: Mutex<Members>,
    /// Ports whose counters are read; no thread that moves frames takes this lock, and no thread holds it while it
    /// waits for one.
    listed: Mutex<Vec<Arc<PortOutput>>>,
}

impl Switch {
    /// Creates a switch without ports.
    pub fn new(name: &str, config: Config) -> Self {
        let shared = Shared {
            table: MacTable::new(config.capacity, config.ageing),
            ports: RwLock::new(Arc::new(Ports::new(0, Vec::new()))),
            generation: AtomicU64::new(0),
        };
        let (members, listed) = Default::default();
        Self { name: name.to_owned(), shared: Arc::new(shared), members, listed }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a port; frames that leave the switch by it go to `sink`.
    ///
    /// # Errors
    /// If there is a port of this name, or if there are [`MAX_PORTS`].
    pub fn add_port(&self, name: &str, sink: Arc<dyn Sink>) -> Result<SwitchPort, Error> {
        let mut members = self.members();
        if members.list.iter().any(|member| member.exit.name() == name) {
            return Err(Error::NameTaken { switch: self.name.clone(), port: name.to_owned() });
        }
        let id = members.free_id().ok_or_else(|| Error::Full { switch: self.name.clone() })?;
        let exit = Arc::new(PortOutput::new(id, name, sink));
        let entry = Arc::new(PortInput::new());
        members.list.push(Member { entry: entry.clone(), exit: exit.clone() });
        self.set_ports(&members);
        Ok(SwitchPort { shared: self.shared.clone(), entry, exit, lane: 0 })
    }

    /// Removes a port; returns false if there is none of this number. Waits for bursts under way, and does not access
    /// the port's sink afterwards; so a sink must not call it from within a delivery. Frames that still enter by its
    /// [`SwitchPort`] are dropped and counted there. Threads that add ports, or read counters, do not wait for those
    /// bursts.
    pub fn remove_port(&self, port: PortId) -> bool {
        let mut members = self.members();
        let Some(at) = members.list.iter().position(|member| member.exit.id() == port.0) else {
            return false;
        };
        let removed = members.list.swap_remove(at);
        self.set_ports(&members);
        members.leaving.push(removed.entry.clone());
        // A port that is added from now on never had the old list.
        let left = members.list.iter().map(|member| &member.entry);
        let entries: Vec<_> = left.chain(&members.leaving).cloned().collect();
        drop(members);
        entries.iter().for_each(|entry| entry.forget_ports());
        self.members().leaving.retain(|entry| !Arc::ptr_eq(entry, &removed.entry));
        self.shared.table.forget(port.0);
        true
    }

    fn set_ports(&self, members: &Members) {
        self.shared.set_ports(members.exits());
        let before = std::mem::replace(&mut *self.listed(), members.exits());
        drop(before);
    }

    /// Sets the current time, in seconds since an arbitrary origin. Must be called at least once a second.
    pub fn tick(&self, now: u32) {
        self.shared.table.tick(now);
    }

    /// Sets the ageing time for silent stations from now on, in seconds (0: never); returns the previous one.
    pub fn set_ageing(&self, ageing: u32) -> u32 {
        self.shared.table.set_ageing(ageing)
    }

    /// Calls `visit` with the name and the counters of each port.
    pub fn counters(&self, visit: &mut dyn FnMut(&str, &PortCounters)) {
        for exit in self.listed().iter() {
            visit(exit.name(), &exit.counters());
        }
    }

    /// Calls `visit` with each known station, the name of its port, and the seconds since its last frame.
    pub fn stations(&self, visit: &mut dyn FnMut(Mac, &str, u32)) {
        let ports = self.listed();
        self.shared.table.each(&mut |mac, port, age| {
            if let Some(exit) = ports.iter().find(|exit| exit.id() == port) {
                visit(mac, exit.name(), age);
            }
        });
    }

    fn listed(&self) -> MutexGuard<'_, Vec<Arc<PortOutput>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    /// Returns the next port number that is not in use. Numbers are reused as late as possible, so that addresses
    /// learned for a removed port have time to vanish from bursts under way.
    fn free_id(&mut self) -> Option<u16> {
        let used = |id| self.list.iter().any(|member| member.exit.id() == id);
        let id = (0..MAX_PORTS as u16).map(|i| (self.next + i) % MAX_PORTS as u16).find(|&id| !used(id))?;
        self.next = (id + 1) % MAX_PORTS as u16;
        Some(id)
    }

    fn exits(&self) -> Vec<Arc<PortOutput>> {
        self.list.iter().map(|member| member.exit.clone()).collect()
    }
}

/// Entry to a switch at one port: frames delivered to it enter the switch.
#[derive(Clone)]
pub struct SwitchPort {
    shared: Arc<Shared>,
    entry: Arc<PortInput>,
    exit: Arc<PortOutput>,
    lane: usize,
}

impl SwitchPort {
    /// Returns a handle on this port for one of several threads that enter at it: threads with different numbers below
    /// 16 write no common memory on their way in.
    #[must_use]
    pub fn lane(&self, number: usize) -> Self {
        Self { lane: number % LANES, ..self.clone() }
    }

    /// Returns the port's number.
    pub fn id(&self) -> PortId {
        PortId(self.exit.id())
    }

    /// Returns the port's name.
    pub fn name(&self) -> &str {
        self.exit.name()
    }

    /// Returns the current counters of the port.
    pub fn counters(&self) -> PortCounters {
        self.exit.counters()
    }
}

impl Sink for SwitchPort {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        for burst in frames.chunks(BURST) {
            self.entry.enter(&self.shared, &self.exit, self.lane, burst);
        }
        frames.len()
    }

    /// Accepts all offloads: each receiver gets frames in the form that it supports.
    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}

#[cfg(test)]
mod tests;
