//! Boot information from the VMM for the firmware, and the words shared by both at run time.
//!
//! All of it is in guest memory at the addresses of [`map`]. The VMM writes [`BootInfo`] once before the
//! first vCPU runs; [`Shared`] is written by the firmware and read (or, where a field says so, written) by
//! the host at any time.
#![no_std]
#![forbid(unsafe_code)]

pub mod buffers;
mod desk;
mod failed;
mod given;
pub mod map;
pub mod process;
mod role;
mod shared;
mod six;

pub use desk::{Desk, Hearers, Question};
pub use failed::{FailedHops, MOST_FAILED, NumberedHop};
pub use given::{GivenNeighbour, GivenNeighbours, MOST_GIVEN};
pub use role::{Misdeed, Role};
pub use shared::{BootFailure, Claim, Line, RegisterAccess, Shared, VcpuShared};
pub use six::{Address6, AdvertiseInfo, AdvertisedPrefix, MAX_DNS, MAX_PREFIXES};

/// Maximum number of NICs of a router VM.
pub const MAX_NICS: usize = 32;
/// Maximum number of vCPUs of a router VM.
pub const MAX_VCPUS: usize = 16;
/// Maximum number of IPv4 addresses of a NIC.
pub const MAX_ADDRESSES: usize = 8;
/// Maximum number of interfaces for VLANs of a router.
pub const MAX_VLANS: usize = 32;
/// Maximum number of route tables of a router: one for each VRF, of which each NIC may have its own, and one for NICs without any.
pub const MAX_TABLES: usize = MAX_NICS + 1;
/// Maximum number of static neighbours of a router.
pub const MAX_NEIGHBOURS: usize = 256;
/// Number of neighbours that a router knows at most, unless its file says otherwise.
pub const DEFAULT_NEIGHBOURS: u32 = 4096;
/// First word of a valid [`BootInfo`]; changes with its layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"ringrd10");

/// Value of `eax` when the firmware executes `hlt` to sleep, by which the halt stub tells this from a real
/// general protection fault. `rdi` holds the address of the mailbox, `esi` the value last seen in it.
pub const HALT_REQUEST: u32 = 0x7461_6c68;

/// Value of `eax` when the firmware executes `hlt` to wake the first vCPU, after incrementing that vCPU's
/// mailbox.
pub const WAKE_REQUEST: u32 = 0x656b_6177;

/// Value of `rsi` at the start of a firmware in a virtual machine; 0 in a process.
pub const ENTERED_BY_KVM: u64 = u64::from_le_bytes(*b"ringkvm1");

/// Execution environment of a firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Environment {
    /// A virtual machine: registers are memory, sleeping is `hlt`.
    #[default]
    Kvm = 0,
    /// A process of the host: register accesses are requested by [`RegisterAccess`], doorbells are eventfds,
    /// and a vCPU sleeps on its mailbox (futex).
    Process = 1,
}

/// Device model of a NIC.
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
    /// Returns the model with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::VirtioNet),
            1 => Some(Self::E1000),
            _ => None,
        }
    }

    /// Returns its name in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VirtioNet => "virtio-net",
            Self::E1000 => "e1000",
        }
    }
}

/// Transmit mode of an e1000 (seed papers 001, section 3, and 004).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u32)]
pub enum TransmitMode {
    /// One TDT write for each frame, handled at once in the vCPU's thread; the driver works like that of
    /// Linux.
    Base = 0,
    /// The driver of `Base`, with one TDT write for each frame; the I/O thread transmits.
    Async = 1,
    /// The driver postpones the TDT write until a pending transmit interrupt; handled in the vCPU's thread.
    SendCombining = 2,
    /// Both sides share a status block, for both directions, and notify the other side only when it sleeps.
    #[default]
    Csb = 3,
    /// The driver of `Base`; KVM collects its TDT writes while the I/O thread polls.
    Coalesced = 4,
}

impl TransmitMode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Base, Self::Async, Self::SendCombining, Self::Csb, Self::Coalesced];

    /// Returns the mode with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns its name in files and on the command line.
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

