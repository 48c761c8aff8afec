//! Arbitrary octets as the kernel and the initramfs of a Linux guest, in a RAM that a kernel barely fits into. Finds panics,
//! hangs, refusals that are not one line, and guests that are told of memory, a command line or an initramfs that they do not
//! have.
//!
//! The first octet selects the other parameters, the next two give the length of the initramfs; the rest is the kernel, and its
//! last octets are also the initramfs.

use std::io::Write;
use std::os::fd::OwnedFd;

use super::*;

/// Size of the RAM in octets: less than routers have, and enough for a small kernel.
const LEN: usize = 3 << 20;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((&[how, low, high], octets)) = input.split_first_chunk() else { return };
    let ram = GuestRam::with_words_outside("load", LEN).expect("memory");
    let len = usize::from(u16::from_le_bytes([low, high])).min(octets.len());
    let initrd = &octets[octets.len() - len..];
    let (mut kernel_file, mut initrd_file) = (file(octets), file(initrd));
    // A sparse file as long as the whole RAM.
    if how & 2 != 0 {
        initrd_file.set_len(u64::from(how >> 2) << 16).expect("a sparse file");
    }
    let size = initrd_file.metadata().expect("a file").len();
    let append = "x".repeat(usize::from(how >> 4) * 200);
    let images = Images {
        kernel: &mut kernel_file,
        initrd: (how & 1 != 0).then_some(&mut initrd_file),
        append: &append,
    };
    match load(&ram, images, 1 + (how & 3)) {
        Ok(entry) => check(&ram, entry, &append, (how & 1 != 0).then_some(size)),
        Err(why) => {
            let line = format!("{why:#}");
            assert!(!line.is_empty() && line.len() < 500 && !line.contains(char::is_control), "{line:?}");
        }
    }
}

fn file(octets: &[u8]) -> File {
    let fd: OwnedFd = rustix::fs::memfd_create("image", rustix::fs::MemfdFlags::CLOEXEC).expect("a memfd");
    let mut file = File::from(fd);
    file.write_all(octets).expect("room");
    file
}

/// Checks the memory, command line and initramfs that the guest is told of.
fn check(ram: &GuestRam, entry: u64, append: &str, initrd: Option<u64>) {
    assert!((HIGH_RAM..LEN as u64).contains(&entry), "entered at {entry:#x}, where no kernel can be");
    let params: boot_params = ram.memory.read_obj(GuestAddress(ZERO_PAGE)).expect("in RAM");
    let header = params.hdr;
    let mut line = vec![0; OWN_WORDS.len() + 1 + append.len() + 1];
    ram.memory.read_slice(&mut line, GuestAddress(header.cmd_line_ptr.into())).expect("in RAM");
    assert_eq!(line, format!("{OWN_WORDS} {append}\0").as_bytes());
    if let Some(size) = initrd {
        let (start, told) = (u64::from(header.ramdisk_image), u64::from(header.ramdisk_size));
        assert_eq!(told, size);
        assert!(start >= HIGH_RAM && start + told <= LEN as u64, "an initramfs at {start:#x}");
    }
    let mut octets = [0; 4];
    ram.memory.read_slice(&mut octets, GuestAddress(MP_TABLE)).expect("in RAM");
    assert_eq!(&octets, b"_MP_", "no kernel lies over the tables");
    let (tables, gdt): (u64, [u64; 4]) = (
        ram.memory.read_obj(GuestAddress(PML4)).expect("in RAM"),
        ram.memory.read_obj(GuestAddress(GDT)).expect("in RAM"),
    );
    assert_eq!((tables, gdt), (PDPT | 3, GDT_ENTRIES));
}
