use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use signals::guard;
use support::HugePages;

use super::*;

const LEN: usize = 16 << 20;

/// Punches a hole into the first octets, as a process that has the file may do.
fn punch(file: &File, octets: usize) {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(fallocate(file, mode, 0, octets as u64), Ok(()));
}

fn write(ram: &GuestRam) {
    assert!(ram.region().bytes(LEN as u64 - 8, 8).expect("it is there").write(0, [7u8; 8]));
    assert!(ram.region().bytes(0, 8).expect("it is there").write(0, [7u8; 8]));
}

fn read(ram: &GuestRam, address: u64) -> [u8; 8] {
    ram.region().bytes(address, 8).and_then(|octets| octets.read(0)).expect("it is there")
}

#[test]
fn nobody_seals_what_is_ours() {
    let ram = GuestRam::new("sealed", LEN).expect("memory");
    let file = ram.file().expect("a file");
    assert_eq!(fcntl_add_seals(file, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
    let table = SharedMemory::sparse("sealed", LEN).expect("memory");
    table.seal_against_writers().expect("sealed");
    let file = table.file().expect("a file");
    assert_eq!(fcntl_add_seals(file, SealFlags::FUTURE_WRITE), Err(Errno::PERM));
}

#[test]
fn a_hole_in_small_pages_reads_as_zeros_and_is_nothing_to_anybody() {
    let memory = SharedMemory::sparse("small", LEN).expect("memory");
    assert!(!memory.is_huge());
    let ram = GuestRam::of(memory, Words::Inside).expect("memory");
    write(&ram);
    punch(ram.share_file().expect("a file"), LEN);
    assert_eq!(read(&ram, 0), [0; 8]);
    assert!(!ram.was_punched());
    write(&ram);
    assert_eq!(read(&ram, 0), [7; 8]);
}

mod alone {
    use super::*;

    #[test]
    fn so_many_mappings_are_guarded_and_no_more() {
        let memory = SharedMemory::sparse("guarded", LEN).expect("memory");
        let base = NonNull::new(memory.as_ptr()).expect("it is mapped");
        // SAFETY: the mapped octets are not read, and are unmapped after the guards are gone.
        let guard = || unsafe { Guard::over(base, LEN) };
        let mut guards: Vec<_> = (0..guard::MOST).map(|_| guard().expect("there is room")).collect();
        guard().expect_err("there is none");
        guards.pop();
        guard().expect("a place is free again");
    }

    #[test]
    fn huge_pages_that_are_taken_read_as_zeros_and_that_is_noticed() {
        support::needs!(Root);
        let count = (LEN / HUGE_PAGE) as u32;
        let Some(_pages) = HugePages::set(count) else {
            println!("SKIPPED: this host does not give {count} huge pages");
            return;
        };
        let ram = GuestRam::new("taken", LEN).expect("memory");
        assert!(ram.is_huge() && HugePages::free() == 0);
        write(&ram);
        // As for two NICs of one router.
        let (_, file) = (ram.share_file().expect("a file"), ram.share_file().expect("a file"));
        punch(file, LEN / 2);
        let taken = SharedMemory::map("thief", LEN / 2, true).expect("the pages are free");
        assert_eq!(HugePages::free(), 0);
        assert_eq!(read(&ram, LEN as u64 - 8), [7; 8], "that page is still there");
        assert!(!ram.was_punched());
        assert_eq!(read(&ram, 0), [0; 8]);
        assert!(ram.was_punched());
        assert_eq!(read(&ram, LEN as u64 - 8), [0; 8], "nothing of it is shared any more");
        write(&ram);
        drop((ram, taken));
        // The old range is not guarded any more.
        let ram = GuestRam::new("next", LEN).expect("memory");
        ram.share_file().expect("a file");
        assert!(!ram.was_punched());
    }
}