/// Task of a [`Role::Station`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Station {
    /// Answers ARP, ICMP echo, UDP and TCP echo (port 7), and accepts data at the discard ports (9).
    #[default]
    Server = 0,
    /// Sends a TCP stream to port 9 of [`TrafficInfo::to_ip`].
    TcpStream = 1,
    /// Sends one octet by TCP to port 7 of [`TrafficInfo::to_ip`], waits for the answer, and repeats.
    TcpRequests = 2,
    /// Sends UDP datagrams to port 9 of [`TrafficInfo::to_ip`].
    UdpStream = 3,
}

impl Station {
    /// Returns the station with this number.
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

/// IPv4 address with the prefix length of its network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Address {
    /// The address, in host byte order.
    pub ip: u32,
    /// Prefix length, 0 to 32.
    pub prefix: u32,
}

/// A NIC, identified by its place on the PCI bus.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NicInfo {
    /// PCI device number on bus 0, function 0.
    pub slot: u32,
    /// MTU in octets.
    pub mtu: u32,
    /// Number of valid entries in `addresses`.
    pub address_count: u32,
    /// 1 if the firmware may use IN_ORDER and the header beside the data, if the device offers them.
    pub tuned: u32,
    /// A [`NicModel`] as a number.
    pub model: u32,
    /// A [`TransmitMode`] as a number, for an e1000.
    pub mode: u32,
    /// Minimum time between two interrupts of an e1000, in units of 250 ns (82540EM manual, ITR); 0: none.
    pub itr: u32,
    /// For send combining: maximum number of frames that wait for the interrupt, beyond which they are sent
    /// without it; 0: limited only by the ring.
    pub combine: u32,
    /// For send combining: rate in frames per second above which frames are combined; 0: always.
    pub combine_above: u32,
    /// The vCPU that an e1000 interrupts.
    pub interrupt_vcpu: u32,
    /// 1 if a router may accept frames with pending offloads (checksum, segmentation), provided that all its
    /// NICs can send them; 0: each frame is ready for a plain wire.
    pub offload: u32,
    /// The router's own addresses on this NIC.
    pub addresses: [Address; MAX_ADDRESSES],
    /// Number of valid entries in `addresses6`; 0: no IPv6.
    pub address6_count: u32,
    /// The router's own IPv6 addresses on this NIC.
    pub addresses6: [Address6; MAX_ADDRESSES],
    /// Its router advertisements.
    pub advertise: AdvertiseInfo,
    /// Filter of sources: 0 none, 1 loose, 2 strict.
    pub reverse_path: u32,
    /// Number of the route table of its VRF; 0: it is in none.
    pub table: u32,
}

/// Interface for a VLAN of a NIC.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct VlanInfo {
    /// Index of the NIC.
    pub nic: u32,
    /// Number in the service tag in front of the other one; 0: there is only one tag.
    pub outer: u32,
    /// Number of the VLAN.
    pub id: u32,
    /// MTU, addresses and router advertisements; other fields have no meaning.
    pub info: NicInfo,
}

/// Static neighbour, which needs no ARP.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NeighbourInfo {
    /// The neighbour's address in network byte order; an IPv4 address as its IPv4-mapped one (RFC 4291, 2.5.5.2).
    pub ip: [u8; 16],
    /// Index of the NIC through which it is reached.
    pub nic: u32,
    /// Its Ethernet address, then two octets of padding.
    pub mac: [u8; 8],
}

/// Parameters of the roles that generate or count traffic.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TrafficInfo {
    /// Octets of a frame, without FCS.
    pub frame_len: u32,
    /// Number of different UDP source ports.
    pub flows: u32,
    /// Destination address of the frames, in host byte order.
    pub to_ip: u32,
    /// Source address of the frames, in host byte order.
    pub from_ip: u32,
    /// Destination Ethernet address, then two octets of padding.
    pub to_mac: [u8; 8],
    /// A [`Station`] as a number.
    pub station: u32,
    /// Octets that a station passes to its stack at once.
    pub write_len: u32,
    /// For TCP segmentation offload: frame length after segmentation of packets with `frame_len` octets,
    /// which a source sends and a sink accepts; 0: no segmentation, `frame_len` is that of a frame.
    pub segment_len: u32,
    /// Nanoseconds that an application spends on each frame.
    pub work_ns: u32,
    /// Maximum number of frames that wait for the application.
    pub queue_len: u32,
    /// 1: the application's driver polls with a budget and leaves frames in the ring while the queue is full;
    /// 0: every interrupt preempts the application.
    pub protected: u32,
    /// 1: transmit interrupts are delayed, so that each reports many frames; 0: they are immediate.
    pub delay_sent: u32,
}

