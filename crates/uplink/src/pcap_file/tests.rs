use std::fs::File;
use std::io::BufWriter;

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

    // The sink is still there: nothing waits in it.
    let octets = std::fs::read(&path).expect("read");
    assert_eq!((word(&octets, 0), word(&octets, 20)), (0xa1b2_3c4d, 1));
    assert_eq!((word(&octets, 24 + 8), word(&octets, 24 + 12)), (14, 14));
    assert_eq!(octets[40..54], [7; 14]);
    assert_eq!((word(&octets, 54 + 8), word(&octets, 54 + 12)), (1500, 1500));
    assert_eq!(octets[70..], [9; 1500]);
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = PcapFile::create("/dev/full").expect_err("/dev/full takes nothing").to_string();
    assert!(error.starts_with("writing the pcap file /dev/full: "), "{error}");
}

#[test]
fn a_disk_that_fills_up_later_is_told_once_and_each_frame_is_counted() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let file = PcapFile::after_header(BufWriter::new(full));
    let (mut good, mut huge) = ([7; 60], vec![0; 65_536]);
    let frames = [&mut good[..], &mut huge[..]].map(|o| Frame::new(Bytes::from_slice(o)));
    assert_eq!((file.deliver(&frames), file.deliver(&frames)), (0, 0));
    let counters = file.counters();
    assert_eq!(
        (counters.frames.get(), counters.drop_write_failed.get(), counters.drop_too_long.get()),
        (0, 2, 2)
    );
    assert!(file.take_trouble().is_some_and(|told| told.contains("cannot be written")));
    assert_eq!(file.take_trouble(), None);
}
