//! A neighbour table in memory that its readers cannot write: the host has its writer, the routers of a group read it.
//!
//! ```text
//!   Header (4 KiB): generation, arrivals | Bucket | Bucket | ...
//! ```

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};

use super::slot::{Bucket, Entry, State, WAYS};
use super::{Neighbour, Neighbours, buckets, tag};

/// Numbers that tell readers what has changed.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Changes {
    generation: AtomicU32,
    arrivals: AtomicU32,
}

impl Changes {
    pub(super) const fn new() -> Self {
        Self { generation: AtomicU32::new(0), arrivals: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Acquire)
    }

    #[inline(always)]
    pub(super) fn arrivals(&self) -> u32 {
        self.arrivals.load(Acquire)
    }

    /// An address that readers may have copied is changed or removed.
    pub(super) fn invalidate(&self) {
        self.generation.fetch_add(1, Release);
    }

    /// A neighbour was added.
    pub(super) fn arrive(&self) {
        self.arrivals.fetch_add(1, Release);
    }
}

/// The first page of a shared table. Zeroed memory is that of an empty table.
#[derive(Debug, Default)]
#[repr(C, align(4096))]
pub struct Header(Changes);

/// Returns the octets of a shared table for this many neighbours: whole pages of 4 KiB.
pub const fn shared_len(neighbours: usize) -> usize {
    (size_of::<Header>() + buckets(neighbours) * size_of::<Bucket>()).next_multiple_of(size_of::<Header>())
}

/// Returns the number of buckets of a shared table of this many octets.
pub const fn shared_buckets(len: usize) -> usize {
    len.saturating_sub(size_of::<Header>()) / size_of::<Bucket>()
}

impl<'a> Neighbours<'a> {
    /// Creates the writer of a table that others read, with [`shared_buckets`], at least one. There must be no other writer;
    /// what an earlier one has left is as it was, but for entries that it was about to change when it ended.
    pub fn for_others(header: &'a Header, buckets: &'a [Bucket]) -> Self {
        let table = Self { shared: Some(&header.0), ..Self::new(buckets) };
        if buckets.iter().map(Bucket::repair).sum::<usize>() > 0 {
            header.0.invalidate();
        }
        table
    }

    /// Creates a reader of a table that another party writes, with [`shared_buckets`], at least one.
    pub const fn read_only(header: &'a Header, buckets: &'a [Bucket]) -> Self {
        let mut table = Self::new(buckets);
        table.shared = Some(&header.0);
        table.is_read_only = true;
        table
    }

    /// Returns true if another party writes the table: it is asked for neighbours, and keeps them fresh.
    #[inline(always)]
    pub const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    #[inline(always)]
    pub(super) fn changes(&self) -> &Changes {
        self.shared.unwrap_or(&self.own)
    }

