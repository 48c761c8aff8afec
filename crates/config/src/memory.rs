//! Memory that a router's rings and buffers take, checked before anything starts, so that no firmware fails
//! for want of memory.

use bootinfo::buffers;

use crate::plan::Router;
use crate::values::{DEFAULT_MEMORY, MOST_MEMORY};

/// Guest memory consists of 2 MiB pages.
const PAGE: u64 = 2 << 20;
/// Firmware, boot information and shared words, in front of the memory for rings and buffers
/// (`bootinfo::map::POOL`).
const BEFORE_POOL: u64 = bootinfo::map::POOL;
/// Slot of a buffer in the vCPU's pool.
const SLOT: u64 = 8;
/// A ring entry: descriptor, elements of the available and the used ring (virtio 1.2, section 2.7), and the
/// driver's own state.
const ENTRY: u64 = 16 + 2 + 8 + 24;
/// Each ring starts on a 4 KiB page and has its indices in separate cache lines.
const RING: u64 = 4096 + 512;
/// State of one vCPU: prepared headers, interfaces and their bursts, packets that wait for address resolution.
const VCPU: u64 = 384 << 10;
/// State of a vCPU for each further VRF.
const VRF: u64 = 320 << 10;
/// One place of the neighbour table. The table lies in the part of the first vCPU; all parts are of equal size.
const NEIGHBOUR: u64 = 48;
/// Number of buffers of a vCPU with small rings.
const LEAST_BUFFERS: u64 = 256;

/// Least memory in which a router can start, in octets: a multiple of 2 MiB.
pub(crate) fn needed(router: &Router) -> u64 {
    let entries: u64 = router.nics.iter().map(|nic| 2 * u64::from(nic.ring)).sum();
    let rings = 2 * router.nics.len() as u64;
    let tables = router.tables() as u64;
    let neighbours = tables * u64::from(router.forwarding.neighbours) * NEIGHBOUR;
    let state = VCPU + bootinfo::map::start_up(router.nics.len() as u64) + (tables - 1) * VRF;
    let buffer = buffers::stride(router.has_jumbo()) + SLOT;
    let vcpu = state + neighbours + rings * RING + entries * ENTRY + entries.max(LEAST_BUFFERS) * buffer;
    (BEFORE_POOL + u64::from(router.vcpus) * vcpu).next_multiple_of(PAGE)
}

/// Memory of a router whose file names none: as much as its NICs, vCPUs and neighbours need.
pub(crate) fn default(router: &Router) -> u64 {
    needed(router).clamp(DEFAULT_MEMORY, MOST_MEMORY)
}

/// Returns what to write for a router that needs so much memory.
pub(crate) fn remedy(needed: u64) -> String {
    if needed > MOST_MEMORY {
        return "write a smaller ring, or fewer vcpus".to_owned();
    }
    format!("write memory = \"{}M\"", needed >> 20)
}

/// Describes what takes that memory.
pub(crate) fn shape(router: &Router) -> String {
    let entries = router.nics.iter().map(|nic| nic.ring).max().unwrap_or(0);
    let rings = router.nics.len() as u64 * u64::from(router.vcpus) * 2;
    let jumbo = if router.has_jumbo() { " for jumbo frames" } else { "" };
    format!("{rings} rings (2 for each NIC and vCPU) of up to {entries} entries, with their buffers{jumbo}")
}
