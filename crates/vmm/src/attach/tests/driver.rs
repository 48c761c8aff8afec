//! Driver of an e1000 inside this program: it accesses the device only by the bus, as a guest would.

use std::mem::MaybeUninit;
use std::sync::Arc;

use bootinfo::{BootInfo, Environment, Role, TransmitMode, map};
use ledger::VcpuExits;
use nic::e1000::register as r;
use nic_port::NicQueues;
use ring::e1000::{Csb, Descriptor, Layout, RxDriver, TxDriver, TxSlot, tx};

use crate::attach::{E1000Nic, Model, attach, bar_of, nic_slot};
use crate::bus::Bus;
use crate::machine::{Machine, MachineConfig, Memory};

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Entries of each ring.
pub(crate) const ENTRIES: u16 = 128;
const RINGS: u64 = map::POOL;
const BLOCK: u64 = map::POOL + 0x8000;
const RX_BUFFERS: u64 = map::POOL + 0x1_0000;
const TX_BUFFERS: u64 = map::POOL + 0x10_0000;
const BUFFER: u64 = 2048;

/// Creates a machine without running vCPUs, with an e1000 in each of the first slots.
pub(crate) fn machine(modes: &[TransmitMode], several_senders: bool) -> (Arc<Machine>, Vec<Arc<NicQueues>>) {
    let info = BootInfo::new(Role::Router, 2);
    let config = MachineConfig { name: "driver".into(), ram: 12 << 20, fib: None, group: None, info };
    let memory = Memory::new(config, Environment::Process).expect("memory");
    let machine = Machine::new(memory, None).expect("a machine");
    let attach = |(number, mode): (usize, &TransmitMode)| {
        attach(&machine, nic_slot(number), &model(*mode), several_senders).expect("a NIC")
    };
    let queues = modes.iter().enumerate().map(attach).collect();
    (machine, queues)
}

fn model(mode: TransmitMode) -> Model {
    Model::E1000(config_of(mode))
}

/// Returns an e1000 with this transmit mode.
pub(crate) fn config_of(mode: TransmitMode) -> E1000Nic {
    E1000Nic { config: nic::e1000::Config::new(MAC), mode, interrupt_vcpu: 0 }
}

/// Puts an e1000 into the first slot of a machine.
pub(crate) fn attach_to(machine: &Machine, mode: TransmitMode) -> Arc<NicQueues> {
    attach(machine, nic_slot(0), &model(mode), false).expect("a NIC")
}

/// The registers of the device in one slot.
#[derive(Clone)]
pub(crate) struct Registers {
    bus: Arc<Bus>,
    slot: usize,
    exits: Arc<VcpuExits>,
}

impl Registers {
    pub(crate) fn new(machine: &Machine, number: usize) -> Self {
        Self { bus: machine.bus().clone(), slot: nic_slot(number), exits: Arc::default() }
    }

    pub(crate) fn read(&self, register: u64) -> u32 {
        let mut data = [0; 4];
        self.bus.read(bar_of(self.slot) + register, &mut data, &self.exits);
        u32::from_le_bytes(data)
    }

    pub(crate) fn write(&self, register: u64, value: u32) {
        self.bus.write(bar_of(self.slot) + register, &value.to_le_bytes(), &self.exits);
    }

    /// Memory and bus mastering.
    pub(crate) fn enable(&self) {
        self.bus.write(map::ECAM + ((self.slot as u64) << 15) + 4, &6u16.to_le_bytes(), &self.exits);
    }
}

/// The driver.
pub(crate) struct Driver {
    pub(crate) registers: Registers,
    machine: Arc<Machine>,
    pub(crate) rx: RxDriver<'static, u64>,
    pub(crate) tx: TxDriver<'static, u64>,
    sent: u64,
}

impl Driver {
    /// Starts the first device, with a block if its mode is to have one.
    pub(crate) fn start(machine: &Arc<Machine>, mode: TransmitMode) -> Self {
        let registers = Registers::new(machine, 0);
        registers.enable();
        registers.write(r::CTRL, r::ctrl::SLU | r::ctrl::FD);
        let region = machine.ram().region();
        let csb = (mode == TransmitMode::Csb).then(|| {
            region.bytes(BLOCK, Csb::OCTETS).expect("inside RAM").copy_from_slice(&[0; Csb::OCTETS as usize]);
            registers.write(r::CSBAH, 0);
            registers.write(r::CSBAL, BLOCK as u32);
            Csb::map(&region, BLOCK).expect("a block")
        });
        let octets = u32::from(ENTRIES) * 16;
        for (register, base) in [(r::RDBAL, RINGS), (r::TDBAL, RINGS + 0x4000)] {
            registers.write(register, base as u32);
            registers.write(register + 4, 0);
            registers.write(register + 8, octets);
            registers.write(register + 0x10, 0);
            registers.write(register + 0x18, 0);
        }
        let layout = |base| Layout::new(base, octets).expect("a layout");
        let tokens = Box::leak(vec![MaybeUninit::uninit(); ENTRIES.into()].into_boxed_slice());
        let slots = Box::leak(vec![TxSlot::EMPTY; ENTRIES.into()].into_boxed_slice());
        let rx = RxDriver::new(region, &layout(RINGS), csb, tokens).expect("a ring");
        let tx = TxDriver::new(region, &layout(RINGS + 0x4000), csb, slots).expect("a ring");
        registers.write(r::TCTL, r::tctl::EN);
        registers.write(r::RCTL, r::rctl::EN | r::rctl::SECRC | r::rctl::UPE | r::rctl::MPE | r::rctl::BAM);
        Self { registers, machine: machine.clone(), rx, tx, sent: 0 }
    }

    /// Posts all free buffers.
    pub(crate) fn post(&mut self) {
        for buffer in 0..u64::from(ENTRIES) - 1 {
            let at = RX_BUFFERS + buffer * BUFFER;
            if !self.rx.push(at, at) {
                break;
            }
        }
        self.tell_rx();
    }

    fn tell_rx(&mut self) {
        if self.rx.publish() {
            self.registers.write(r::RDT, self.rx.tail());
        }
    }

    /// Returns received frames; their buffers are posted again.
    pub(crate) fn received(&mut self) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        let region = self.machine.ram().region();
        self.rx
            .pop(usize::MAX, |at, received| {
                let mut octets = vec![0; usize::from(received.length)];
                let buffer = region.bytes(at, u32::from(received.length)).expect("inside RAM");
                buffer.copy_to_slice(&mut octets);
                came.push((at, octets));
            })
            .expect("a ring that is whole");
        for (at, _) in &came {
            self.rx.push(*at, *at);
        }
        self.tell_rx();
        came.into_iter().map(|(_, octets)| octets).collect()
    }

    /// Sends as many of the frames as there is room for, each with a report request, and one write of TDT for
    /// all.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        self.tx.reclaim(usize::MAX, |_| ()).expect("a ring that is whole");
        let mut pushed = 0;
        for octets in frames.iter().take(self.tx.free()) {
            let at = TX_BUFFERS + self.sent % u64::from(ENTRIES) * BUFFER;
            let place = self.machine.ram().region().bytes(at, octets.len() as u32).expect("inside RAM");
            place.copy_from_slice(octets);
            let command = tx::EOP | tx::IFCS | tx::RS;
            self.tx.push(Descriptor::legacy(at, octets.len() as u16, command), Some(at));
            self.sent += 1;
            pushed += 1;
        }
        if self.tx.publish() {
            self.registers.write(r::TDT, self.tx.tail());
        }
        pushed
    }
}
