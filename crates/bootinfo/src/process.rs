//! Protocol by which a firmware that runs as a process is set up through its socket, before it has its
//! memory.
//!
//! The host sends [`Start`] with the descriptors of RAM, route table (if there is one), neighbour table and desk of a
//! group (for a member of one) and bus bell, in this order; then as many [`Bell`]s as `Start` announces, at most [`BELLS_A_MESSAGE`] in a message, each with
//! its descriptor. The firmware answers with one [`Report`] when it is confined and about to run, or when it
//! has failed. Before the firmware is executed, the process that prepares its environment reports failures in
//! the same form.

use crate::MAX_VCPUS;

/// Number of the socket's descriptor in the process.
pub const SOCKET: i32 = 3;
/// Maximum number of doorbells in one message.
pub const BELLS_A_MESSAGE: usize = 32;
/// Value in [`Start::cpus`] for any CPU.
pub const ANYWHERE: u32 = u32::MAX;
/// Octets of a thread name in the kernel, including the terminating zero.
pub const NAME_LEN: usize = 16;

/// The first message to the process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Start {
    /// [`crate::MAGIC`].
    pub magic: u64,
    /// Octets of RAM, from guest-physical address 0; the process maps them from [`crate::map::BOOT_INFO`] on.
    pub ram: u64,
    /// Octets of the route table; 0: none.
    pub fib: u64,
    /// Octets of the group's neighbour table, for a member of one, which has a desk then; 0: none.
    pub group_neighbours: u64,
    /// Number of vCPUs, one thread each.
    pub vcpus: u32,
    /// Number of doorbells that follow.
    pub bells: u32,
    /// CPU of each vCPU, or [`ANYWHERE`].
    pub cpus: [u32; MAX_VCPUS],
    /// The router's name, truncated so that `/vcpu15` fits behind it; padded with zeros.
    pub name: [u8; NAME_LEN],
}

/// One doorbell of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Bell {
    /// PCI slot of the NIC.
    pub slot: u32,
    /// Number of the queue.
    pub queue: u32,
}

/// Report of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Report {
    /// A [`Step`] as a number.
    pub step: u32,
    /// The kernel's error number, if a call failed.
    pub error: u32,
}

/// Progress of a process, or the step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// It is confined and runs.
    Ready = 0,
    /// It could not tie its life to that of its parent.
    Tie = 1,
    /// It could not arrange its descriptors.
    Descriptors = 2,
    /// It could not limit its resources.
    Limits = 3,
    /// It could not leave the host's files behind.
    Root = 4,
    /// It could not give up its privileges.
    Privileges = 5,
    /// It could not start the firmware.
    Exec = 6,
    /// It received an invalid message.
    Orders = 7,
    /// It could not map its memory.
    Memory = 8,
    /// It could not run on the CPU assigned to it.
    Cpu = 9,
    /// It could not start a vCPU.
    Thread = 10,
    /// It could not enter its seccomp filter.
    Filter = 11,
    /// It could not change its user to nobody.
    User = 12,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 13] = [
        Self::Ready,
        Self::Tie,
        Self::Descriptors,
        Self::Limits,
        Self::Root,
        Self::Privileges,
        Self::Exec,
        Self::Orders,
        Self::Memory,
        Self::Cpu,
        Self::Thread,
        Self::Filter,
        Self::User,
    ];

    /// Returns the step with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }
}
