//! Peers that are no good, at both kinds of door. None of them makes anybody wait, and the next one is as welcome as the first.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use nic::virtio_net::features;

use super::*;

/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(30);

const GET_FEATURES: u32 = 1;
const SET_OWNER: u32 = 3;

/// What a peer is asked next: the request, and its octets.
fn hear(stream: &mut UnixStream) -> Option<u32> {
    let mut header = [0; 12];
    stream.read_exact(&mut header).ok()?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let mut body = vec![0; word(8) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(word(0))
}

/// Answers by a number.
fn answer(stream: &mut UnixStream, request: u32, number: u64) {
    let header = [request, 1 | 1 << 2, 8].map(u32::to_le_bytes).concat();
    let _ = stream.write_all(&[&header[..], &number.to_le_bytes()].concat());
}

/// A peer with these features that knows nothing of protocol features, until it is left.
fn serve(mut stream: UnixStream, features: u64) {
    while let Some(request) = hear(&mut stream) {
        if request == GET_FEATURES {
            answer(&mut stream, request, features);
        }
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

struct Meeting {
    peer: Peer,
    listener: UnixListener,
    _folder: tempfile::TempDir,
}

/// We dial, and the other side listens.
fn meeting() -> Meeting {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let door = Arc::new(Door::connect(&path).expect("a door"));
    let peer = Peer::new("edge.wan", door, Confinement::Off).expect("a peer");
    Meeting { peer, listener, _folder: folder }
}

impl Meeting {
    /// Lets the next connection be served badly, and says what is told of it.
    fn refused(&self, badly: impl FnOnce(UnixStream)) -> String {
        let before = self.peer.counters().refused.get();
        badly(self.listener.accept().expect("a connection").0);
        until("refused", || self.peer.counters().refused.get() > before);
        until("a reason", || self.peer.status().1.is_some());
        self.peer.status().1.expect("a reason")
    }

    /// A good one comes, and stays a while.
    fn is_well(&self) {
        let stream = self.listener.accept().expect("a connection").0;
        let leaves = stream.try_clone().expect("a copy");
        let server = thread::spawn(|| serve(stream, features::VERSION_1 | features::EVENT_IDX));
        until("there", || self.peer.status() == (Status::Idle, None));
        let offer = self.peer.offer(PATIENCE);
        assert_eq!(offer, Offer { features: features::VERSION_1 | features::EVENT_IDX, pairs: 1 });
        leaves.shutdown(std::net::Shutdown::Both).expect("it leaves");
        server.join().expect("served");
        until("gone", || self.peer.status().0 == Status::Away);
    }
}

#[test]
fn a_peer_that_says_nothing_is_left() {
    let meeting = meeting();
    let (begin, mut kept) = (Instant::now(), None);
    let why = meeting.refused(|stream| kept = Some(stream));
    assert!(why.contains("did not answer in time"), "{why}");
    assert!(begin.elapsed() < PATIENCE);
    meeting.is_well();
}

#[test]
fn a_peer_that_answers_in_crumbs_is_left() {
    let meeting = meeting();
    let why = meeting.refused(|mut stream| {
        thread::spawn(move || {
            // A header by the octet, for longer than anybody may take for all.
            while stream.write_all(&[1]).is_ok() {
                thread::sleep(Duration::from_millis(400));
            }
        });
    });
    assert!(why.contains("VHOST_USER_GET_FEATURES"), "{why}");
    meeting.is_well();
}

#[test]
fn answers_that_are_none_are_told_and_the_next_peer_is_welcome() {
    let meeting = meeting();
    let nonsense: [&[u8]; 4] = [
        &[0xff; 20],
        // The answer to another question.
        &[[2_u32, 5, 8].map(u32::to_le_bytes).concat(), vec![0; 8]].concat(),
        // Longer than any message.
        &[[1_u32, 5, u32::MAX].map(u32::to_le_bytes).concat(), vec![0; 8]].concat(),
        // Cut off.
        &[1, 0, 0],
    ];
    for octets in nonsense {
        let why = meeting.refused(|mut stream| {
            assert_eq!(hear(&mut stream), Some(SET_OWNER));
            assert_eq!(hear(&mut stream), Some(GET_FEATURES));
            let _ = stream.write_all(octets);
        });
        assert!(why.starts_with("VHOST_USER_GET_FEATURES: "), "{why}");
    }
    let why = meeting.refused(|stream| {
        thread::spawn(|| serve(stream, features::EVENT_IDX));
    });
    assert!(why.contains("VIRTIO_F_VERSION_1"), "{why}");
    meeting.is_well();
    meeting.is_well();
}

#[test]
fn a_door_that_nobody_comes_to_says_what_every_peer_can_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("peer.sock");
    let peer = Peer::new("edge.wan", Arc::new(Door::listen(&path).expect("a door")), Confinement::Off);
    let peer = peer.expect("a peer");
    assert_eq!(peer.status(), (Status::Away, None));
    assert_eq!(peer.offer(Duration::from_millis(10)), Offer::LEAST);
    // Taking back what nobody has is no wait.
    let begin = Instant::now();
    peer.receiver().end();
    assert!(begin.elapsed() < END_LIMIT);
    let stream = UnixStream::connect(&path).expect("one comes");
    let server = thread::spawn(|| serve(stream, features::VERSION_1));
    assert_eq!(peer.offer(PATIENCE), Offer { features: features::VERSION_1, pairs: 1 });
    drop(peer);
    server.join().expect("it was left");
}
