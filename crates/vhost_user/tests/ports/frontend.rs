//! The rings of a router's NIC handed to a peer: they are set up by registers and handed over, and frames
//! move at the peer's port.

use std::sync::Arc;

use bootinfo::{BootInfo, Role, map};
use conformance::{SinkBench, SourceBench, check_sink, check_source};
use door::Door;
use ledger::VcpuExits;
use nic::virtio_net::{NicConfig, features, register, registers, status};
use port::{Sink, Source};
use sandbox::Confinement;
use vhost_user::backend::{Backend, Offer};
use vhost_user::frontend::{Peer, Status};
use vmm::{Machine, MachineConfig, Process, attach_handed};

use super::driver::{ENTRIES, OCTETS, Queue};
use super::{CHOICES, LONGEST, OFFLOADS, Port, until};

/// Octets of RAM of a small router.
pub(crate) const RAM: usize = 12 << 20;
/// PCI slot of the NIC.
pub(crate) const SLOT: u64 = 1;
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// The command register of configuration space: memory decoding and bus mastering.
const COMMAND: u64 = 4;
const MEMORY_AND_MASTER: u16 = 6;
/// Numbers of the rings of the only pair.
pub(crate) const RECEIVE: u16 = 0;
pub(crate) const TRANSMIT: u16 = 1;

/// Register accesses to the NIC as its driver performs them.
pub(crate) struct Registers {
    pub(crate) machine: Arc<Machine>,
    pub(crate) exits: VcpuExits,
}

impl Registers {
    const BAR: u64 = map::BARS + SLOT * map::BAR_SPACING;

    fn write(&self, address: u64, octets: &[u8]) {
        self.machine.bus().write(address, octets, &self.exits);
    }

    fn set(&self, register: usize, octets: &[u8]) {
        self.write(Self::BAR + registers::COMMON + register as u64, octets);
    }

    pub(crate) fn status(&self) -> u8 {
        let (mut octet, at) = ([0], Self::BAR + registers::COMMON + register::DEVICE_STATUS as u64);
        self.machine.bus().read(at, &mut octet, &self.exits);
        octet[0]
    }

    /// Resets the device and negotiates these features.
    pub(crate) fn negotiate(&self, picked: u64) {
        self.write(map::ECAM + (SLOT << 15) + COMMAND, &MEMORY_AND_MASTER.to_le_bytes());
        self.set(register::DEVICE_STATUS, &[0]);
        self.set(register::DEVICE_STATUS, &[status::ACKNOWLEDGE | status::DRIVER]);
        for select in 0..2_u32 {
            self.set(register::DRIVER_FEATURE_SELECT, &select.to_le_bytes());
            self.set(register::DRIVER_FEATURE, &((picked >> (32 * select)) as u32).to_le_bytes());
        }
        self.set(register::DEVICE_STATUS, &[status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK]);
        assert_ne!(self.status() & status::FEATURES_OK, 0, "the device does not agree");
    }

    pub(crate) fn lay_out(&self, number: u16, queue: &Queue) {
        let layout = queue.layout();
        self.set(register::QUEUE_SELECT, &number.to_le_bytes());
        self.set(register::QUEUE_SIZE, &ENTRIES.to_le_bytes());
        self.set(register::QUEUE_DESC, &layout.descriptors.to_le_bytes());
        self.set(register::QUEUE_DRIVER, &layout.available.to_le_bytes());
        self.set(register::QUEUE_DEVICE, &layout.used.to_le_bytes());
        self.set(register::QUEUE_ENABLE, &1_u16.to_le_bytes());
    }

    pub(crate) fn begin(&self) {
        let all = status::ACKNOWLEDGE | status::DRIVER | status::FEATURES_OK | status::DRIVER_OK;
        self.set(register::DEVICE_STATUS, &[all]);
    }

    pub(crate) fn kick(&self, number: u16) {
        let doorbell = registers::NOTIFY + u64::from(number) * u64::from(registers::NOTIFY_MULTIPLIER);
        self.write(Self::BAR + doorbell, &number.to_le_bytes());
    }
}

/// A driver whose rings were handed over, and the port at the peer.
struct Bench {
    port: Port,
    registers: Registers,
    receive: Queue,
    transmit: Queue,
    _peer: Peer,
    _backend: Backend,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// Creates a driver that negotiates these features.
    fn new(picked: u64) -> Self {
        let picked = picked | features::VERSION_1;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("peer.sock");
        let offer = Offer { pairs: 1, longest: LONGEST, offload: true, memory_max: RAM as u64 };
        let door = Door::listen(&path).expect("a socket");
        let backend = Backend::start("ports-peer", door, offer, Confinement::On).expect("a thread");
        let door = Arc::new(Door::connect(&path).expect("a door"));
        let peer = Peer::new("edge.wan", door, Confinement::Off).expect("threads");
        until("a peer that is there", || peer.status().0 == Status::Idle);
        let machine = machine();
        let config = NicConfig {
            in_order: true,
            offloads: picked & OFFLOADS != 0,
            servable: peer.offer().features,
            ..NicConfig::new(MAC)
        };
        attach_handed(&machine, SLOT as usize, &config, peer.receiver()).expect("a NIC");
        let region = machine.ram().region();
        let (mut receive, transmit) =
            (Queue::new(region, map::POOL, picked), Queue::new(region, map::POOL + OCTETS, picked));
        let registers = Registers { machine, exits: VcpuExits::default() };
        registers.negotiate(picked);
        registers.lay_out(RECEIVE, &receive);
        registers.lay_out(TRANSMIT, &transmit);
        registers.begin();
        until("a peer that serves", || peer.status().0 == Status::Serving);
        if receive.post() {
            registers.kick(RECEIVE);
        }
        let port = Port::of(backend.queues());
        Self { port, registers, receive, transmit, _peer: peer, _backend: backend, _folder: folder }
    }
}

pub(crate) fn machine() -> Arc<Machine> {
    let info = BootInfo::new(Role::Router, 1);
    let config = MachineConfig { name: "ports".into(), ram: RAM, fib: None, group: None, info };
    Process::new(config).expect("a machine").machine().clone()
}

impl Drop for Bench {
    /// The device takes its queues back while everything exists.
    fn drop(&mut self) {
        self.registers.machine.bus().clear();
    }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.port.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        let (frames, wants_kick) = self.receive.received();
        if wants_kick {
            self.registers.kick(RECEIVE);
        }
        Some(frames)
    }

    fn lost(&self) -> u64 {
        self.port.lost()
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut *self.port.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let (sent, wants_kick) = self.transmit.send(frames);
        if wants_kick {
            self.registers.kick(TRANSMIT);
        }
        sent
    }
}

#[test]
fn what_our_driver_receives_by_is_a_sink_of_the_peers() {
    for picked in CHOICES {
        check_sink(|| Bench::new(picked));
    }
}

#[test]
fn what_our_driver_sends_by_is_a_source_of_the_peers() {
    for picked in CHOICES {
        check_source(|| Bench::new(picked));
    }
}
