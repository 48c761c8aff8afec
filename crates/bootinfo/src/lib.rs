//! What the VMM tells the firmware at boot, and the words that both share while it runs.
//!
//! Everything here lies in guest memory at the addresses of [`map`]. The VMM writes [`BootInfo`] once before the
//! first vCPU runs; [`Shared`] is written by the firmware and read (or, where a field says so, written) by the host
//! at any time.
#![no_std]
#![forbid(unsafe_code)]

pub mod map;
pub mod process;
mod role;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use ledger::{ApplicationTally, RouterCounters, RouterNic, SinkTally, StationTally, WorkCounters};

pub use role::{Misdeed, Role};

/// Most NICs of one router VM.
pub const MAX_NICS: usize = 8;
/// Most vCPUs of one router VM.
pub const MAX_VCPUS: usize = 16;
/// Most IPv4 addresses of one NIC.
pub const MAX_ADDRESSES: usize = 8;
/// Most static neighbours of one router.
pub const MAX_NEIGHBOURS: usize = 256;
/// First word of a valid [`BootInfo`]; changes with its layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ringrd05");

/// What a firmware has in `eax` when it executes `hlt` to sleep, so that the halt stub can tell it from a real
/// general protection fault. `rdi` holds the address of the mailbox, `esi` the value last seen in it.
pub const HALT_REQUEST: u32 = 0x7461_6c68;

/// What a firmware has in `eax` when it executes `hlt` to wake the first vCPU, whose mailbox it has moved.
pub const WAKE_REQUEST: u32 = 0x656b_6177;

/// What a firmware in a virtual machine finds in `rsi` when it starts. A process finds 0 there.
pub const ENTERED_BY_KVM: u64 = u64::from_le_bytes(*b"ringkvm1");

/// What a firmware runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Ground {
    /// A virtual machine: registers are memory, sleeping is `hlt`.
    #[default]
    Kvm = 0,
    /// A process of the host: registers are asked for by [`RegisterAccess`], doorbells and sleeping are descriptors.
    Process = 1,
}

/// Which device a NIC is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u32)]
pub enum NicModel {
    /// virtio-net (virtio 1.2, section 5.1).
    #[default]
    VirtioNet = 0,
    /// The Intel 82540EM.
    E1000 = 1,
}

impl NicModel {
    /// The model with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::VirtioNet),
            1 => Some(Self::E1000),
            _ => None,
        }
    }

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net",
            Self::E1000 => "e1000",
        }
    }
}

/// How frames leave by an e1000 (seed papers 001, section 3, and 004).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u32)]
pub enum TransmitMode {
    /// One TDT write for each frame, carried out at once in the vCPU's thread; the driver works as Linux's does.
    Base = 0,
    /// One TDT write for each frame by that driver; the I/O thread transmits.
    Async = 1,
    /// The driver postpones the TDT write to the transmit interrupt that is pending; carried out in the vCPU's thread.
    SendCombining = 2,
    /// Both sides share a status block, for both directions, and kick only who sleeps.
    #[default]
    Csb = 3,
    /// The driver of `Base`; KVM collects its TDT writes while the I/O thread polls.
    Coalesced = 4,
}

impl TransmitMode {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Base, Self::Async, Self::SendCombining, Self::Csb, Self::Coalesced];

    /// The mode with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Async => "async",
            Self::SendCombining => "send-combining",
            Self::Csb => "csb",
            Self::Coalesced => "coalesced",
        }
    }
}

/// What a [`Role::Station`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Station {
    /// Answers: ARP, ICMP echo, UDP and TCP echo (port 7), and takes what comes to the discard ports (9).
    #[default]
    Server = 0,
    /// Sends a TCP stream to port 9 of [`TrafficInfo::to_ip`].
    TcpStream = 1,
    /// Sends one octet by TCP to port 7 of [`TrafficInfo::to_ip`], waits for the answer, and again.
    TcpRequests = 2,
    /// Sends UDP datagrams to port 9 of [`TrafficInfo::to_ip`].
    UdpStream = 3,
}

impl Station {
    /// The station with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Server),
            1 => Some(Self::TcpStream),
            2 => Some(Self::TcpRequests),
            3 => Some(Self::UdpStream),
            _ => None,
        }
    }
}

/// An IPv4 address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// The address, in host byte order.
    pub ip: u32,
    /// Prefix length, 0 to 32.
    pub prefix: u32,
}

