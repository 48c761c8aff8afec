use super::*;

fn archive() -> Vec<u8> {
    let mut archive = Archive::new(Vec::new());
    archive.add("dev", Kind::Folder).unwrap();
    archive.add("dev/console", Kind::Device { major: 5, minor: 1 }).unwrap();
    archive.add("init", Kind::File { octets: b"hello", executable: true }).unwrap();
    archive.add("bin", Kind::Link("usr/bin")).unwrap();
    archive.finish().unwrap()
}

/// Returns the number at this position of a header.
fn number(header: &[u8], at: usize) -> u32 {
    let digits = std::str::from_utf8(&header[6 + at * 8..][..8]).unwrap();
    u32::from_str_radix(digits, 16).unwrap()
}

/// Name, mode, content and device.
type Entry = (String, u32, Vec<u8>, (u32, u32));

/// Reads the entries by the rules of the format.
fn read(mut octets: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while !octets.is_empty() {
        assert_eq!(&octets[..6], b"070701");
        let (size, name_size) = (number(octets, 6) as usize, number(octets, 11) as usize);
        let name = String::from_utf8(octets[HEADER..][..name_size - 1].to_vec()).unwrap();
        let start = (HEADER + name_size).next_multiple_of(4);
        let content = octets[start..][..size].to_vec();
        entries.push((name, number(octets, 1), content, (number(octets, 9), number(octets, 10))));
        octets = &octets[(start + size).next_multiple_of(4)..];
    }
    entries
}

#[test]
fn entries_are_found_again_by_the_rules_of_the_format() {
    let expected = [
        ("dev", 0o040_755, &b""[..], (0, 0)),
        ("dev/console", 0o020_600, b"", (5, 1)),
        ("init", 0o100_755, b"hello", (0, 0)),
        ("bin", 0o120_777, b"usr/bin", (0, 0)),
        (LAST, 0, b"", (0, 0)),
    ];
    let expected =
        expected.map(|(name, mode, octets, device)| (name.to_owned(), mode, octets.to_vec(), device));
    assert_eq!(read(&archive()), expected);
}

#[test]
fn archives_can_be_put_one_behind_the_other() {
    let twice = [archive(), archive()].concat();
    assert_eq!(read(&twice).len(), 2 * read(&archive()).len());
    assert_eq!(twice.len() % 4, 0);
}
