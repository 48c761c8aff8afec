use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::net::SendFlags;
use rustix::pipe::pipe;

use super::{HEADER, LONGEST, Link, MOST_DESCRIPTORS, MOST_IN_A_PIECE, MOST_WAITING, Received};

fn pair() -> (Link, Link) {
    let (ours, theirs) = Link::pair().expect("descriptors");
    (ours, Link::new(theirs))
}

/// A link whose other end is a raw socket.
fn by_hand() -> (Link, UnixStream) {
    let (ours, theirs) = Link::pair().expect("descriptors");
    (ours, theirs.into())
}

/// Moves octets until `count` messages have arrived.
fn carry(from: &mut Link, to: &mut Link, count: usize) -> Vec<Received<String>> {
    let mut came = Vec::new();
    while came.len() < count {
        from.flush().expect("flushed");
        came.extend(to.receive().expect("good messages"));
    }
    came
}

fn raw(length: u32, count: u32, json: &str) -> Vec<u8> {
    [&length.to_le_bytes()[..], &count.to_le_bytes(), json.as_bytes()].concat()
}

#[test]
fn messages_arrive_in_order_with_their_descriptors() {
    let (mut a, mut b) = pair();
    let (read, write) = pipe().expect("a pipe");
    a.send(&"first", vec![]).expect("sent");
    a.send(&"second", vec![read, write]).expect("sent");
    a.send(&"third", vec![]).expect("sent");
    let mut came = carry(&mut a, &mut b, 3);
    assert_eq!(
        came.iter().map(|m| (m.0.as_str(), m.1.len())).collect::<Vec<_>>(),
        [("first", 0), ("second", 2), ("third", 0)]
    );
    let mut ends = came.swap_remove(1).1.into_iter().map(File::from);
    let (mut read, mut write) = (ends.next().expect("two"), ends.next().expect("two"));
    write.write_all(b"x").expect("written");
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).expect("read");
    assert_eq!(text, "x", "they are the two ends, in their order");
}

#[test]
fn a_descriptor_that_is_lent_comes_back() {
    let (mut a, mut b) = pair();
    let (read, _write) = pipe().expect("a pipe");
    let lent = Arc::new(read);
    a.lend(&"file", lent.clone()).expect("sent");
    assert_eq!(Arc::strong_count(&lent), 1);
    let came = carry(&mut a, &mut b, 1);
    assert_eq!(came.iter().map(|m| (m.0.as_str(), m.1.len())).collect::<Vec<_>>(), [("file", 1)]);
    drop(b);
    a.lend(&"file", lent.clone()).expect_err("the other side is gone");
    drop(a);
    assert_eq!(Arc::strong_count(&lent), 1);
}

#[test]
fn more_descriptors_than_the_kernel_takes_at_once() {
    let (mut a, mut b) = pair();
    let count = 2 * MOST_IN_A_PIECE + 3;
    let null = File::open("/dev/null").expect("null");
    let copies: Vec<OwnedFd> = (0..count).map(|_| null.try_clone().expect("a copy").into()).collect();
    a.send(&"before", vec![]).expect("sent");
    a.send(&"many", copies).expect("sent");
    a.send(&"after", vec![null.into()]).expect("sent");
    let came = carry(&mut a, &mut b, 3);
    assert_eq!(came.iter().map(|m| m.1.len()).collect::<Vec<_>>(), [0, count, 1]);
}

#[test]
fn a_message_larger_than_the_socket_waits_for_its_reader() {
    let (mut a, mut b) = pair();
    let long = "x".repeat(3 << 20);
    a.send(&long, vec![]).expect("kept");
    a.send(&"next", vec![]).expect("kept");
    assert!(a.wants_to_write());
    let came = carry(&mut a, &mut b, 2);
    assert!(came[0].0 == long && came[1].0 == "next");
    assert!(!a.wants_to_write());
    assert_eq!(a.waiting, 0);
}

#[test]
fn nothing_is_kept_without_end() {
    let (mut a, _b) = pair();
    let long = "x".repeat(1 << 20);
    let sent = (0..MOST_WAITING >> 19).take_while(|_| a.send(&long, vec![]).is_ok()).count();
    let expected = MOST_WAITING >> 20;
    assert!((expected - 1..=expected + 1).contains(&sent), "{sent}");
    let (mut a, _b) = pair();
    assert!(a.send(&"x".repeat(LONGEST), vec![]).is_err(), "its quotes make it too long");
    assert!(!a.wants_to_write());
}

