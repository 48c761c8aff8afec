//! How much memory a router's rings and buffers take, told before anything starts rather than by a firmware that does
//! not come up.

use crate::plan::Router;

/// Guest memory is made of 2 MiB pages.
const PAGE: u64 = 2 << 20;
/// Firmware, boot information and shared words, ahead of the memory for rings and buffers (`bootinfo::map::POOL`).
const BEFORE_POOL: u64 = bootinfo::map::POOL;
/// A buffer and its place in the vCPU's pool.
const BUFFER: u64 = 2112 + 8;
/// One entry of a ring: descriptor, available and used element (virtio 1.2, section 2.7), and what the driver keeps.
const ENTRY: u64 = 16 + 2 + 8 + 24;
/// Each ring starts on a page of 4 KiB and has its indices in cache lines of their own.
const RING: u64 = 4096 + 512;
/// State of one vCPU: prepared headers, packets that wait for a neighbour, what starts a device.
const VCPU: u64 = 256 << 10;
/// Buffers of a vCPU with small rings.
const LEAST_BUFFERS: u64 = 256;

/// Least memory in which a router comes up, in octets: a multiple of 2 MiB.
pub(crate) fn needed(router: &Router) -> u64 {
    let entries: u64 = router.nics.iter().map(|nic| 2 * u64::from(nic.ring)).sum();
    let rings = 2 * router.nics.len() as u64;
    let vcpu = VCPU + rings * RING + entries * ENTRY + entries.max(LEAST_BUFFERS) * BUFFER;
    (BEFORE_POOL + u64::from(router.vcpus) * vcpu).next_multiple_of(PAGE)
}

/// What takes that memory, in words.
pub(crate) fn shape(router: &Router) -> String {
    let entries = router.nics.iter().map(|nic| nic.ring).max().unwrap_or(0);
    let rings = router.nics.len() as u64 * u64::from(router.vcpus) * 2;
    format!("{rings} rings (2 for each NIC and vCPU) of up to {entries} entries, with their buffers")
}
