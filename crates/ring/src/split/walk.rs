//! The device's slow path: chains of several descriptors, and indirect tables.
//!
//! Checks: each descriptor is read once; a chain has at most [`MAX_DESCRIPTORS`], including those of a table; `next`
//! stays inside the table that it belongs to; a table is only one level deep, ends its chain, and has a length of a
//! whole number of descriptors, at least one; writable buffers come last; every buffer lies completely in guest memory;
//! with IN_ORDER descriptors are consecutive. Empty buffers are skipped.

use arrayvec::ArrayVec;

use super::burst::{Chain, MAX_DESCRIPTORS, MAX_SEGMENTS, SEGMENT_CAPACITY, TOO_MANY};
use super::shared::{Descriptor, INDIRECT, NEXT, Shared, WRITE};
use super::{Broken, Features};
use crate::{Bytes, Regions};

/// Kinds of buffers that the chains of a queue may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Readable,
    Writable,
    Both,
}

/// Table from which the descriptors of a chain are read.
enum Table {
    Queue,
    Indirect(Bytes<'static>),
}

/// Traversal of one chain.
pub(super) struct Walk<'a> {
    pub(super) shared: Shared,
    pub(super) memory: &'a Regions,
    pub(super) features: Features,
    pub(super) direction: Direction,
    pub(super) segments: &'a mut ArrayVec<Bytes<'static>, SEGMENT_CAPACITY>,
    /// Descriptors read for the burst.
    pub(super) steps: &'a mut u16,
}

/// A chain, and the number of entries of the descriptor table that it takes.
pub(super) struct Walked {
    pub(super) chain: Chain,
    pub(super) entries: u16,
    /// Address of its last buffer.
    pub(super) last: u64,
}

impl Walk<'_> {
    /// Follows the chain that begins at `head`.
    pub(super) fn chain(mut self, head: u16) -> Result<Walked, Broken> {
        if head >= self.shared.size() {
            return Err(Broken::Entry);
        }
        let start = self.segments.len();
        let mut chain = Chain { only: Bytes::EMPTY, head, start: start as u16, readable: 0, writable: 0 };
        let mut table = Table::Queue;
        let (mut descriptor, mut at, mut entries) = (self.read(&table, head)?, head, 1);
        let (mut oversize, end) = (false, *self.steps + MAX_DESCRIPTORS - 1);
        loop {
            if descriptor.flags & INDIRECT != 0 {
                table = self.enter(&table, descriptor)?;
                at = 0;
            } else {
                oversize |= !self.buffer(&mut chain, descriptor)?;
                if descriptor.flags & NEXT == 0 {
                    break;
                }
                at = self.successor(&table, at, descriptor.next)?;
                entries += u16::from(matches!(table, Table::Queue));
            }
            if *self.steps == end {
                return Err(Broken::Loop);
            }
            descriptor = self.read(&table, at)?;
        }
        self.finish(&mut chain, oversize);
        Ok(Walked { chain, entries, last: descriptor.address })
    }

    /// Returns the table behind an indirect descriptor, after checking it.
    fn enter(&self, from: &Table, descriptor: Descriptor) -> Result<Table, Broken> {
        let whole = descriptor.len != 0 && descriptor.len.is_multiple_of(16);
        let allowed = self.features.indirect && matches!(from, Table::Queue) && descriptor.flags & NEXT == 0;
        if !whole || !allowed {
            return Err(Broken::Indirect);
        }
        let table = self.memory.bytes(descriptor.address, descriptor.len).ok_or(Broken::Address)?;
        Ok(Table::Indirect(table))
    }

    /// Checks and adds one buffer; returns false if the chain has too many to be shown.
    fn buffer(&mut self, chain: &mut Chain, descriptor: Descriptor) -> Result<bool, Broken> {
        let writable = descriptor.flags & WRITE != 0;
        let wrong = match self.direction {
            Direction::Readable => writable,
            Direction::Writable => !writable,
            Direction::Both => !writable && chain.writable > 0,
        };
        if wrong {
            return Err(Broken::Direction);
        }
        let bytes = self.memory.bytes(descriptor.address, descriptor.len).ok_or(Broken::Address)?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if usize::from(chain.readable + chain.writable) == MAX_SEGMENTS
            || self.segments.try_push(bytes).is_err()
        {
            return Ok(false);
        }
        chain.readable += u8::from(!writable);
        chain.writable += u8::from(writable);
        Ok(true)
    }

    /// Checks the number of the next descriptor.
    fn successor(&self, table: &Table, at: u16, next: u16) -> Result<u16, Broken> {
        match table {
            Table::Indirect(table) if usize::from(next) >= table.len() / 16 => Err(Broken::Entry),
            Table::Queue if next >= self.shared.size() => Err(Broken::Entry),
            Table::Queue if self.features.in_order && next != at.wrapping_add(1) & self.shared.mask() => {
                Err(Broken::Order)
            }
            _ => Ok(next),
        }
    }

    fn read(&mut self, table: &Table, at: u16) -> Result<Descriptor, Broken> {
        *self.steps += 1;
        match table {
            Table::Queue => Ok(self.shared.descriptor(at)),
            Table::Indirect(table) => {
                #[cfg(test)]
                super::tests::count_read();
                let [address, rest] = table.read_words(usize::from(at) * 16).ok_or(Broken::Entry)?;
                Ok(Descriptor::from_words(address, rest))
            }
        }
    }

    /// Hides the buffers of an oversized chain; moves a single buffer out of the list, where it needs no place.
    fn finish(&mut self, chain: &mut Chain, oversize: bool) {
        if oversize {
            self.segments.truncate(usize::from(chain.start));
            (chain.readable, chain.writable, chain.start) = (0, 0, TOO_MANY);
        } else if chain.readable + chain.writable == 1 {
            chain.only = self.segments.pop().unwrap_or(Bytes::EMPTY);
        }
    }
}