/// One NIC, by where it sits on the PCI bus.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NicInfo {
    /// PCI device number on bus 0, function 0.
    pub slot: u32,
    /// Largest IP packet, in octets.
    pub mtu: u32,
    /// How many of `addresses` are valid.
    pub address_count: u32,
    /// 1 where the firmware may use IN_ORDER and the header beside the data if the device offers them.
    pub tuned: u32,
    /// A [`NicModel`] as a number.
    pub model: u32,
    /// A [`TransmitMode`] as a number, for an e1000.
    pub mode: u32,
    /// Least time between two interrupts of an e1000, in units of 250 ns (82540EM manual, ITR); 0: none.
    pub itr: u32,
    /// For send combining: frames that are sent although the interrupt that they wait for has not come; 0: no limit
    /// but the ring.
    pub combine: u32,
    /// For send combining: frames a second above which frames are combined; 0: always.
    pub combine_above: u32,
    /// The vCPU that an e1000 interrupts.
    pub interrupt_vcpu: u32,
    /// 1 where a router may take checksums to be filled in and frames to be segmented on their way, if all its NICs can
    /// send them; 0: each frame is ready for a plain wire.
    pub offload: u32,
    /// The router's own addresses on this NIC.
    pub addresses: [Address; MAX_ADDRESSES],
}

/// A neighbour that needs no ARP.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NeighbourInfo {
    /// The neighbour's address, in host byte order.
    pub ip: u32,
    /// Index of the NIC behind which it lives.
    pub nic: u32,
    /// Its Ethernet address, then two octets of padding.
    pub mac: [u8; 8],
}

/// What the roles `source` and `sink` are to do.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TrafficInfo {
    /// Octets of a frame, without FCS.
    pub frame_len: u32,
    /// Different UDP source ports.
    pub flows: u32,
    /// Destination address of the frames, in host byte order.
    pub to_ip: u32,
    /// Source address of the frames, in host byte order.
    pub from_ip: u32,
    /// Destination Ethernet address, then two octets of padding.
    pub to_mac: [u8; 8],
    /// A [`Station`] as a number.
    pub station: u32,
    /// Octets that a station hands to its stack at once.
    pub write_len: u32,
    /// Octets of each frame that becomes of what `frame_len` says: a source sends packets that are to be cut (TCP
    /// segmentation offload), a sink takes them; 0: `frame_len` is a frame.
    pub segment_len: u32,
    /// Nanoseconds that an application spends on each frame.
    pub work_ns: u32,
    /// Frames that wait for the application at most.
    pub queue_len: u32,
    /// 1: the application's driver polls with a budget and leaves frames in the ring while the queue is full; 0: each
    /// interrupt goes before the application.
    pub protected: u32,
    /// 1: interrupts that tell of sent frames are delayed, so that each tells of many; 0: they come at once.
    pub delay_sent: u32,
}

/// The firmware's orders, at [`map::BOOT_INFO`].
#[derive(Clone, Debug)]
#[repr(C)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// A [`Role`] as a number.
    pub role: u32,
    /// A [`Misdeed`] as a number, for [`Role::Hostile`].
    pub misdeed: u32,
    /// What the firmware runs on: a [`Ground`] as a number.
    pub ground: u32,
    /// vCPUs that will run.
    pub vcpus: u32,
    /// NICs on the PCI bus.
    pub nic_count: u32,
    /// Static neighbours.
    pub neighbour_count: u32,
    /// Time-stamp counter ticks a millisecond.
    pub tsc_khz: u64,
    /// Octets of guest RAM, from guest-physical address 0.
    pub ram: u64,
    /// Octets of the route table at [`map::FIB`]; 0 where there is none.
    pub fib: u64,
    /// Empty passes of the main loop before a vCPU arms its interrupts and halts; `u32::MAX`: never.
    pub spin: u32,
    /// Entries of each virtqueue the firmware asks for, a power of two up to 1024.
    pub ring_size: u32,
    /// What sources and sinks do.
    pub traffic: TrafficInfo,
    /// The NICs.
    pub nics: [NicInfo; MAX_NICS],
    /// The static neighbours.
    pub neighbours: [NeighbourInfo; MAX_NEIGHBOURS],
}

impl BootInfo {
    /// Orders for a firmware without NICs; the VMM fills in what depends on its memory.
    pub fn new(role: Role, vcpus: u32) -> Self {
        Self {
            magic: MAGIC,
            role: role as u32,
            misdeed: 0,
            ground: Ground::Kvm as u32,
            vcpus,
            nic_count: 0,
            neighbour_count: 0,
            tsc_khz: 0,
            ram: 0,
            fib: 0,
            spin: u32::MAX,
            ring_size: 1024,
            traffic: TrafficInfo::default(),
            nics: [NicInfo::default(); MAX_NICS],
            neighbours: [NeighbourInfo::default(); MAX_NEIGHBOURS],
        }
    }
}

/// A word in a cache line of its own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Line(pub AtomicU32);

