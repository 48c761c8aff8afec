use ring::Bytes;
use switch::{Frame, Sink};

use super::PcapFile;

fn word(octets: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[test]
fn the_file_holds_each_frame_and_its_length() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("a.pcap");
    let file = PcapFile::create(&path).expect("create");
    let (mut short, mut long, mut huge) = ([7; 14], [9; 1500], vec![0; 65_536]);
    let frames = [&mut short[..], &mut huge[..], &mut long[..]].map(|o| Frame::new(Bytes::from_slice(o)));
    assert_eq!(file.deliver(&frames), 3);
    assert_eq!(file.counters().frames.get(), 2);
    assert_eq!(file.counters().drop_too_long.get(), 1);
    drop(file);

    let octets = std::fs::read(&path).expect("read");
    assert_eq!((word(&octets, 0), word(&octets, 20)), (0xa1b2_3c4d, 1));
    assert_eq!((word(&octets, 24 + 8), word(&octets, 24 + 12)), (14, 14));
    assert_eq!(octets[40..54], [7; 14]);
    assert_eq!((word(&octets, 54 + 8), word(&octets, 54 + 12)), (1500, 1500));
    assert_eq!(octets[70..], [9; 1500]);
}

#[test]
fn a_full_disk_is_told_once_and_counted() {
    let file = PcapFile::create("/dev/null").expect("create");
    drop(file);
    let Err(error) = PcapFile::create("/dev/full") else { panic!("/dev/full takes nothing") };
    assert!(error.to_string().starts_with("writing the pcap file /dev/full: "), "{error}");
}
