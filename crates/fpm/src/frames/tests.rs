use proptest::prelude::*;

use super::*;

fn stream(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = Vec::new();
    payloads.iter().for_each(|payload| assert!(append(&mut stream, payload)));
    stream
}

fn taken(frames: &mut Frames) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    while let Some(payload) = frames.take().expect("a sound stream") {
        taken.push(payload.to_vec());
    }
    taken
}

#[test]
fn a_frame_may_arrive_octet_by_octet() {
    let (mut frames, payload) = (Frames::default(), vec![7; 20]);
    let octets = stream(std::slice::from_ref(&payload));
    for octet in &octets[..octets.len() - 1] {
        assert_eq!(frames.push(&[*octet]), 1);
        assert_eq!(frames.take(), Ok(None));
    }
    frames.push(&octets[octets.len() - 1..]);
    assert_eq!(frames.take(), Ok(Some(payload.as_slice())));
    assert_eq!(frames.take(), Ok(None));
    assert_eq!(frames.waiting(), 0);
}

#[test]
fn frames_without_messages_and_the_longest_ones_are_frames() {
    let payloads = [vec![], vec![1; LONGEST - HEADER], vec![2; 1]];
    let mut frames = Frames::default();
    let octets = stream(&payloads);
    assert_eq!(frames.push(&octets), octets.len());
    assert_eq!(taken(&mut frames), payloads);
    assert!(!append(&mut Vec::new(), &vec![0; LONGEST - HEADER + 1]), "too long for the length field");
}

#[test]
fn a_broken_stream_stays_broken() {
    for (octets, expected) in [
        ([2, 1, 0, 8], Broken::Version(2)),
        ([1, 2, 0, 8], Broken::Kind(2)),
        ([1, 1, 0, 3], Broken::Length(3)),
        ([1, 1, 0, 0], Broken::Length(0)),
    ] {
        let mut frames = Frames::default();
        frames.push(&octets);
        assert_eq!(frames.take(), Err(expected));
        frames.push(&stream(&[vec![1]]));
        assert_eq!(frames.take(), Err(expected));
        frames.clear();
        frames.push(&stream(&[vec![1]]));
        assert_eq!(frames.take(), Ok(Some([1].as_slice())));
    }
}

#[test]
fn the_room_is_empty_only_while_frames_wait() {
    let mut frames = Frames::default();
    let octets = stream(&vec![vec![3; 996]; 300]);
    let first = frames.push(&octets);
    assert_eq!(first, BUFFER, "more is there than the buffer holds");
    assert!(frames.room().is_empty());
    let before = taken(&mut frames).len();
    assert_eq!(frames.push(&octets[first..]), octets.len() - first);
    assert_eq!(before + taken(&mut frames).len(), 300);
}

proptest! {
    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..40),
        cuts in prop::collection::vec(1usize..700, 1..20),
    ) {
        let octets = stream(&payloads);
        let (mut frames, mut rest, mut came) = (Frames::default(), octets.as_slice(), Vec::new());
        for len in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let pushed = frames.push(&rest[..rest.len().min(*len)]);
            rest = &rest[pushed..];
            came.extend(taken(&mut frames));
        }
        prop_assert_eq!(came, payloads);
    }
}
