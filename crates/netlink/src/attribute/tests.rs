use super::*;

#[test]
fn what_is_put_together_is_read() {
    let inner = Attributes::default().number(1, 7).text(2, "rx-gro").with(3, &[]);
    let all = Attributes::default().nest(4, &inner).with(5, &[1, 2, 3]);
    assert_eq!(all.octets().len() % 4, 0);
    let read: Vec<(u16, &[u8])> = attributes(all.octets()).collect();
    assert_eq!(read.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(read[1].1, [1, 2, 3]);
    let inside: Vec<(u16, &[u8])> = attributes(read[0].1).collect();
    assert_eq!(number(inside[0].1), Some(7));
    assert_eq!(text(inside[1].1), Some("rx-gro"));
    assert_eq!((inside[2].0, inside[2].1.len()), (3, 0));
}

#[test]
fn nothing_is_read_beyond_a_damage() {
    for len in [0_u16, 3, 9, u16::MAX] {
        let mut octets = Attributes::default().number(1, 7).octets().to_vec();
        octets.extend(len.to_ne_bytes());
        octets.extend([1, 0, 1, 2, 3, 4]);
        assert_eq!(attributes(&octets).count(), 1, "a length of {len}");
    }
    assert_eq!(attributes(&[1, 2, 3]).count(), 0);
    assert_eq!((number(&[1, 2, 3]), text(&[0xff, 0])), (None, None));
}
