//! The route tables that the host has mapped: for each VRF an IPv4 one and, if the router has IPv6, behind it an IPv6 one.

use core::sync::atomic::Ordering::Acquire;

use bootinfo::{BootFailure, BootInfo, map};
use fib::layout::{self, GROUP};
use fib::six::{self, layout as layout6};
use fib::{Memory, Table};

use crate::boot::Vcpu;

/// Returns the IPv4 route table with this number.
pub(crate) fn table(vcpu: &Vcpu, number: usize) -> Result<Table<'static>, BootFailure> {
    let memory = part(vcpu.info, number).and_then(route_table);
    memory.map(Table::new).ok_or(BootFailure::BootInfo)
}

/// Returns the IPv6 route table behind it, if there is one.
pub(crate) fn six_table(vcpu: &Vcpu, number: usize) -> Option<six::Table<'static>> {
    let (start, len) = part(vcpu.info, number)?;
    let at = route_table((start, len))?.header.six_at.load(Acquire) as usize;
    if at == 0 || !at.is_multiple_of(4096) || at.checked_add(layout6::NODES_AT)? > len {
        return None;
    }
    let base = start + at;
    // SAFETY: the header lies in the memory that is mapped for the guest's whole life, read-only, and consists of atomics.
    let header = unsafe { &*(base as *const six::Header) };
    let (nodes, ranges) = (header.nodes.load(Acquire) as usize, header.ranges.load(Acquire) as usize);
    if !header.is_valid() || at + layout6::len(nodes, ranges) > len {
        return None;
    }
    let nodes_at = base + layout6::NODES_AT;
    // SAFETY: all parts lie inside the memory (checked above), at the offsets and alignments that `fib::six::layout` gives,
    // and consist of atomics only.
    let memory = unsafe {
        six::Memory {
            header,
            next_hops: &*((base + layout6::NEXT_HOPS_AT) as *const _),
            buckets: &*((base + layout6::BUCKETS_AT) as *const _),
            root: &*((base + layout6::ROOT_AT) as *const _),
            nodes: core::slice::from_raw_parts(nodes_at as *const _, nodes * layout6::NODE),
            ranges: core::slice::from_raw_parts((nodes_at + 8 * layout6::NODE * nodes) as *const _, ranges),
        }
    };
    Some(six::Table::new(memory))
}

/// Returns address and octets of the tables with this number: all have the same size, a multiple of a page.
fn part(info: &BootInfo, number: usize) -> Option<(usize, usize)> {
    let (count, all) = (info.tables.max(1) as usize, info.fib as usize);
    let len = (all / count) & !(map::PAGE as usize - 1);
    (number < count).then_some((map::FIB as usize + number * len, len))
}

/// Returns the IPv4 table in the octets that the host mapped for us there.
fn route_table((base, len): (usize, usize)) -> Option<Memory<'static>> {
    if len < layout::len(0) {
        return None;
    }
    // SAFETY: the header lies in memory that is mapped for the guest's whole life, read-only, and consists of atomics.
    let six_at = unsafe { &*(base as *const fib::Header) }.six_at.load(Acquire) as usize;
    let end = if six_at == 0 { len } else { six_at.min(len) };
    if end < layout::len(0) {
        return None;
    }
    let groups = layout::groups(end);
    // SAFETY: `len` octets from `base` are mapped for the guest's whole life, read-only; all parts lie inside them
    // (checked above), at the offsets and alignments that `fib::layout` gives, and consist of atomics only.
    let memory = unsafe {
        Memory {
            header: &*(base as *const fib::Header),
            next_hops: &*((base + layout::NEXT_HOPS_AT) as *const _),
            buckets: &*((base + layout::BUCKETS_AT) as *const _),
            tbl24: &*((base + layout::TBL24_AT) as *const _),
            tbl8: core::slice::from_raw_parts((base + layout::TBL8_AT) as *const _, groups * GROUP),
        }
    };
    memory.header.is_valid().then_some(memory)
}
