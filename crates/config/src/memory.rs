//! Memory that a router's rings and buffers take, checked before anything starts, so that no firmware fails
//! for want of memory.

use crate::plan::Router;

/// Guest memory consists of 2 MiB pages.
const PAGE: u64 = 2 << 20;
/// Firmware, boot information and shared words, in front of the memory for rings and buffers
/// (`bootinfo::map::POOL`).
const BEFORE_POOL: u64 = bootinfo::map::POOL;
/// A buffer and its slot in the vCPU's pool.
const BUFFER: u64 = 2112 + 8;
/// A ring entry: descriptor, elements of the available and the used ring (virtio 1.2, section 2.7), and the
/// driver's own state.
const ENTRY: u64 = 16 + 2 + 8 + 24;
/// Each ring starts on a 4 KiB page and has its indices in separate cache lines.
const RING: u64 = 4096 + 512;
/// State of one vCPU: prepared headers, packets that wait for address resolution, device start-up.
const VCPU: u64 = 320 << 10;
/// One place of the neighbour table. The table lies in the part of the first vCPU; all parts are of equal size.
const NEIGHBOUR: u64 = 48;
/// Number of buffers of a vCPU with small rings.
const LEAST_BUFFERS: u64 = 256;

/// Least memory in which a router can start, in octets: a multiple of 2 MiB.
pub(crate) fn needed(router: &Router) -> u64 {
    let entries: u64 = router.nics.iter().map(|nic| 2 * u64::from(nic.ring)).sum();
    let rings = 2 * router.nics.len() as u64;
    let neighbours = u64::from(router.forwarding.neighbours) * NEIGHBOUR;
    let vcpu = VCPU + neighbours + rings * RING + entries * ENTRY + entries.max(LEAST_BUFFERS) * BUFFER;
    (BEFORE_POOL + u64::from(router.vcpus) * vcpu).next_multiple_of(PAGE)
}

/// Describes what takes that memory.
pub(crate) fn shape(router: &Router) -> String {
    let entries = router.nics.iter().map(|nic| nic.ring).max().unwrap_or(0);
    let rings = router.nics.len() as u64 * u64::from(router.vcpus) * 2;
    format!("{rings} rings (2 for each NIC and vCPU) of up to {entries} entries, with their buffers")
}