    /// Makes these the static neighbours, and no others. Returns false if there is no room for one, or the lock was not
    /// available.
    pub fn set_static(&self, wanted: &[Neighbour]) -> bool {
        let is_wanted =
            |entry: &Entry| wanted.iter().any(|other| (other.nic, other.ip) == (entry.nic, entry.ip));
        let cleared = self.locked(|| {
            for (bucket, way) in
                self.buckets.iter().flat_map(|bucket| (0..WAYS).map(move |way| (bucket, way)))
            {
                let entry = bucket.peek(way);
                if entry.state == State::Static && !is_wanted(&entry) {
                    bucket.write(way, tag(entry.nic, entry.ip), &Entry::default());
                    self.changes().invalidate();
                }
            }
        });
        cleared.is_some() && wanted.iter().filter(|neighbour| !self.add_static(**neighbour)).count() == 0
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use frame::Mac;

    use super::*;
    use crate::ip::Ip;
    use crate::neighbours::{Ageing, MOST_GIVEN, PROBES, REACHABLE};

    /// Zeroed memory of a table for this many neighbours.
    fn memory(neighbours: usize) -> (Header, Vec<Bucket>) {
        let count = shared_buckets(shared_len(neighbours));
        assert!(count >= buckets(neighbours));
        (Header::default(), (0..count).map(|_| Bucket::new()).collect())
    }

    fn neighbour(nic: u8, last: u8) -> Neighbour {
        Neighbour { nic, ip: Ip::v4(0x0a00_0000 | u32::from(last)), mac: Mac([2, 0, 0, 0, nic, last]) }
    }

    #[test]
    fn a_reader_sees_what_the_host_writes_and_writes_nothing() {
        let (header, buckets) = memory(64);
        let writer = Neighbours::for_others(&header, &buckets);
        let reader = Neighbours::read_only(&header, &buckets);
        let (known, arrivals, generation) = (neighbour(1, 7), reader.arrivals(), reader.generation());
        reader.learn(known, true, 0);
        assert!(!reader.add_static(known));
        assert_eq!((reader.find(1, known.ip), reader.count()), (None, 0), "a reader learns nothing");
        writer.learn(known, true, 0);
        assert_eq!(reader.find(1, known.ip), Some(known.mac));
        assert_eq!((reader.arrivals(), reader.generation()), (arrivals + 1, generation));
        writer.learn(Neighbour { mac: Mac([2; 6]), ..known }, false, 1);
        assert_ne!(reader.generation(), generation, "its prepared headers are void");
        assert_eq!(reader.find_for_use(1, known.ip, 2), Some(Mac([2; 6])));
        assert!(reader.mark_doubtful(1, 2), "that is the writer's, so nothing is left to do");
        assert_eq!(reader.state(1, known.ip), State::Reachable);
        let (mut given, none) = ([None; MOST_GIVEN], [None; MOST_GIVEN]);
        given[0] = Some(neighbour(1, 8));
        assert!(reader.exchange_static(&none, &given), "nothing is left to do either");
        assert_eq!((reader.count(), writer.count()), (1, 1));
    }

    #[test]
    fn the_writer_alone_keeps_neighbours_fresh() {
        let (header, buckets) = memory(64);
        let writer = Neighbours::for_others(&header, &buckets);
        let reader = Neighbours::read_only(&header, &buckets);
        writer.learn(neighbour(0, 1), true, 0);
        let probes = |table: &Neighbours<'_>, now: u64| {
            let mut probes = 0_u32;
            table.age(&mut Ageing::default(), now, &mut |_| probes += 1);
            probes
        };
        assert_eq!(probes(&reader, REACHABLE), 0);
        assert_eq!(probes(&writer, REACHABLE), 1);
        let rounds =
            (1..=u64::from(PROBES)).map(|round| probes(&writer, REACHABLE + 1000 * round)).sum::<u32>();
        assert_eq!((rounds, reader.find(0, neighbour(0, 1).ip)), (PROBES - 1, None), "it did not answer");
    }

    #[test]
    fn a_writer_that_ended_within_a_change_leaves_nothing_that_is_half_of_it() {
        let (header, buckets) = memory(64);
        let writer = Neighbours::for_others(&header, &buckets);
        let has_room = (1..=9).all(|last| !writer.learn(neighbour(0, last), true, 0));
        assert!(has_room);
        let generation = writer.generation();
        let torn = buckets.iter().find_map(Bucket::tear).expect("there are some");
        let reader = Neighbours::read_only(&header, &buckets);
        assert_eq!(reader.find(torn.nic, torn.ip), None, "never a mix");
        let next = Neighbours::for_others(&header, &buckets);
        assert_eq!((next.count(), reader.count()), (8, 8), "others are as they were");
        assert_ne!(reader.generation(), generation);
        next.learn(Neighbour { nic: torn.nic, ip: torn.ip, mac: torn.mac }, true, 1);
        assert_eq!((reader.find(torn.nic, torn.ip), reader.count()), (Some(torn.mac), 9));
    }

    #[test]
    fn static_neighbours_are_those_that_are_wanted_now() {
        let (header, buckets) = memory(64);
        let table = Neighbours::for_others(&header, &buckets);
        table.learn(neighbour(0, 1), true, 0);
        assert!(table.set_static(&[neighbour(0, 2), neighbour(1, 3)]));
        assert!(table.set_static(&[neighbour(1, 3), neighbour(1, 4)]));
        let states =
            [(0, 1), (0, 2), (1, 3), (1, 4)].map(|(nic, last)| table.state(nic, neighbour(nic, last).ip));
        assert_eq!(states, [State::Reachable, State::Empty, State::Static, State::Static]);
    }
}
