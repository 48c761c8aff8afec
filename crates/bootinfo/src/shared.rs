//! The words that the firmware and the host share while the firmware runs.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ledger::{
    ApplicationTally, BalancerTally, RouterCounters, RouterNic, SinkTally, StationTally, VlanCounters,
    WorkCounters,
};

use crate::{FailedHops, GivenNeighbours, MAX_NICS, MAX_VCPUS, MAX_VLANS};

/// A word in a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub AtomicU32);

/// Register access of a firmware that runs as a process; at most one is in progress for each vCPU.
///
/// The firmware writes address, value and shape, then stores [`RegisterAccess::ASKED`] in `turn`, signals the
/// bus bell and sleeps on `turn` (futex); the host performs the access, stores what was read in `value` and
/// [`RegisterAccess::DONE`] in `turn`, and wakes the firmware.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RegisterAccess {
    /// Guest-physical address.
    pub address: AtomicU64,
    /// Value to write, or value read.
    pub value: AtomicU64,
    /// Octets (1, 2, 4 or 8), and [`RegisterAccess::WRITE`] for a write.
    pub shape: AtomicU32,
    /// Which side acts next.
    pub turn: AtomicU32,
}

impl RegisterAccess {
    /// Flag in `shape`: a write.
    pub const WRITE: u32 = 1 << 8;
    /// Value of `turn`: the host acts next.
    pub const ASKED: u32 = 1;
    /// Value of `turn`: the firmware acts next.
    pub const DONE: u32 = 0;
}

/// State published by one vCPU.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct VcpuShared {
    /// Counters of its router, for all NICs together.
    pub router: RouterCounters,
    /// Cost of frames.
    pub work: WorkCounters,
    /// Counters of its router by NIC.
    pub nics: [RouterNic; MAX_NICS],
    /// Counters of its router by interface for a VLAN.
    pub vlans: [VlanCounters; MAX_VLANS],
    /// Counters of its sink, if it has one.
    pub sink: SinkTally,
    /// Counters of its station's stack, if it is one.
    pub station: StationTally,
    /// Counters of its application, if it has one.
    pub application: ApplicationTally,
    /// Counters of its balancer, if it is one.
    pub balancer: BalancerTally,
    /// Epoch of the route table that this vCPU used last (`fib`).
    pub fib_epoch: Line,
    /// 1 when the vCPU serves its NICs; 2 and more: it gave up, a [`BootFailure`] as a number.
    pub state: Line,
    /// Milliseconds until the vCPU wants an interrupt even if nothing else happens; 0: none. Set by the
    /// firmware before it halts, decremented by the host.
    pub alarm: Line,
    /// The value of [`Shared::challenge`] that the vCPU saw last: its heartbeat.
    pub answer: Line,
    /// Polling limit: one more than the number of empty passes after which the vCPU arms its interrupts and
    /// halts, even if [`BootInfo::spin`](crate::BootInfo::spin) is larger; 0: no limit. Set by the host at any time, when other
    /// threads need the vCPU's CPU.
    pub spin_limit: Line,
    /// Its register access, if it is a thread of a process.
    pub access: RegisterAccess,
    /// The station that last claimed an address of the router.
    pub claim: Claim,
}

/// A station that claims an address of the router, counted by [`RouterCounters::arp_conflicts`]. For display
/// only: if it is overwritten while it is read, the result may be a mixture of two.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Claim {
    /// MAC address in the lower 48 bits; above it the number of the NIC that received the claim.
    pub station: AtomicU64,
    /// The claimed IPv4 address.
    pub address: AtomicU32,
}

impl Claim {
    /// Records a claim.
    pub fn set(&self, nic: u8, address: u32, [a, b, c, d, e, f]: [u8; 6]) {
        self.address.store(address, Relaxed);
        self.station.store(u64::from_be_bytes([0, nic, a, b, c, d, e, f]), Relaxed);
    }

    /// Returns NIC, address and station.
    pub fn get(&self) -> (u8, u32, [u8; 6]) {
        let [_, nic, station @ ..] = self.station.load(Relaxed).to_be_bytes();
        (nic, self.address.load(Relaxed), station)
    }
}

/// Reason why a firmware gave up, in [`VcpuShared::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BootFailure {
    /// The firmware panicked.
    Panic = 2,
    /// The boot information is invalid for this firmware.
    BootInfo = 3,
    /// A NIC is missing or lacks a feature that the driver needs.
    Nic = 4,
    /// The RAM is too small for the buffers.
    Memory = 5,
}

/// The words shared while the firmware runs, at [`map::SHARED`](crate::map::SHARED).
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Shared {
    /// Interrupt mailboxes, one per vCPU. The host adds 1 before each interrupt that it sends to that vCPU,
    /// and ring 0 adds 1 after it has handled a pin, whose causes the firmware must find before it sleeps; a
    /// vCPU that wakes another one adds 1 too. The halt stub does not sleep if the word has changed since the
    /// firmware read it.
    pub mailbox: [Line; MAX_VCPUS],
    /// Set to 1 by the host: leave the main loop and halt permanently.
    pub stop: Line,
    /// Interrupt causes of each NIC that is an e1000, from its ICR: ring 0 reads ICR, ORs the value into this
    /// word and acknowledges; the driver takes the word. Unused in a process, whose driver reads ICR itself.
    pub causes: [Line; MAX_NICS],
    /// Value that the handler of each of those NICs writes to IMC, followed by a read of STATUS, as the
    /// interrupt handlers of kernels do before they leave the rest to polling; 0: neither. Set by the driver.
    pub pin_masks: [Line; MAX_NICS],
    /// Number of times that the cable of each NIC was pulled out or plugged in, incremented by the host: there may be
    /// no host, or another one, at its other end.
    pub plugged: [Line; MAX_NICS],
    /// Incremented by the host about once a second; each vCPU copies it to [`VcpuShared::answer`] from its
    /// main loop.
    pub challenge: Line,
    /// Next hops of groups that the vCPUs do not reach.
    pub failed: FailedHops,
    /// State published by each vCPU.
    pub vcpus: [VcpuShared; MAX_VCPUS],
    /// Static neighbours beside those that the firmware is told when it boots, written by the host.
    pub given: GivenNeighbours,
}