#[test]
fn a_peer_that_breaks_the_rules_is_an_error() {
    let wrong = [
        raw(LONGEST as u32 + 1, 0, ""),
        raw(u32::MAX, u32::MAX, ""),
        raw(2, MOST_DESCRIPTORS as u32 + 1, "\"\""),
        raw(2, 1, "\"\""),
        raw(4, 0, "{]}}"),
        raw(2, 0, "17"),
        raw(0, 0, ""),
    ];
    for octets in wrong {
        let (mut link, mut peer) = by_hand();
        peer.write_all(&octets).expect("written");
        assert!(link.receive::<String>().is_err(), "{octets:?}");
    }
}

#[test]
fn descriptors_that_nobody_asked_for_are_an_error() {
    let (mut a, b) = pair();
    drop(b);
    let null = File::open("/dev/null").expect("null");
    let pieces = 3 * MOST_DESCRIPTORS / MOST_IN_A_PIECE;
    // A message that announces none, and one that does not end.
    for (beginning, most) in [(raw(2, 0, "\"\""), 1), (raw(LONGEST as u32, 1, ""), pieces)] {
        let (mut link, peer) = by_hand();
        let mut sender = Link::new(peer.into());
        let mut octets = beginning;
        let mut refused = false;
        for _ in 0..most {
            let copy = |_| Arc::new(OwnedFd::from(null.try_clone().expect("a copy")));
            let copies = (0..MOST_IN_A_PIECE).map(copy).collect();
            let octets = std::mem::replace(&mut octets, b" ".to_vec());
            sender.pieces.push_back(super::Piece { octets, sent: 0, descriptors: copies });
            let _ = sender.flush();
            refused |= link.receive::<String>().is_err();
            if refused {
                break;
            }
        }
        assert!(refused);
    }
    assert!(a.send(&"x", vec![]).is_err(), "nobody is there");
}

/// More descriptors than a receiver takes at once are lost like those for which it may open no more files.
#[test]
fn a_message_whose_descriptors_are_lost_leaves_the_others_theirs() {
    let (mut link, peer) = by_hand();
    let null = File::open("/dev/null").expect("null");
    let many = vec![&null; MOST_IN_A_PIECE + 2];
    let send = |octets: &[u8], descriptors: &[&File]| {
        let sent = fd_passing::send(&peer, octets, descriptors, SendFlags::empty());
        assert_eq!(sent, Ok(octets.len()));
    };
    send(&raw(3, 2, "\"a\""), &many[..2]);
    // In two pieces, the second one of which arrives complete.
    let lost = raw(3, many.len() as u32 + 1, "\"b\"");
    send(&lost[..1], &many);
    send(&lost[1..], &many[..1]);
    send(&raw(3, 1, "\"c\""), &many[..1]);
    send(&raw(3, 0, "\"d\""), &[]);
    let came: Vec<Received<String>> = link.receive().expect("good messages");
    let came: Vec<_> = came.iter().map(|(text, descriptors)| (text.as_str(), descriptors.len())).collect();
    assert_eq!(came, [("a", 2), ("b", 0), ("c", 1), ("d", 0)]);
    send(&raw(3, 1, "\"e\""), &many[..1]);
    let came: Vec<Received<String>> = link.receive().expect("a good message");
    assert_eq!((came.len(), came[0].1.len()), (1, 1), "nothing is left of the lost ones");
}

#[test]
fn random_octets_are_messages_or_errors() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..2000 {
        let (mut link, mut peer) = by_hand();
        let mut octets: Vec<u8> = (0..next() % 64).map(|_| next() as u8).collect();
        if let Some(length) = octets.get_mut(1..HEADER) {
            length.fill(0);
        }
        peer.write_all(&octets).expect("written");
        drop(peer);
        while !link.is_ended() {
            if link.receive::<String>().is_err() {
                break;
            }
        }
    }
}

#[test]
fn what_came_before_the_end_is_received() {
    let (mut a, mut b) = pair();
    a.send(&"last words", vec![]).expect("sent");
    drop(a);
    let came: Vec<Received<String>> = b.receive().expect("good");
    assert_eq!(came.len(), 1);
    assert!(b.is_ended());
    assert!(b.receive::<String>().expect("nothing").is_empty());
}
