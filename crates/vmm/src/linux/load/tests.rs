use std::io::Write;

use super::*;

const RAM_LEN: usize = 64 << 20;

fn ram() -> GuestRam {
    GuestRam::with_words_outside("load", RAM_LEN).expect("memory")
}

fn file(octets: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(octets).expect("room");
    file
}

/// A bzImage with a header like those of current kernels, followed by `code`.
fn image(change: impl FnOnce(&mut setup_header), code: &[u8]) -> File {
    let mut header = setup_header {
        setup_sects: 1,
        boot_flag: BOOT_FLAG,
        header: MAGIC,
        version: 0x20f,
        loadflags: LOADED_HIGH,
        code32_start: HIGH_RAM as u32,
        initrd_addr_max: i32::MAX as u32,
        xloadflags: HAS_ENTRY_64,
        cmdline_size: 2047,
        pref_address: 16 << 20,
        init_size: 8 << 20,
        ..setup_header::default()
    };
    change(&mut header);
    let mut octets = vec![0; 1024];
    let head = vm_memory::ByteValued::as_slice(&header);
    octets[0x1f1..0x1f1 + head.len()].copy_from_slice(head);
    octets.extend(code);
    file(&octets)
}

fn read<const N: usize>(ram: &GuestRam, address: u64) -> [u8; N] {
    let mut octets = [0; N];
    ram.memory.read_slice(&mut octets, GuestAddress(address)).expect("inside");
    octets
}

fn try_load(kernel: &mut File, initrd: Option<&mut File>, append: &str) -> Result<(GuestRam, u64)> {
    let ram = ram();
    let entry = load(&ram, Images { kernel, initrd, append }, 2)?;
    Ok((ram, entry))
}

fn fault(kernel: &mut File, initrd: Option<&mut File>, append: &str) -> String {
    match try_load(kernel, initrd, append) {
        Ok((_, entry)) => panic!("it is entered at {entry:#x}"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn a_kernel_finds_what_the_protocol_promises() {
    let initrd = vec![7; 5000];
    let (ram, entry) =
        try_load(&mut image(|_| (), b"code"), Some(&mut file(&initrd)), "quiet").expect("it is loaded");
    assert_eq!(entry, HIGH_RAM + ENTRY_64);
    assert_eq!(&read::<4>(&ram, HIGH_RAM), b"code");
    let params: boot_params = ram.memory.read_obj(GuestAddress(ZERO_PAGE)).expect("inside");
    let header = params.hdr;
    assert_eq!(&read::<17>(&ram, header.cmd_line_ptr.into()), b"acpi=noirq quiet\0");
    let (start, size) = (header.ramdisk_image, header.ramdisk_size);
    assert_eq!((size, start % 4096), (5000, 0));
    assert_eq!(read::<5000>(&ram, start.into()).to_vec(), initrd);
    assert_eq!(header.type_of_loader, 0xff);
    let acpi = params.acpi_rsdp_addr;
    assert_eq!(&read::<8>(&ram, acpi), b"RSD PTR ");
    assert_eq!(&read::<4>(&ram, MP_TABLE), b"_MP_");
}

#[test]
fn the_map_of_memory_leaves_no_table_to_be_overwritten() {
    let (ram, _) = try_load(&mut image(|_| (), b""), None, "").expect("it is loaded");
    let params: boot_params = ram.memory.read_obj(GuestAddress(ZERO_PAGE)).expect("inside");
    let table = params.e820_table;
    let usable = table.iter().take(params.e820_entries.into()).filter(|entry| entry.r#type == RAM);
    let usable: Vec<(u64, u64)> = usable.map(|entry| (entry.addr, entry.addr + entry.size)).collect();
    assert_eq!(usable, [(0, LOW_RAM), (HIGH_RAM, RAM_LEN as u64)]);
}

#[test]
fn the_first_gibs_are_mapped_one_to_one() {
    let (ram, _) = try_load(&mut image(|_| (), b""), None, "").expect("it is loaded");
    for address in [0, 0x20_0000, 0xfee0_0000_u64] {
        let directory = DIRECTORIES + PAGE * (address >> 30);
        let entry = u64::from_le_bytes(read(&ram, directory + 8 * (address >> 21 & 511)));
        assert_eq!(entry & !0xfff, address, "{address:#x}");
    }
}

#[test]
fn what_is_no_kernel_is_refused_in_one_line() {
    let mut bad = [
        file(b""),
        file(b"no"),
        file(&[0; 4096]),
        file(b"\x7fELF"),
        image(|header| header.xloadflags = 0, b""),
        image(|header| header.version = 0x204, b""),
        image(|header| header.init_size = 512 << 20, b""),
        image(|header| header.init_size = u32::MAX, b""),
        image(|header| header.pref_address = u64::MAX, b""),
        image(|header| header.code32_start = 0, b""),
        image(|header| header.setup_sects = 200, b""),
    ];
    for (n, kernel) in bad.iter_mut().enumerate() {
        let line = fault(kernel, None, "");
        assert!(!line.is_empty() && !line.contains('\n'), "{n}: {line}");
    }
}

/// An ELF kernel with this entry and one segment at 1 MiB, which takes this much memory.
fn elf(entry: u64, memory: u64) -> File {
    let code = b"code";
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut octets = b"\x7fELF\x02\x01\x01".to_vec();
    octets.resize(16, 0);
    // An executable for x86-64; entry, offset of the program header table, no sections; 64 octets of header,
    // one segment header of 56.
    octets.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    octets.extend(words(&[entry, 64, 0]));
    octets.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    octets.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    octets.extend(words(&[120, HIGH_RAM, HIGH_RAM, code.len() as u64, memory, PAGE]));
    octets.extend(code);
    file(&octets)
}

#[test]
fn an_elf_kernel_lies_in_memory_and_is_entered_where_it_lies() {
    let (ram, entry) = try_load(&mut elf(HIGH_RAM, 8192), None, "").expect("it is loaded");
    assert_eq!((entry, &read::<4>(&ram, HIGH_RAM)), (HIGH_RAM, b"code"));
    for (entry, memory, why) in [
        (HIGH_RAM, 1 << 30, "takes memory up to 1025 MiB"),
        (HIGH_RAM + 8192, 8192, "where it does not lie"),
        (1 << 40, 8192, "where it does not lie"),
    ] {
        let line = fault(&mut elf(entry, memory), None, "");
        assert!(line.contains(why), "{line}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut large = tempfile::tempfile().expect("a file");
    large.set_len(60 << 20).expect("a sparse file");
    let line = fault(&mut image(|_| (), b""), Some(&mut large), "");
    assert!(line.contains("its 60 MiB do not fit beside the kernel"), "{line}");
    let line = fault(&mut image(|_| (), b""), None, &"x".repeat(2048));
    assert!(line.contains("shorten append"), "{line}");
    assert!(fault(&mut image(|_| (), b""), None, "a\0b").contains("zero octet"));
    large.flush().expect("nothing to flush");
}

#[test]
fn whatever_the_images_are_a_guest_is_told_of_what_it_has() {
    crate::corpus::replay("linux_load", fuzzed::run);
}
