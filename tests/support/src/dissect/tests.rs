use std::fs;
use std::path::PathBuf;

use super::{Dissected, differences, dissect, parse};

#[test]
fn fields_are_read_by_name_from_the_outermost_header_inwards() {
    let frames = parse("64,1\t0x0011\t\n63\tTrue\t5\n", &["ip.ttl", "a", "b"]);
    assert_eq!(frames[0].get("ip.ttl"), Some("64"));
    assert_eq!(frames[0].each("ip.ttl").collect::<Vec<_>>(), ["64", "1"]);
    assert_eq!((frames[0].number("a"), frames[0].number("b")), (Some(17), None));
    assert_eq!((frames[1].number("a"), frames[1].number("b")), (Some(1), Some(5)));
}

#[test]
fn differences_name_the_frame_the_field_and_both_values() {
    let frames = parse("64\n63\n", &["ip.ttl"]);
    let expected = |ttl: &str| vec![("ip.ttl", ttl.to_owned())];
    assert!(differences(&frames, &[expected("64"), expected("63")]).is_empty());
    assert_eq!(
        differences(&frames, &[expected("64"), expected("64")]),
        ["frame 2: ip.ttl is 63, expected 64"]
    );
    assert_eq!(differences(&frames, &[expected("64")]), ["2 frames, expected 1"]);
}

/// Returns a capture of two UDP frames, the second with a wrong IPv4 header checksum.
fn capture() -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 63, 17, 0, 0xcf, 10, 0, 0, 1, 10, 1, 0, 1]);
    frame.extend([0x10, 0, 0x20, 0, 0, 8, 0, 0]);
    let len = u32::try_from(frame.len()).expect("a short frame");
    for checksum_high in [0x67, 0xf3] {
        frame[24] = checksum_high;
        for word in [0, 0, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&frame);
    }
    file
}

#[test]
fn tshark_tells_a_right_checksum_from_a_wrong_one() {
    crate::needs!(Program("tshark"));
    let path: PathBuf = std::env::temp_dir().join(format!("dissect-{}.pcap", std::process::id()));
    fs::write(&path, capture()).expect("a writable temporary folder");
    let frames = dissect(&path, "", &["eth.dst", "ip.ttl", "ip.checksum.status", "udp.dstport"]);
    let _ = fs::remove_file(&path);
    let frames = frames.expect("a capture that tshark can read");
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[0].get("eth.dst"), Some("02:00:00:00:00:02"));
    assert_eq!((frames[0].number("ip.ttl"), frames[0].number("udp.dstport")), (Some(63), Some(8192)));
    assert_eq!([0, 1].map(|n| frames[n].number("ip.checksum.status")), [Some(1), Some(0)]);
}

#[test]
fn both_ways_to_write_zero_are_right() {
    let frame = |status: &str, checksum: &str| Dissected {
        fields: [("tcp.checksum.status", status), ("tcp.checksum", checksum)]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
    };
    assert!(frame("1", "0x1234").is_right() && frame("0", "0xffff").is_right());
    assert!(!frame("0", "0x1234").is_right() && !frame("0", "0x0000").is_right());
}