/// Boot information of the firmware, at [`map::BOOT_INFO`].
#[derive(Clone, Debug)]
#[repr(C)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// A [`Role`] as a number.
    pub role: u32,
    /// A [`Misdeed`] as a number, for [`Role::Hostile`].
    pub misdeed: u32,
    /// Execution environment: an [`Environment`] as a number.
    pub environment: u32,
    /// Number of vCPUs that will run.
    pub vcpus: u32,
    /// Number of NICs on the PCI bus.
    pub nic_count: u32,
    /// Number of static neighbours.
    pub neighbour_count: u32,
    /// Frequency of the time-stamp counter in kHz.
    pub tsc_khz: u64,
    /// Octets of guest RAM, from guest-physical address 0.
    pub ram: u64,
    /// Octets of the route tables at [`map::FIB`], of equal size; 0: none.
    pub fib: u64,
    /// Octets of the neighbour table of its group at [`map::NEIGHBOURS`], which the host writes; 0: it has its own. Then
    /// there is a [`Desk`] at [`map::DESK`].
    pub group_neighbours: u64,
    /// Number of route tables, for IPv4 and IPv6 together, at most [`MAX_TABLES`].
    pub tables: u32,
    /// Empty passes of the main loop before a vCPU arms its interrupts and halts; `u32::MAX`: never.
    pub spin: u32,
    /// Entries of each virtqueue that the firmware requests, a power of two up to 1024.
    pub ring_size: u32,
    /// Number of neighbours that a router knows at most.
    pub neighbour_table: u32,
    /// 1 if a router sends redirects.
    pub redirects: u32,
    /// Number of interfaces for VLANs.
    pub vlan_count: u32,
    /// Parameters of sources and sinks.
    pub traffic: TrafficInfo,
    /// The NICs.
    pub nics: [NicInfo; MAX_NICS],
    /// The interfaces for VLANs, numbered after the NICs.
    pub vlans: [VlanInfo; MAX_VLANS],
    /// The static neighbours.
    pub neighbours: [NeighbourInfo; MAX_NEIGHBOURS],
    /// 1 if a router is a member of a group, in which others have its addresses. It ends the structure, so that none of its octets is
    /// padding.
    pub shares_addresses: u32,
}

impl BootInfo {
    /// Creates the boot information of a firmware without NICs; the VMM fills in what depends on its memory.
    pub fn new(role: Role, vcpus: u32) -> Self {
        Self {
            magic: MAGIC,
            role: role as u32,
            misdeed: 0,
            environment: Environment::Kvm as u32,
            vcpus,
            nic_count: 0,
            neighbour_count: 0,
            tsc_khz: 0,
            ram: 0,
            fib: 0,
            group_neighbours: 0,
            tables: 1,
            spin: u32::MAX,
            ring_size: 1024,
            neighbour_table: DEFAULT_NEIGHBOURS,
            redirects: 0,
            vlan_count: 0,
            traffic: TrafficInfo::default(),
            nics: [NicInfo::default(); MAX_NICS],
            vlans: [VlanInfo::default(); MAX_VLANS],
            neighbours: [NeighbourInfo::default(); MAX_NEIGHBOURS],
            shares_addresses: 0,
        }
    }
}

const _: () = assert!(size_of::<BootInfo>() as u64 <= map::SHARED - map::BOOT_INFO);
const _: () = assert!(size_of::<Shared>() as u64 <= map::POOL - map::SHARED);
const _: () = assert!(MAX_NICS <= map::SLOTS && map::PINS <= MAX_NICS);
