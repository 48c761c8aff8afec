use super::*;

fn fill(room: &mut AssemblyBuffer, octets: &[u8]) -> usize {
    let free = room.free();
    let n = free.len().min(octets.len());
    free[..n].copy_from_slice(&octets[..n]);
    room.add(n);
    n
}

#[test]
fn frames_lie_behind_each_other_with_their_tags() {
    let mut room = AssemblyBuffer::new(1518);
    room.begin_burst();
    let octets: Vec<u8> = (0..100).collect();
    fill(&mut room, &octets[..40]);
    fill(&mut room, &octets[40..]);
    assert_eq!((room.len(), room.frame().to_vec()), (100, octets.clone()));
    let plain = room.finish(None, true);
    fill(&mut room, &octets);
    let tagged = room.finish(Some([0x81, 0, 0x20, 7]), true);
    assert!(plain.end <= tagged.start);
    assert_eq!(room.octets()[plain], octets);
    let tagged = &room.octets()[tagged];
    assert_eq!(
        (&tagged[..12], &tagged[12..16], &tagged[16..]),
        (&octets[..12], &[0x81, 0, 0x20, 7][..], &octets[12..])
    );
}

#[test]
fn short_frames_are_padded_with_zeros_whatever_lay_there() {
    let mut room = AssemblyBuffer::new(1518);
    room.begin_burst();
    fill(&mut room, &[0xee; 200]);
    room.discard();
    for (tag, len) in
        [(None, 14), (None, 59), (None, 60), (Some([0x81, 0, 0, 1]), 14), (Some([0x81, 0, 0, 1]), 56)]
    {
        room.begin_burst();
        fill(&mut room, &[0xaa; 60][..len]);
        let range = room.finish(tag, true);
        let sent = len + tag.map_or(0, |tag| tag.len());
        let frame = &room.octets()[range];
        assert_eq!(frame.len(), 60);
        assert!(frame[sent..].iter().all(|&octet| octet == 0), "{frame:?}");
        let first = if tag.is_some() { 16 } else { 0 };
        assert!(frame[first..sent].iter().all(|&octet| octet == 0xaa), "{frame:?}");
    }
    fill(&mut room, &[0xaa; 20]);
    assert_eq!(room.finish(None, false).len(), 20);
}

#[test]
fn what_has_begun_goes_on_with_the_next_burst() {
    let mut room = AssemblyBuffer::new(1518);
    room.begin_burst();
    fill(&mut room, &[1; 1000]);
    room.finish(None, true);
    fill(&mut room, &[2; 300]);
    room.begin_burst();
    assert_eq!(room.frame(), [2; 300]);
    fill(&mut room, &[3; 100]);
    let range = room.finish(None, true);
    assert_eq!(room.octets()[range], [&[2; 300][..], &[3; 100][..]].concat());
}

#[test]
fn no_frame_is_longer_than_the_longest_and_one_of_that_size_always_fits() {
    for longest in [60, 1518, 16 * 1024, 100_000] {
        let mut room = AssemblyBuffer::new(longest);
        room.begin_burst();
        let mut frames = 0;
        while room.has_place() {
            assert_eq!(fill(&mut room, &vec![5; longest + 1]), longest);
            assert!(room.free().is_empty());
            let range = room.finish(Some([1, 2, 3, 4]), true);
            assert!(range.end <= room.octets().len());
            frames += 1;
        }
        assert!(frames >= 1);
    }
}
