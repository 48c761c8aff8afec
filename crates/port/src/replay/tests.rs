use proptest::prelude::*;

use super::*;

/// Returns a file of these frames, with these words in this byte order.
fn file(magic: u32, word: fn(u32) -> [u8; 4], version: [u8; 4], frames: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = word(magic).to_vec();
    file.extend(version);
    file.extend([0; 8]);
    file.extend(word(65_535));
    file.extend(word(ETHERNET));
    for (seconds, fraction, octets) in frames {
        for number in [*seconds, *fraction, octets.len() as u32, octets.len() as u32] {
            file.extend(word(number));
        }
        file.extend(octets);
    }
    file
}

/// The version, and the encoding of a word.
type Order = ([u8; 4], fn(u32) -> [u8; 4]);
const LITTLE: Order = ([2, 0, 4, 0], u32::to_le_bytes);
const BIG: Order = ([0, 2, 0, 4], u32::to_be_bytes);

fn small() -> Vec<u8> {
    file(NANOSECONDS, LITTLE.1, LITTLE.0, &[(1, 5, vec![1; 60]), (2, 6, vec![2; 61])])
}

/// Returns all frames, or the error message.
fn read(file: &[u8]) -> Result<Vec<(Duration, Vec<u8>)>, String> {
    let mut reader = Reader::new(file).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(frame) = reader.next_frame().map_err(|error| error.to_string())? {
        all.push((frame.at, frame.octets.to_vec()));
    }
    Ok(all)
}

#[test]
fn both_byte_orders_and_both_units_of_time() {
    for (version, word) in [LITTLE, BIG] {
        for (magic, nanoseconds) in [(MICROSECONDS, 7000), (NANOSECONDS, 7)] {
            // More than is read at once.
            let frames: Vec<_> = (0..300u32).map(|n| (n, 7, vec![n as u8; 1400 + n as usize])).collect();
            let all = read(&file(magic, word, version, &frames)).expect("a good file");
            let wanted = frames.iter().map(|(seconds, _, octets)| {
                (Duration::new(u64::from(*seconds), nanoseconds), octets.clone())
            });
            assert!(all == wanted.collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_we_write_can_be_read() {
    let (mut end, start) = std::io::pipe().expect("a pipe");
    let pcap = crate::pcap::Pcap::new(start, crate::pcap::Limits::default());
    let tap = crate::TapPoint::new(std::sync::Arc::new(crate::Null::new()));
    tap.enable(Box::new(pcap.clone()));
    crate::Sink::deliver(&tap, &[crate::Frame::new(ring::Bytes::from_slice(&mut [9; 77]))]);
    pcap.write_out();
    drop((tap, pcap));
    let mut file = Vec::new();
    end.read_to_end(&mut file).expect("it was written");
    let all = read(&file).expect("a good file");
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, [9; 77]);
}

#[test]
fn what_is_wrong_is_said() {
    let said = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = small();
        change(&mut file);
        read(&file).expect_err("something is wrong")
    };
    assert_eq!(said(&|file| file.clear()), "it is no pcap file");
    assert_eq!(said(&|file| file.truncate(23)), "it is no pcap file");
    assert_eq!(said(&|file| file[0] = 0), "it is no pcap file");
    assert!(
        said(&|file| file[..4].copy_from_slice(&[0x0a, 0x0d, 0x0d, 0x0a])).starts_with("it is a pcapng file")
    );
    assert_eq!(said(&|file| file[6] = 3), "it is a pcap file of version 2.3, not 2.4");
    assert_eq!(said(&|file| file[20] = 101), "its frames are of link type 101, not 1 (Ethernet)");
    let huge = |file: &mut Vec<u8>| file[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(said(&huge), "frame 1 is said to have 4294967295 octets: the file is damaged");
    assert_eq!(said(&|file| file.truncate(file.len() - 1)), "it ends in the middle of frame 2");
    assert_eq!(said(&|file| file.truncate(24 + 76 + 15)), "it ends in the middle of frame 2");
}

#[test]
fn a_frame_that_was_cut_is_known_by_it() {
    let mut file = small();
    file[36] = 61;
    let mut reader = Reader::new(&file[..]).expect("a good head");
    assert!(!reader.next_frame().expect("good").expect("a frame").whole);
    assert!(reader.next_frame().expect("good").expect("a frame").whole);
    assert_eq!(reader.count(), 2);
}

#[test]
fn the_fcs_behind_frames_is_left_out() {
    // Two units of two octets, and the bit that says that they are counted.
    let with_fcs = |word: fn(u32) -> [u8; 4], version| {
        let frames = [(1, 5, vec![1; 64]), (2, 6, vec![2; 64]), (3, 7, vec![3; 2])];
        let mut file = file(NANOSECONDS, word, version, &frames);
        file[20..24].copy_from_slice(&word(0x2400_0001));
        file
    };
    for (version, word) in [LITTLE, BIG] {
        let all = read(&with_fcs(word, version)).expect("a good file");
        let frames: Vec<Vec<u8>> = all.into_iter().map(|(_, octets)| octets).collect();
        assert_eq!(frames, [vec![1; 60], vec![2; 60], Vec::new()]);
    }
    let cut = |original: u8| {
        let mut file = with_fcs(u32::to_le_bytes, LITTLE.0);
        file[36] = original;
        let mut reader = Reader::new(&file[..]).expect("a good head");
        let frame = reader.next_frame().expect("good").expect("a frame");
        (frame.octets.len(), frame.whole)
    };
    assert_eq!(cut(66), (62, true), "only the FCS was cut");
    assert_eq!(cut(69), (64, false));
    let mut without = small();
    without[20..24].copy_from_slice(&0x2000_0001u32.to_le_bytes());
    assert_eq!(read(&without).expect("a good file")[0].1, [1; 60], "no length is given");
}

proptest! {
    #[test]
    fn any_octets_end_in_frames_or_in_a_sentence(octets in proptest::collection::vec(any::<u8>(), 0..400), good in any::<bool>()) {
        let mut file = small()[..24].to_vec();
        file.extend(&octets);
        let _ = read(if good { &file } else { &octets });
    }
}
