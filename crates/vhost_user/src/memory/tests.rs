use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

fn memfd(octets: u64) -> File {
    let file = File::from(memfd_create("peer", MemfdFlags::CLOEXEC).expect("a descriptor"));
    file.set_len(octets).expect("a size");
    file
}

fn place(guest: u64, size: u64, user: u64, offset: u64) -> VhostUserMemoryRegion {
    VhostUserMemoryRegion::new(guest, size, user, offset)
}

fn again(file: &File) -> OwnedFd {
    file.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// More than any of these tests shares.
const MOST: u64 = 1 << 30;

fn mapped(places: &[VhostUserMemoryRegion], files: Vec<OwnedFd>) -> Result<PeerMemory, MemoryError> {
    Table::new(places, files, MOST).and_then(PeerMemory::map)
}

fn refusal(places: &[VhostUserMemoryRegion], files: Vec<OwnedFd>) -> String {
    mapped(places, files).expect_err("it is wrong").to_string()
}

#[test]
fn ranges_show_what_their_file_holds() {
    let file = memfd(0x10_0000);
    let places = [place(0, 0xa000, 0x7000_0000, 0), place(0x10_0000, 0x8000, 0x7001_1000, 0x11000)];
    let memory = mapped(&places, vec![again(&file), again(&file)]).expect("two ranges");
    let regions = memory.regions().expect("two ranges");
    assert!(regions.bytes(0x10_0ffe, 2).expect("it is there").write(0, [7u8, 8]));
    let mut seen = [0; 2];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut seen, 0x11ffe).expect("a file");
    assert_eq!(seen, [7, 8]);
    assert!(regions.bytes(0xa000, 1).is_none());
    assert_eq!(memory.guest_address(0x7001_1004), Some(0x10_0004));
    assert_eq!(memory.guest_address(0x7001_9000), None);
    assert!(!memory.is_broken());
}

#[test]
fn tables_that_are_wrong_are_refused_in_one_line() {
    let file = memfd(0x10000);
    let one = |place| refusal(&[place], vec![again(&file)]);
    assert!(one(place(0, 0, 0, 0)).contains("is empty"));
    assert!(one(place(u64::MAX - 0xfff, 0x2000, 0, 0)).contains("beyond the end"));
    assert!(one(place(0, 0x2000, u64::MAX - 0xfff, 0)).contains("beyond the end"));
    assert!(one(place(0, 0x2000, 0, u64::MAX - 0xfff)).contains("beyond the end"));
    assert!(one(place(0, 0x10001, 0, 0)).contains("which has 0x10000"));
    assert!(one(place(0, 0x1000, 0, 0x10000)).contains("which has 0x10000"));
    let two = [place(0, 0x2000, 0, 0), place(0x1fff, 0x1000, 0x5000, 0x2000)];
    assert!(refusal(&two, vec![again(&file), again(&file)]).contains("0x0 and 0x1fff overlap"));
    assert!(refusal(&two, vec![again(&file)]).contains("2 ranges with 1 descriptors"));
    assert!(refusal(&[], Vec::new()).contains("0 ranges"));
    assert!(refusal(&[place(0, 1, 0, 0); 33], Vec::new()).contains("33 ranges"));
    let (pipe, _) = rustix::pipe::pipe().expect("a pipe");
    assert!(refusal(&[place(0, 0x1000, 0, 0)], vec![pipe]).contains("not of tmpfs"));
    // Not writable.
    let sealed = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("a file");
    assert!(refusal(&[place(0, 0x1000, 0, 0)], vec![sealed.into()]).contains("cannot be mapped"));
}

#[test]
fn nothing_but_memory_is_mapped() {
    let disk = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file on disk");
    disk.set_len(0x1000).expect("a size");
    let line = refusal(&[place(0x4000, 0x1000, 0, 0)], vec![disk.into()]);
    assert_eq!(
        line,
        "the memory range at 0x4000 lies in a file that is not of tmpfs, hugetlbfs or memfd_create(2)"
    );
    // As QEMU and DPDK do without memfd_create(2).
    let shm = tempfile::tempfile_in("/dev/shm").expect("a file of tmpfs");
    shm.set_len(0x1000).expect("a size");
    mapped(&[place(0, 0x1000, 0, 0)], vec![shm.into()]).expect("it is memory");
}

#[test]
fn a_table_has_a_budget() {
    let file = memfd(0x4000);
    let halves = [place(0, 0x2000, 0, 0), place(0x2000, 0x1001, 0x2000, 0x2000)];
    let files = || vec![again(&file), again(&file)];
    let line = Table::new(&halves, files(), 0x3fff).expect_err("it is too much").to_string();
    assert_eq!(line, "a memory table of 16384 octets, and at most 16383 octets may be shared (memory_max)");
    Table::new(&halves, files(), 0x4000).expect("whole pages, and no more");
}

#[test]
fn memory_that_is_cut_off_reads_as_zeros_and_is_noticed() {
    let (file, other) = (memfd(0x8000), memfd(0x8000));
    let map = |file: &File| mapped(&[place(0, 0x8000, 0, 0)], vec![again(file)]).expect("a range");
    let (memory, unharmed) = (map(&file), map(&other));
    let octets =
        |memory: &PeerMemory| memory.regions().expect("a range").bytes(0x6000, 8).expect("it is there");
    assert!(octets(&memory).write(0, [1u8; 8]) && octets(&unharmed).write(0, [1u8; 8]));
    file.set_len(0x1000).expect("a file of ours");
    assert!(!memory.is_broken(), "nobody has touched it yet");
    let seen = std::thread::scope(|scope| {
        let touch = || octets(&memory).read::<8>(0).expect("it is mapped");
        let others: Vec<_> = (0..4).map(|_| scope.spawn(touch)).collect();
        others.into_iter().map(|other| other.join().expect("no panic")).collect::<Vec<_>>()
    });
    assert_eq!(seen, [[0u8; 8]; 4]);
    assert!(memory.is_broken());
    assert_eq!(octets(&unharmed).read(0), Some([1u8; 8]));
    assert!(!unharmed.is_broken());
    // Its slot for a guard is free again, and reset.
    drop(memory);
    assert!(!map(&other).is_broken());
}

#[test]
fn what_is_unmapped_is_gone() {
    let file = memfd(0x5000);
    let before = mappings();
    let memory = mapped(&[place(0, 0x5000, 0, 0)], vec![again(&file)]).expect("a range");
    assert_eq!(mappings(), before + 1);
    drop(memory);
    assert_eq!(mappings(), before);
}

/// Counts the mappings of a file with a name that no other test uses.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let ours = |line: &&str| line.ends_with("/memfd:peer (deleted)") && span(line) == 0x5000;
    maps.lines().filter(ours).count()
}

fn span(line: &str) -> u64 {
    let (start, rest) = line.split_once('-').expect("a range");
    let end = rest.split(' ').next().expect("its end");
    u64::from_str_radix(end, 16).expect("a number") - u64::from_str_radix(start, 16).expect("a number")
}
