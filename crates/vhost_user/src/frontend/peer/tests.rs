//! Misbehaving peers, at both kinds of door. None of them blocks anybody, and the next peer is served like
//! the first.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use nic::virtio_net::features;

use super::observed_limit::LONGEST_STEP;
use super::stage::ANSWER;
use super::*;

/// Time limit of every wait, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

const GET_FEATURES: u32 = 1;
const SET_OWNER: u32 = 3;

/// Receives a message and returns its request number.
fn hear(stream: &mut UnixStream) -> Option<u32> {
    let mut header = [0; 12];
    stream.read_exact(&mut header).ok()?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
    let mut body = vec![0; word(8) as usize];
    stream.read_exact(&mut body).ok()?;
    Some(word(0))
}

/// Expects the first two requests.
fn is_asked(stream: &mut UnixStream) {
    assert_eq!(hear(stream), Some(SET_OWNER));
    assert_eq!(hear(stream), Some(GET_FEATURES));
}

/// Answers a request with a number.
fn answer(stream: &mut UnixStream, request: u32, number: u64) {
    let header = [request, 1 | 1 << 2, 8].map(u32::to_le_bytes).concat();
    let _ = stream.write_all(&[&header[..], &number.to_le_bytes()].concat());
}

/// A peer with these features and without protocol features, which serves until it is disconnected.
fn serve(mut stream: UnixStream, features: u64) {
    while let Some(request) = hear(&mut stream) {
        if request == GET_FEATURES {
            answer(&mut stream, request, features);
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// A clock that stands still until it is advanced: a peer that behaves is never late. With the number of its readings.
#[derive(Clone, Default)]
struct Moved(Arc<Mutex<(Duration, u64)>>);

impl Moved {
    fn clock(&self) -> Clock {
        let (start, moved) = (Instant::now(), self.0.clone());
        Arc::new(move || {
            let (time, readings) = &mut *moved.lock().unwrap();
            *readings += 1;
            start + *time
        })
    }

    fn readings(&self) -> u64 {
        self.0.lock().unwrap().1
    }

    /// Advances the clock, and returns the number of readings before.
    fn advance(&self, more: Duration) -> u64 {
        let (time, readings) = &mut *self.0.lock().unwrap();
        *time += more;
        *readings
    }
}

struct Meeting {
    peer: Peer,
    listener: UnixListener,
    moved: Moved,
    _folder: tempfile::TempDir,
}

/// Sets up a peer to which we connect; the test listens.
fn meeting() -> Meeting {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let door = Arc::new(Door::connect(&path).expect("a door"));
    listener.set_nonblocking(true).expect("a flag");
    let moved = Moved::default();
    let peer = Peer::with_clock("edge.wan", door, Confinement::Off, moved.clock()).expect("a peer");
    Meeting { peer, listener, moved, _folder: folder }
}

impl Meeting {
    /// Advances the clock, and waits until that was looked at: it is read for each look, and once between two looks.
    fn passes(&self, time: Duration) {
        let before = self.moved.advance(time);
        self.peer.shared.ring();
        until("a look", || self.moved.readings() >= before + 2);
    }

    /// Lets the time limit for answers pass, in steps that count in full; `act` comes before each.
    fn answer_passes(&self, mut act: impl FnMut()) {
        for _ in 0..ANSWER.as_millis().div_ceil(LONGEST_STEP.as_millis()) {
            act();
            self.passes(LONGEST_STEP);
        }
    }

    /// Accepts the next connection. The pause before it passes in steps that are short compared with the time
    /// limit for answers.
    fn accept(&self) -> UnixStream {
        let mut stream = None;
        until("a connection", || {
            stream = self.listener.accept().ok();
            if stream.is_none() {
                self.passes(ANSWER / 50);
            }
            stream.is_some()
        });
        let (stream, _) = stream.expect("a connection");
        stream.set_nonblocking(false).expect("a flag");
        stream
    }

    /// Serves the next connection badly, and returns the reason that is reported.
    fn refused(&self, badly: impl FnOnce(UnixStream)) -> String {
        let before = self.peer.counters().refused.get();
        badly(self.accept());
        until("refused", || self.peer.counters().refused.get() > before);
        until("a reason", || self.peer.status().1.is_some());
        self.peer.status().1.expect("a reason")
    }

    /// A good peer connects, and stays a while.
    fn is_well(&self) {
        let stream = self.accept();
        let leaves = stream.try_clone().expect("a copy");
        let server = thread::spawn(|| serve(stream, features::VERSION_1 | features::EVENT_IDX));
        until("there", || self.peer.status() == (Status::Idle, None));
        assert_eq!(
            self.peer.offer(),
            Offer { features: features::VERSION_1 | features::EVENT_IDX, pairs: 1 }
        );
        leaves.shutdown(std::net::Shutdown::Both).expect("it leaves");
        server.join().expect("served");
        until("gone", || self.peer.status().0 == Status::Away);
    }
}

#[test]
fn a_peer_that_says_nothing_is_left() {
    let meeting = meeting();
    let mut kept = None;
    let why = meeting.refused(|mut stream| {
        is_asked(&mut stream);
        kept = Some(stream);
        meeting.answer_passes(|| ());
    });
    assert!(why.contains("did not answer in time"), "{why}");
    meeting.is_well();
}

#[test]
fn a_peer_that_answers_in_crumbs_is_left() {
    let meeting = meeting();
    let mut kept = None;
    let why = meeting.refused(|mut stream| {
        is_asked(&mut stream);
        // A header octet by octet, too slowly in the end.
        meeting.answer_passes(|| stream.write_all(&[1]).expect("it listens"));
        kept = Some(stream);
    });
    assert!(why.contains("VHOST_USER_GET_FEATURES"), "{why}");
    meeting.is_well();
}

/// As when the host gives neither us nor the peer a CPU for a while.
#[test]
fn a_peer_is_not_late_by_time_that_nobody_has_looked_at() {
    let meeting = meeting();
    let mut stream = meeting.accept();
    is_asked(&mut stream);
    meeting.passes(ANSWER * 100);
    answer(&mut stream, GET_FEATURES, features::VERSION_1);
    until("there", || meeting.peer.status() == (Status::Idle, None));
    assert_eq!(meeting.peer.counters().refused.get(), 0);
}

#[test]
fn a_driver_waits_in_observed_time_for_the_return_of_its_queues() {
    let moved = Moved::default();
    let shared = Arc::new(Shared::new(PathBuf::from("peer.sock"), moved.clock()).expect("an event"));
    let mut wishes = shared.lock();
    // There is no thread that would settle this turn.
    (wishes.turn, wishes.recalled) = (1, true);
    drop(wishes);
    let receiver = PeerReceiver(shared.clone());
    let driver = thread::spawn(move || receiver.end());
    until("it goes on", || {
        moved.advance(RETURN_LIMIT);
        shared.changed.notify_all();
        driver.is_finished()
    });
    driver.join().expect("no panic");
    let looks = RETURN_LIMIT.as_millis() / LONGEST_STEP.as_millis();
    assert!(u128::from(moved.readings()) > looks, "only {} readings of the clock", moved.readings());
}

#[test]
fn answers_that_are_none_are_told_and_the_next_peer_is_welcome() {
    let meeting = meeting();
    let nonsense: [&[u8]; 4] = [
        &[0xff; 20],
        // The answer to another request.
        &[[2_u32, 5, 8].map(u32::to_le_bytes).concat(), vec![0; 8]].concat(),
        // Longer than any message.
        &[[1_u32, 5, u32::MAX].map(u32::to_le_bytes).concat(), vec![0; 8]].concat(),
        // Truncated.
        &[1, 0, 0],
    ];
    for octets in nonsense {
        let why = meeting.refused(|mut stream| {
            is_asked(&mut stream);
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
    assert_eq!(peer.offer(), Offer::LEAST);
    // No peer has what is taken back here.
    peer.receiver().end();
    let stream = UnixStream::connect(&path).expect("one comes");
    let server = thread::spawn(|| serve(stream, features::VERSION_1));
    until("there", || peer.status().0 == Status::Idle);
    assert_eq!(peer.offer(), Offer { features: features::VERSION_1, pairs: 1 });
    drop(peer);
    server.join().expect("it was left");
}
