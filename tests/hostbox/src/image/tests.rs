use super::*;

/// Builds a 64-bit ELF file with these segments at odd offsets, and trailing data.
fn elf(segments: &[&[u8]]) -> Vec<u8> {
    let mut elf = vec![0; HEADER];
    elf[..4].copy_from_slice(b"\x7fELF");
    put(&mut elf, SEGMENTS_AT, HEADER);
    elf[SEGMENT_COUNT] = segments.len() as u8;
    elf[SECTION_COUNTS + 2] = 7;
    elf.resize(HEADER + segments.len() * SEGMENT, 0);
    for (number, octets) in segments.iter().enumerate() {
        let (here, head) = (elf.len(), HEADER + number * SEGMENT);
        elf.extend_from_slice(octets);
        elf.push(0xff);
        elf[head] = if octets.starts_with(b"note") { NOTE as u8 } else { 1 };
        put(&mut elf, head + OFFSET, here);
        put(&mut elf, head + FILE_SIZE, octets.len());
        put(&mut elf, head + ALIGNMENT, 0x20_0000);
    }
    elf.extend([0xee; 9999]);
    elf
}

/// Builds a bzImage with this compressed kernel.
fn image(packed: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 3 * SECTOR];
    image[SETUP_SECTORS] = 2;
    image[MAGIC.0..MAGIC.0 + 4].copy_from_slice(MAGIC.1);
    image[PAYLOAD.0] = 16;
    image[PAYLOAD.1..PAYLOAD.1 + 4].copy_from_slice(&((packed.len() + TRAILER) as u32).to_le_bytes());
    image.extend([0; 16]);
    image.extend_from_slice(packed);
    image.extend([1, 2, 3, 4, 5]);
    image
}

#[test]
fn segments_stay_and_zeros_and_sections_go() {
    let lean = lean(&elf(&[b"code\0\0\0", &[0; 5000], b"data", b"note\0"])).expect("an ELF file");
    assert_eq!(lean[SECTION_COUNTS + 2], 0);
    let segment = |number: usize| {
        let head = HEADER + number * SEGMENT;
        let (offset, size) =
            (double(&lean, head + OFFSET).unwrap(), double(&lean, head + FILE_SIZE).unwrap());
        let alignment = if number == 3 { 0x20_0000 } else { PAGE };
        assert_eq!((offset % PAGE, double(&lean, head + ALIGNMENT)), (0, Some(alignment)));
        &lean[offset..offset + size]
    };
    assert_eq!(segment(3), b"note\0");
    assert_eq!((segment(0), segment(1), segment(2)), (&b"code"[..], &b""[..], &b"data"[..]));
    assert!(lean.len() <= 5 * PAGE);
}

#[test]
fn a_kernel_is_taken_out_of_its_image() {
    let folder = tempfile::tempdir().expect("a folder");
    let [plain, packed, to] = ["vmlinux.plain", "vmlinuz", "vmlinux"].map(|name| folder.path().join(name));
    fs::write(&plain, elf(&[b"code"])).expect("a file");
    let done = Command::new("xz").args(["-c", "--check=crc32"]).arg(&plain).output();
    let Ok(done) = done else {
        println!("SKIPPED: no xz");
        return;
    };
    fs::write(&packed, image(&done.stdout)).expect("a file");
    unpack(&packed, &to).expect("a kernel");
    assert_eq!(fs::read(&to).expect("a file"), lean(&elf(&[b"code"])).unwrap());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 3, "nothing else is left");
}

#[test]
fn what_is_packed_in_another_way_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("vmlinuz");
    for octets in [image(b"\x1f\x8b gzip"), image(XZ), b"short".to_vec(), vec![0; 5000]] {
        fs::write(&file, &octets).expect("a file");
        assert!(unpack(&file, &folder.path().join("vmlinux")).is_err());
    }
    for octets in [b"no ELF".to_vec(), elf(&[b"code"])[..100].to_vec()] {
        assert_eq!(lean(&octets), None);
    }
}
