//! A data plane or a supervisor that sends arbitrary data over the link, in pieces of any length, with descriptors beside any
//! octet. Finds panics, blocking, messages that lose or swap their descriptors, and descriptors that stay open.
//!
//! The input consists of an octet that selects the receiver, then pieces: framing, number of descriptors, length, and octets.

use std::io::pipe;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use link::{Link, ToPlane, ToSupervisor};
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::SendFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Most descriptors with one piece: the kernel accepts 253, and the link has room for 128.
const MOST: usize = 160;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let Some((who, pieces)) = input.split_first() else { return };
    if who & 1 == 0 { hear::<ToPlane>(pieces) } else { hear::<ToSupervisor>(pieces) }
}

fn hear<M: Serialize + DeserializeOwned>(mut pieces: &[u8]) {
    let (mut link, theirs) = Link::pair().expect("a socket pair");
    let (ours, given) = pipe().expect("a pipe");
    let (mut sent, mut state) = (0, SentState::default());
    while let Some((&[kind, descriptors, length], rest)) = pieces.split_first_chunk() {
        let (octets, rest) = rest.split_at(rest.len().min(usize::from(length)));
        pieces = rest;
        let count = usize::from(descriptors) % MOST;
        let went = say(theirs.as_fd(), &framed(kind, count, octets), count, given.as_fd());
        sent += if went { count } else { 0 };
        state.piece(kind, count, went);
        // Unread data is received together with the next piece.
        if kind & 0x80 != 0 {
            continue;
        }
        let Ok(messages) = link.receive::<M>() else { break };
        assert!(!state.owes, "a message without its descriptors");
        state.waiting = 0;
        assert!(messages.iter().map(|(_, came)| came.len()).sum::<usize>() <= sent, "more than were sent");
        messages.into_iter().for_each(said_again);
    }
    drop(theirs);
    while !link.is_ended() && link.receive::<M>().is_ok() {}
    drop((link, given));
    // No copy of the descriptor may be open any more.
    let mut octet = [0];
    rustix::io::ioctl_fionbio(&ours, true).expect("a pipe");
    assert_eq!(rustix::io::read(&ours, &mut octet), Ok(0), "a descriptor stays open");
}

/// Properties of the data sent so far.
struct SentState {
    /// True if there were only complete frames, with their descriptors.
    sound: bool,
    /// True if they were followed by one that lacks a descriptor.
    owes: bool,
    /// Descriptors that were not received yet.
    waiting: usize,
}

impl Default for SentState {
    fn default() -> Self {
        Self { sound: true, owes: false, waiting: 0 }
    }
}

impl SentState {
    fn piece(&mut self, kind: u8, count: usize, went: bool) {
        self.waiting += count;
        // If there is no room for the descriptors, a message arrives without them.
        self.sound &= went && count <= 128 && self.waiting <= 512;
        self.owes |= self.sound && kind & 7 == 5;
        self.sound &= kind & 7 < 4;
    }
}

/// Returns a piece as it is sent: raw, or a frame whose header is right, or nearly right.
fn framed(kind: u8, count: usize, octets: &[u8]) -> Vec<u8> {
    let (length, count) = match kind & 7 {
        0..4 => (octets.len(), count),
        4 => (octets.len() + 1, count),
        5 => (octets.len(), count + 1),
        6 => (octets.len(), count.saturating_sub(1)),
        _ => return octets.to_vec(),
    };
    [&(length as u32).to_le_bytes(), &(count as u32).to_le_bytes(), octets].concat()
}

/// Sends a piece with this many descriptors; returns false if it is not sent.
fn say(socket: BorrowedFd<'_>, octets: &[u8], count: usize, given: BorrowedFd<'_>) -> bool {
    let given = vec![given; count];
    !octets.is_empty() && fd_passing::send(socket, octets, &given, SendFlags::DONTWAIT).is_ok()
}

/// Checks that a received message arrives unchanged over another link, with its descriptors.
fn said_again<M: Serialize + DeserializeOwned>((message, descriptors): (M, Vec<OwnedFd>)) {
    for descriptor in &descriptors {
        assert!(fcntl_getfd(descriptor).expect("open").contains(FdFlags::CLOEXEC), "a child would have it");
    }
    let json = |message: &M| serde_json::to_string(message).expect("it is written");
    let (mut here, there) = Link::pair().expect("a socket pair");
    let (mut there, count) = (Link::new(there), descriptors.len());
    here.send(&message, descriptors).expect("there is room");
    let heard = there.receive::<M>().expect("a message");
    assert_eq!(heard.len(), 1);
    let (again, came) = &heard[0];
    assert_eq!((json(again), came.len()), (json(&message), count));
}
