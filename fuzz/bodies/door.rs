//! Two processes at a broker, and one at a door to a path, that send arbitrary octets and descriptors, listen at any time, and are
//! replaced, beside the process that holds both. Finds panics, blocking, connections that lead to the wrong process or appear twice,
//! and descriptors that stay open.
//!
//! The input consists of steps of two octets: the action, and the amount.

use std::io::{Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use door::{Door, SocketBroker};
use rustix::net::SendFlags;

/// Most descriptors with an octet.
const MOST: usize = 16;
/// Most steps of an input.
const STEPS: usize = 256;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let (ours, given) = pipe().expect("a pipe");
    {
        let mut world = World::new();
        for &[what, amount] in input.as_chunks::<2>().0.iter().take(STEPS) {
            world.step(what, amount, given.as_fd());
        }
        world.meet();
    }
    drop(given);
    let mut octet = [0];
    rustix::io::ioctl_fionbio(&ours, true).expect("a pipe");
    assert_eq!(rustix::io::read(&ours, &mut octet), Ok(0), "a descriptor stays open");
}

/// A broker and a door to an unused path, the connections at their other ends, and the expected state.
struct World {
    broker: SocketBroker,
    /// Moment of the last service at the broker.
    now: Instant,
    front: Door,
    back: Door,
    /// Door to a path at which no process listens.
    nowhere: Door,
    /// Connections at either end, in order of arrival.
    fronts: Vec<UnixStream>,
    backs: Vec<UnixStream>,
    /// How often the front has asked and may not have been answered yet, and how many connections may have been made for it.
    asked: usize,
    answers: usize,
}

fn inside(door: &Door) -> Door {
    let copy = door.descriptor().try_clone_to_owned().expect("a copy");
    Door::adopt(door.path(), door.listens(), copy)
}

impl World {
    fn new() -> Self {
        let broker = SocketBroker::new("edge.wan").expect("a passage");
        let (front, back) = (inside(broker.front()), inside(broker.back()));
        let nowhere = Door::connect(Path::new("/nowhere/to/be/found")).expect("a door");
        let (fronts, backs) = (Vec::new(), Vec::new());
        let now = Instant::now();
        Self { broker, now, front, back, nowhere, fronts, backs, asked: 0, answers: 0 }
    }

    fn step(&mut self, what: u8, amount: u8, given: BorrowedFd<'_>) {
        match what & 0xf {
            0 | 1 => self.asked += usize::from(say(self.front.descriptor(), amount, given)),
            2 => _ = say(self.back.descriptor(), amount, given),
            3 => self.asked += usize::from(self.front.request().is_ok()),
            4 => _ = self.back.request(),
            5..8 => {
                if self.asked > 0 {
                    (self.asked, self.answers) = (self.asked - 1, self.answers + 1);
                }
                // Some requests come during a pause.
                self.now += Duration::from_millis(u64::from(amount));
                self.broker.serve_request(self.now);
            }
            8 | 9 => self.fronts.extend(self.front.accept().expect("a sound holder")),
            10 | 11 => self.backs.extend(self.back.accept().expect("a sound holder")),
            12 => self.replace_front(),
            13 => self.replace_back(),
            14 => {
                say(inside(&self.nowhere).descriptor(), amount, given);
                self.nowhere.serve_request();
            }
            _ => assert!(!matches!(inside(&self.nowhere).accept(), Ok(Some(_))), "to nowhere"),
        }
        assert!(self.fronts.len() <= self.answers && self.backs.len() <= self.answers);
    }

    /// Replaces the process at the front: the new one finds nothing from before.
    fn replace_front(&mut self) {
        self.broker.renew_front().expect("another one");
        (self.front, self.asked) = (inside(self.broker.front()), 0);
        assert!(self.front.accept().expect("a sound holder").is_none());
    }

    fn replace_back(&mut self) {
        self.broker.renew_back().expect("another one");
        self.back = inside(self.broker.back());
        assert!(self.back.accept().expect("a sound holder").is_none());
    }

    /// Checks that every connection at the front leads to at most one at the back, in the same order.
    fn meet(mut self) {
        for (number, mut front) in (0u32..).zip(std::mem::take(&mut self.fronts)) {
            // The other end may be gone.
            let _ = front.write_all(&number.to_le_bytes());
        }
        let mut last = None;
        // Connections that wait in the doors are closed, so that no end waits for them.
        drop((self.broker, self.front, self.back));
        for mut back in self.backs {
            let mut number = [0; 4];
            if back.read_exact(&mut number).is_ok() {
                let number = u32::from_le_bytes(number);
                assert!(last.is_none_or(|last| last < number), "{number} behind {last:?}");
                last = Some(number);
            }
        }
    }
}

/// Sends some octets with some descriptors; returns true if they were sent.
fn say(socket: BorrowedFd<'_>, amount: u8, given: BorrowedFd<'_>) -> bool {
    let (octets, count) = (vec![amount; usize::from(amount >> 2) + 1], usize::from(amount) % (MOST + 1));
    let given = vec![given; count];
    fd_passing::send(socket, &octets, &given, SendFlags::DONTWAIT).is_ok()
}