/// A register access of a firmware that is a process; one may be under way for each vCPU.
///
/// The firmware writes address, value and shape, then stores [`RegisterAccess::ASKED`] in `turn`, rings the bus's
/// bell and sleeps on `turn` (futex); the host carries the access out, leaves what was read in `value`, stores
/// [`RegisterAccess::DONE`] in `turn` and wakes it.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RegisterAccess {
    /// Guest-physical address.
    pub address: AtomicU64,
    /// What to write, or what was read.
    pub value: AtomicU64,
    /// Octets (1, 2, 4 or 8), and [`RegisterAccess::WRITE`] for a write.
    pub shape: AtomicU32,
    /// Whose turn it is.
    pub turn: AtomicU32,
}

impl RegisterAccess {
    /// In `shape`: a write.
    pub const WRITE: u32 = 1 << 8;
    /// In `turn`: the host's turn.
    pub const ASKED: u32 = 1;
    /// In `turn`: the firmware's turn.
    pub const DONE: u32 = 0;
}

/// What one vCPU tells.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct VcpuShared {
    /// What the router did, all NICs together.
    pub router: RouterCounters,
    /// What frames cost it.
    pub work: WorkCounters,
    /// What it did by NIC.
    pub nics: [RouterNic; MAX_NICS],
    /// What its sink saw, if it has one.
    pub sink: SinkTally,
    /// What its station's stack moved, if it is one.
    pub station: StationTally,
    /// What became of its application's frames, if it has one.
    pub application: ApplicationTally,
    /// Epoch of the route table that this vCPU used last (`fib`).
    pub fib_epoch: Line,
    /// 1 when the vCPU serves its NICs; 2 and more: it gave up, a [`Trouble`] as a number.
    pub state: Line,
    /// Milliseconds until the vCPU wants an interrupt although nothing else happens; 0: none. Set by the firmware
    /// before it halts, counted down by the host.
    pub alarm: Line,
    /// The value of [`Shared::challenge`] that the vCPU saw last: a sign of life.
    pub answer: Line,
    /// One more than the empty passes after which the vCPU arms its interrupts and halts, however many more
    /// [`BootInfo::spin`] gives it; 0: no limit. Set by the host at any time, where others need the vCPU's CPU.
    pub spin_limit: Line,
    /// Its register access, where it is a thread of a process.
    pub access: RegisterAccess,
    /// The station that last claimed an address of the router.
    pub claim: Claim,
}

/// A station that says that it has an address of the router, counted by [`RouterCounters::arp_conflicts`]. It is for people to
/// read: one that is overwritten meanwhile may be read as two halves.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Claim {
    /// Its Ethernet address in the lower 48 bits, above it the number of the NIC that heard it.
    pub station: AtomicU64,
    /// The address.
    pub address: AtomicU32,
}

impl Claim {
    /// Notes it.
    pub fn set(&self, nic: u8, address: u32, [a, b, c, d, e, f]: [u8; 6]) {
        self.address.store(address, Relaxed);
        self.station.store(u64::from_be_bytes([0, nic, a, b, c, d, e, f]), Relaxed);
    }

    /// NIC, address and station.
    pub fn get(&self) -> (u8, u32, [u8; 6]) {
        let [_, nic, station @ ..] = self.station.load(Relaxed).to_be_bytes();
        (nic, self.address.load(Relaxed), station)
    }
}

/// Why a firmware gave up, in [`VcpuShared::state`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Trouble {
    /// The firmware panicked.
    Panic = 2,
    /// The boot information is not what this firmware understands.
    BootInfo = 3,
    /// A NIC is missing or lacks what the driver needs.
    Nic = 4,
    /// The RAM is too small for the buffers.
    Memory = 5,
}

/// The words shared while the firmware runs, at [`map::SHARED`].
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Shared {
    /// Interrupt mailboxes, one a vCPU. The host adds 1 before each interrupt that it sends to that vCPU, and ring 0 once
    /// more when it has served a pin, whose causes the firmware is to find before it sleeps; a vCPU that wakes another
    /// adds 1 too. The halt stub does not sleep if the word has moved since the firmware looked.
    pub mailbox: [Line; MAX_VCPUS],
    /// Set to 1 by the host: leave the main loop and halt for good.
    pub stop: Line,
    /// Causes of interrupts of each NIC that is an e1000, as its ICR gave them: ring 0 reads ICR, ORs what it reads into
    /// this word and acknowledges; the driver takes the word. Unused in a process, whose driver reads ICR itself.
    pub causes: [Line; MAX_NICS],
    /// What the handler of each of those NICs writes to IMC and follows by a read of STATUS, as the handlers of kernels
    /// do before they leave the rest to a poll; 0: neither. Set by the driver.
    pub pin_masks: [Line; MAX_NICS],
    /// How often the cable of each NIC has been plugged anew, counted up by the host: whoever was at its other end may be
    /// another one by now.
    pub plugged: [Line; MAX_NICS],
    /// Counted up by the host about once a second; each vCPU copies it to [`VcpuShared::answer`] from its main loop.
    pub challenge: Line,
    /// What each vCPU tells.
    pub vcpus: [VcpuShared; MAX_VCPUS],
}
