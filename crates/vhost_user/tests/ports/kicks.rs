//! A peer that was handed our rings blocks threads that ring their doorbells: it is disconnected, and the
//! next one is served.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;

use bootinfo::map;
use door::Door;
use ledger::VcpuExits;
use nic::virtio_net::{NicConfig, features};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::RecvFlags;
use sandbox::Confinement;
use vhost_user::backend::{Backend, Offer};
use vhost_user::frontend::{Peer, Status};
use vmm::attach_handed;

use super::driver::{OCTETS, Queue};
use super::frontend::{MAC, RAM, RECEIVE, Registers, SLOT, TRANSMIT, machine};
use super::{LONGEST, PATIENCE, until};

const GET_FEATURES: u32 = 1;
const GET_PROTOCOL_FEATURES: u32 = 15;
const SET_VRING_KICK: u32 = 12;
/// VHOST_USER_F_PROTOCOL_FEATURES; of these, REPLY_ACK.
const PROTOCOL: u64 = 1 << 30;
const REPLY_ACK: u64 = 1 << 3;
/// Flags of a message: the version; an answer; one is wanted.
const VERSION: u32 = 1;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// Register reads while other threads are in doorbells.
const READS: usize = 10_000;
/// The reason reported for such a peer.
const TOLD: &str = "it does not take the doorbell of a ring, and made a thread of ours wait";

/// Receives a message: request number, flags, and descriptor.
fn hear(mut stream: &UnixStream) -> Option<(u32, u32, Option<OwnedFd>)> {
    let mut header = [0; 12];
    let mut heard = fd_passing::receive(stream, &mut header, 1, RecvFlags::WAITALL).ok()?;
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
    stream.read_exact(&mut vec![0; word(8) as usize]).ok()?;
    (heard.octets == 12).then(|| (word(0), word(4), heard.descriptors.pop()))
}

/// Fills an eventfd, so that a write to it blocks.
fn fill(kick: &OwnedFd) {
    fcntl_setfl(kick, OFlags::NONBLOCK).expect("it is the peer's");
    while rustix::io::write(kick, &(u64::MAX - 1).to_ne_bytes()).is_err() {
        let _ = rustix::io::read(kick, &mut [0; 8]);
    }
    fcntl_setfl(kick, OFlags::empty()).expect("it is the peer's");
}

/// A peer that accepts rings, whose kick descriptors it passes to `take`, until it is disconnected.
fn serve(mut stream: UnixStream, mut take: impl FnMut(OwnedFd)) {
    while let Some((request, flags, came)) = hear(&stream) {
        let answer = match request {
            GET_FEATURES => features::VERSION_1 | PROTOCOL,
            GET_PROTOCOL_FEATURES => REPLY_ACK,
            _ if flags & NEED_REPLY != 0 => 0,
            _ => continue,
        };
        if request == SET_VRING_KICK {
            take(came.expect("a doorbell"));
        }
        let head = [request, VERSION | REPLY, 8].map(u32::to_le_bytes).concat();
        let _ = stream.write_all(&[head, answer.to_le_bytes().to_vec()].concat());
    }
}

/// A router's NIC whose driver is ready, and a socket at which peers connect.
struct Scene {
    peer: Peer,
    registers: Arc<Registers>,
    listener: Option<UnixListener>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("peer.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let door = Arc::new(Door::connect(&path).expect("a door"));
        let peer = Peer::new("edge.wan", door, Confinement::Off).expect("threads");
        let config = NicConfig { servable: peer.offer().features, ..NicConfig::new(MAC) };
        let registers = Registers { machine: machine(), exits: VcpuExits::default() };
        attach_handed(&registers.machine, SLOT as usize, &config, peer.receiver()).expect("a NIC");
        let scene =
            Self { peer, registers: Arc::new(registers), listener: Some(listener), path, _folder: folder };
        scene.start_driver();
        scene
    }

    fn start_driver(&self) {
        let region = self.registers.machine.ram().region();
        self.registers.negotiate(features::VERSION_1);
        for (number, start) in [(RECEIVE, map::POOL), (TRANSMIT, map::POOL + OCTETS)] {
            self.registers.lay_out(number, &Queue::new(region, start, features::VERSION_1));
        }
        self.registers.begin();
    }

    fn accept(&self) -> UnixStream {
        self.listener.as_ref().expect("a socket").accept().expect("somebody comes").0
    }

    /// Does what the control thread does, until the peer is disconnected.
    fn until_left(&self) {
        until("it is sent away", || {
            self.peer.interrupt_blocked_writers();
            self.peer.status() == (Status::Away, Some(TOLD.to_owned()))
        });
    }

    /// An honest peer connects, and is handed the rings.
    fn is_well(&mut self) {
        self.listener = None;
        let _ = fs::remove_file(&self.path);
        let offer = Offer { pairs: 1, longest: LONGEST, offload: false, memory_max: RAM as u64 };
        let door = Door::listen(&self.path).expect("a socket");
        let _backend = Backend::start("ports-peer", door, offer, Confinement::On).expect("a thread");
        until("a peer that serves", || {
            self.peer.interrupt_blocked_writers();
            self.peer.status().0 == Status::Serving
        });
    }
}

impl Drop for Scene {
    /// The device takes its queues back while everything exists; a failed test may have left it to a blocked
    /// thread.
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        self.registers.machine.bus().clear();
    }
}

#[test]
fn a_peer_that_fills_its_doorbells_before_they_are_rung_is_left_and_the_next_one_is_served() {
    let mut scene = Scene::set();
    let stream = scene.accept();
    let mut kept = Vec::new();
    let villain = thread::spawn(move || {
        serve(stream, |kick| {
            fill(&kick);
            kept.push(kick);
        });
        kept
    });
    scene.until_left();
    assert_eq!(villain.join().expect("it is left").len(), 2);
    scene.is_well();
}

#[test]
fn a_vcpu_that_rings_a_full_doorbell_holds_no_device_meanwhile_and_is_let_go() {
    let mut scene = Scene::set();
    let (stream, (given, doorbells)) = (scene.accept(), mpsc::channel());
    let villain = thread::spawn(move || serve(stream, |kick| given.send(kick).expect("it is awaited")));
    until("it serves", || scene.peer.status().0 == Status::Serving);
    let doorbells: Vec<_> = doorbells.try_iter().collect();
    doorbells.iter().for_each(fill);
    let kicks = |number| {
        let registers = scene.registers.clone();
        thread::spawn(move || registers.kick(number))
    };
    let before = scene.registers.exits.register_write.get();
    // The second vCPU may find the first one in the middle of an access. They begin one after the other, because they count in one
    // ledger, which one thread at a time may write to.
    let vcpus = [(TRANSMIT, 1), (TRANSMIT, 2), (RECEIVE, 3)].map(|(number, accesses)| {
        let vcpu = kicks(number);
        until("its access", || scene.registers.exits.register_write.get() >= before + accesses);
        vcpu
    });
    let (told, other) = mpsc::channel();
    let registers = scene.registers.clone();
    thread::spawn(move || told.send((0..READS).map(|_| registers.status()).next_back()));
    assert!(other.recv_timeout(PATIENCE).is_ok(), "who reads a register waits for the doorbell");
    assert!(!vcpus[2].is_finished(), "it waits in its doorbell");
    scene.until_left();
    vcpus.into_iter().for_each(|vcpu| vcpu.join().expect("it was let go"));
    villain.join().expect("it is left");
    // Doorbells that are left with the old peer are not rung when the driver starts again.
    scene.start_driver();
    scene.is_well();
}
