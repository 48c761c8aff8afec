//! Memory of groups beside their routes: the neighbour table that only the host writes, and the desk of each member.

use std::ops::Deref;
use std::sync::Arc;

use anyhow::{Result, ensure};
use bootinfo::Desk;
use router::neighbours::{self, Header};
use router::{Bucket, Neighbours};

use crate::memory::SharedMemory;

/// The writer of a group's neighbour table.
pub struct NeighbourTable {
    // Declared before the memory that it refers to, hence dropped before it.
    table: Neighbours<'static>,
    /// Keeps what `table` refers to.
    _memory: Arc<SharedMemory>,
}

impl NeighbourTable {
    /// Creates the writer of a table in this memory, which must be writable and have no other writer. What an earlier writer
    /// has left there stays.
    ///
    /// # Errors
    /// The memory is too short.
    pub fn new(memory: Arc<SharedMemory>) -> Result<Self> {
        let count = neighbours::shared_buckets(memory.len());
        ensure!(count > 0, "{} octets are too few for a neighbour table", memory.len());
        let base = memory.as_ptr();
        // SAFETY: the memory, page aligned, holds a header and behind it so many buckets; both are nothing but atomics, for
        // which every bit pattern is valid. The references last as long as `table`, which is dropped before `memory`, and
        // never leave it: a `Neighbours` gives none away.
        let (header, buckets) = unsafe {
            let buckets = base.add(size_of::<Header>()).cast::<Bucket>();
            (&*base.cast::<Header>(), std::slice::from_raw_parts(buckets, count))
        };
        Ok(Self { table: Neighbours::for_others(header, buckets), _memory: memory })
    }
}

impl Deref for NeighbourTable {
    type Target = Neighbours<'static>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

/// The desk of a member, as the host reads it.
pub struct MemberDesk(Arc<SharedMemory>);

impl MemberDesk {
    /// Finds the desk in this memory, which must be writable.
    ///
    /// # Errors
    /// The memory is too short.
    pub fn new(memory: Arc<SharedMemory>) -> Result<Self> {
        ensure!(memory.len() >= Desk::LEN, "{} octets are too few for a desk", memory.len());
        Ok(Self(memory))
    }

    /// Returns the memory that the member maps.
    pub fn memory(&self) -> &Arc<SharedMemory> {
        &self.0
    }
}

impl Deref for MemberDesk {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        // SAFETY: `new` has checked that it lies in the memory, which is page aligned and lives as long as `self`; it is nothing
        // but atomics, for which every bit pattern is valid and which the member may change at any time.
        unsafe { &*self.0.as_ptr().cast::<Desk>() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::atomic::Ordering::Release;

    use bootinfo::{Hearers, Question};
    use frame::Mac;
    use router::{Ip, Neighbour};
    use rustix::fs::{OFlags, SealFlags, fcntl_add_seals, fcntl_getfl};
    use rustix::io::Errno;

    use super::*;

    fn memory(len: usize) -> SharedMemory {
        SharedMemory::sparse("group", len).expect("memory")
    }

    fn handed(memory: &SharedMemory) -> OwnedFd {
        memory.file().expect("a file").try_clone().expect("a descriptor").into()
    }

    #[test]
    fn what_is_handed_to_members_cannot_be_written() {
        let memory = memory(neighbours::shared_len(64));
        let file = memory.read_only().expect("a descriptor");
        assert_eq!(fcntl_getfl(&file).expect("flags") & OFlags::RWMODE, OFlags::RDONLY);
        assert_eq!(
            fcntl_add_seals(&file, SealFlags::FUTURE_WRITE),
            Err(Errno::PERM),
            "nor be sealed against us"
        );
        let copy: OwnedFd = file.try_clone().expect("a descriptor").into();
        assert!(SharedMemory::adopt(copy, true).is_err(), "no mapping by which to write");
        assert!(SharedMemory::adopt(file.into(), false).is_ok());
    }

    #[test]
    fn the_next_writer_finds_what_the_last_one_has_left() {
        let memory = memory(neighbours::shared_len(64));
        let known = Neighbour { nic: 1, ip: Ip::v4(0x0a00_0001), mac: Mac([2, 0, 0, 0, 0, 1]) };
        let mine = || Arc::new(SharedMemory::adopt(handed(&memory), true).expect("mapped"));
        NeighbourTable::new(mine()).expect("a table").learn(known, true, 0);
        let next = NeighbourTable::new(mine()).expect("a table");
        assert_eq!((next.find(1, known.ip), next.count()), (Some(known.mac), 1));
        assert!(NeighbourTable::new(Arc::new(self::memory(4096))).is_err(), "too short");
    }

    #[test]
    fn a_desk_is_read_where_the_member_writes() {
        let memory = memory(Desk::LEN);
        let mine = || Arc::new(SharedMemory::adopt(handed(&memory), true).expect("mapped"));
        let (host, member) =
            (MemberDesk::new(mine()).expect("a desk"), MemberDesk::new(mine()).expect("a desk"));
        let mut hearers = Hearers::new(&host);
        member.ask(0, Question { nic: 1, ip: 7 });
        member.epoch(2).expect("there").store(5, Release);
        let mut heard = Vec::new();
        hearers.hear(&host, 10, |question| heard.push(question));
        assert_eq!((heard, host.epochs()[2]), (vec![Question { nic: 1, ip: 7 }], 5));
        assert!(MemberDesk::new(Arc::new(self::memory(4096))).is_err(), "too short");
    }

    #[test]
    fn memory_that_can_shrink_is_not_taken() {
        let file = rustix::fs::memfd_create("wild", rustix::fs::MemfdFlags::ALLOW_SEALING).expect("memory");
        rustix::fs::ftruncate(&file, 4096).expect("octets");
        let error = SharedMemory::adopt(file, true).expect_err("refused").to_string();
        assert!(error.contains("can change its length"), "{error}");
    }
}
