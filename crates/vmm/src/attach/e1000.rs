//! Connects an e1000 model to the bus, its interrupt pin and the NIC's queues.
//!
//! The effect of a write to TDT or RDT depends on the transmit mode:
//!
//! | mode | TDT | RDT |
//! |---|---|---|
//! | base, send combining | an exit; the frames leave within it | an exit; signals the eventfd if a thread waits for room |
//! | async | an exit; signals the eventfd if the thread that sends sleeps | as above |
//! | csb, once the driver has set the status block | signals the eventfd, without an exit | signals the eventfd, without an exit |
//! | coalesced | collected by the kernel while a thread polls; else as async | as above |

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bootinfo::{TransmitMode, map};
use ledger::E1000Registers;
use nic::e1000::register::{ICR, IMC, IMS, RDT, STATUS, TDT};
use nic::e1000::{self, Config, E1000, Effect, Faults, Interrupts, PORTS_LEN, RxSetup, TxSetup};
use nic::queue::{RxQueue, TxQueue};
use nic_port::irq::{DelayedInterrupts, Intx};
use nic_port::{NicQueues, NicQueuesConfig, Notifier, StoreCoalescing};

use super::{CONFIG_BAR0, bar_of, find};
use crate::bus::BusDevice;
use crate::coalesced::{Collector, Tail};
use crate::doorbells::Doorbells;
use crate::machine::Machine;
use crate::memory::GuestRam;
use crate::pace::AccessRateLimit;

/// The only queue pair.
const ONLY: usize = 0;
/// Second base address register in configuration space.
const CONFIG_BAR1: u16 = 0x14;
/// I/O ports that the VMM assigns to the device of slot 0, followed by those of the other slots; PCs have the
/// ports of their PCI buses in this range.
const FIRST_PORT: u32 = 0xc000;

/// Configuration of an e1000 and its surroundings.
#[derive(Clone, Debug)]
pub struct E1000Nic {
    /// The device model. Whether it offers the status block depends on `mode`.
    pub config: Config,
    /// Transmit mode.
    pub mode: TransmitMode,
    /// The vCPU that its pin interrupts.
    pub interrupt_vcpu: usize,
}

/// Puts an e1000 into a slot of the guest's bus.
pub(super) fn attach(
    machine: &Machine,
    slot: usize,
    nic: &E1000Nic,
    several_senders: bool,
) -> Result<Arc<NicQueues>> {
    ensure!(slot < map::SLOTS, "an e1000 is in one of {} slots, not in {slot}", map::SLOTS);
    let mut device = E1000Device::new(machine, map::nic_in_slot(slot), nic, several_senders)?;
    // Like a PC's firmware: initial addresses, which a guest may change.
    device.config_write(CONFIG_BAR0, &(bar_of(slot) as u32).to_le_bytes());
    device.config_write(CONFIG_BAR1, &(FIRST_PORT + PORTS_LEN * slot as u32).to_le_bytes());
    let queues = device.queues.clone();
    if nic.mode == TransmitMode::Csb {
        offer_doorbells(machine, slot, &queues)?;
    }
    machine.bus().insert(slot, Box::new(device));
    Ok(queues)
}

/// For a process, which signals the eventfds itself: the same doorbells as those of virtio-net's first queue
/// pair.
fn offer_doorbells(machine: &Machine, slot: usize, queues: &NicQueues) -> Result<()> {
    for (number, event) in [queues.rx.kick(ONLY), queues.tx.kick(ONLY)].into_iter().enumerate() {
        machine.doorbells().offer(slot, number, event.context("a NIC without queues")?)?;
    }
    Ok(())
}

/// Indices of the receive and transmit ring in arrays.
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// An e1000 on the bus of a guest.
struct E1000Device {
    model: E1000,
    intx: Arc<DelayedInterrupts<Intx>>,
    queues: Arc<NicQueues>,
    registers: Arc<E1000Registers>,
    doorbells: Arc<Doorbells>,
    ram: Arc<GuestRam>,
    collector: Option<Arc<Collector>>,
    /// Tail of the running transmit ring.
    tail: Option<Tail>,
    /// Address at which stores to TDT are collected.
    collected: Option<u64>,
    /// True for rings that run with a status block: their tails are in the block, and a register write is
    /// only a doorbell.
    blocks: [bool; 2],
    /// Addresses at which doorbells are ioeventfds.
    connected: [Option<u64>; 2],
    pace: AccessRateLimit,
    /// The last link state that was set, if any.
    plugged: Option<bool>,
    /// Number of invalid accesses counted so far.
    faults: u64,
}

impl BusDevice for E1000Device {
    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.model.config_read(offset, data);
        self.carry_out();
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) {
        let model = &mut self.model;
        self.intx.with(|intx, now| model.config_write(offset, data, &mut intx.interrupts, now));
        self.carry_out();
    }

    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let Some((0, offset)) = find(&self.model.bars(), address, data.len()) else { return false };
        count_read(&self.registers, offset);
        let model = &mut self.model;
        self.intx.with(|intx, now| model.memory_read(offset, data, &mut intx.interrupts, now));
        self.carry_out();
        self.count_faults();
        true
    }

    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some((0, offset)) = find(&self.model.bars(), address, data.len()) else { return false };
        count_write(&self.registers, offset);
        let model = &mut self.model;
        self.intx.with(|intx, now| model.memory_write(offset, data, &mut intx.interrupts, now));
        self.carry_out();
        self.count_faults();
        true
    }

    fn port_read(&mut self, port: u16, data: &mut [u8]) -> bool {
        let Some((_, offset)) = find(self.model.ports().as_slice(), port.into(), data.len()) else {
            return false;
        };
        self.registers.other_read.add(1);
        let model = &mut self.model;
        self.intx.with(|intx, now| model.port_read(offset, data, &mut intx.interrupts, now));
        self.carry_out();
        self.count_faults();
        true
    }

    fn port_write(&mut self, port: u16, data: &[u8]) -> bool {
        let Some((_, offset)) = find(self.model.ports().as_slice(), port.into(), data.len()) else {
            return false;
        };
        self.registers.other_write.add(1);
        let model = &mut self.model;
        self.intx.with(|intx, now| model.port_write(offset, data, &mut intx.interrupts, now));
        self.carry_out();
        self.count_faults();
        true
    }

    /// If an I/O thread is just raising the interrupt, during which it may wait for the kernel or for a CPU,
    /// the state is left as it is: the caller repeats the change of the link state.
    fn set_link(&mut self, up: bool) {
        if self.plugged == Some(up) {
            return;
        }
        let model = &mut self.model;
        let told = self.intx.try_with(|intx, now| model.set_link(up, &mut intx.interrupts, now));
        self.plugged = told.map(|()| up);
        self.carry_out();
    }

    fn take_debt(&mut self) -> Option<Duration> {
        self.pace.take_debt()
    }
}

impl Drop for E1000Device {
    fn drop(&mut self) {
        // The threads that serve the queues may outlive the device, while the memory only lives as long as
        // someone holds a reference.
        self.queues.stop();
        self.queues.transmit_nowhere();
        // Doorbells end with the machine, as those of a virtio NIC do.
        (self.connected, self.tail) = ([None; 2], None);
        self.place_collector(true);
    }
}

impl E1000Device {
    fn new(machine: &Machine, number: usize, nic: &E1000Nic, several_senders: bool) -> Result<Self> {
        ensure!(nic.interrupt_vcpu < machine.vcpus(), "there is no vCPU {} to interrupt", nic.interrupt_vcpu);
        let config = Config { block: nic.mode == TransmitMode::Csb, ..nic.config.clone() };
        let model = E1000::new(&config).context("a NIC cannot be built")?;
        let pin = machine.irqs().pin(number, nic.interrupt_vcpu)?;
        let intx = Arc::new(DelayedInterrupts::new(Intx::new(Interrupts::new(config.moderation), pin))?);
        let registers = Arc::<E1000Registers>::default();
        let collector = (nic.mode == TransmitMode::Coalesced)
            .then(|| Arc::new(Collector::new(machine.coalesced().clone(), registers.clone())));
        let queues = NicQueues::new(NicQueuesConfig {
            pairs: 1,
            foreign: false,
            several_senders,
            in_access: matches!(nic.mode, TransmitMode::Base | TransmitMode::SendCombining),
            timers: vec![intx.clone()],
            registers: Some(registers.clone()),
            collector: collector.clone().map(|collector| collector as Arc<dyn StoreCoalescing>),
            handed: false,
            stop: machine.stop_sign().clone(),
        })?;
        queues.keep(machine.ram().clone());
        Ok(Self {
            model,
            intx,
            queues,
            registers,
            doorbells: machine.doorbells().clone(),
            ram: machine.ram().clone(),
            collector,
            tail: None,
            collected: None,
            blocks: [false; 2],
            connected: [None; 2],
            pace: AccessRateLimit::new(Instant::now()),
            plugged: None,
            faults: 0,
        })
    }

    /// Applies the effects of the last access, until there are no more.
    fn carry_out(&mut self) {
        loop {
            let effects = self.model.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.apply(effect);
            }
        }
    }

    /// Counts the invalid accesses since the last call.
    fn count_faults(&mut self) {
        let Faults { unknown, partial, outside } = self.model.faults();
        let faults = unknown + partial + outside;
        self.registers.senseless.add(faults - std::mem::replace(&mut self.faults, faults));
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::TransmitStarted(setup) => self.start_transmit(&setup),
            Effect::TransmitStopped => self.stop_transmit(),
            Effect::TransmitTail => self.queues.transmit(),
            Effect::TransmitChanged(settings) => self.queues.change_transmit(settings),
            Effect::ReceiveStarted(setup) => self.start_receive(&setup),
            Effect::ReceiveStopped => self.stop_receive(),
            Effect::ReceiveTail => self.queues.posted(),
            Effect::ReceiveChanged(settings) => self.queues.change_receive(settings),
            Effect::BarsMoved => {
                self.place_doorbells();
                self.place_collector(false);
            }
            // The pin has followed within the access already.
            Effect::LineChanged => {}
        }
    }

    fn start_transmit(&mut self, setup: &TxSetup) {
        match e1000::tx::TxQueue::new(self.ram.region(), setup) {
            Ok(queue) => {
                let loopback = setup.settings.loopback;
                self.queues.start_transmit(TxQueue::E1000(Box::new(queue)), loopback, self.notifier());
            }
            Err(_) => {
                self.queues.refuse_transmit();
                return self.model.fail_transmit();
            }
        }
        self.tail = Some(Tail { ends: setup.ends.clone(), entries: setup.layout.entries });
        self.place_collector(true);
        self.blocks[TRANSMIT] = setup.block.is_some();
        self.place_doorbells();
        // Send the frames that were queued before.
        self.queues.transmit();
    }

    fn stop_transmit(&mut self) {
        self.queues.stop_transmit();
        self.tail = None;
        self.place_collector(true);
        self.blocks[TRANSMIT] = false;
        self.place_doorbells();
    }

    fn start_receive(&mut self, setup: &RxSetup) {
        match e1000::rx::RxQueue::new(self.ram.region(), setup) {
            Ok(queue) => self.queues.start_receive(RxQueue::E1000(Box::new(queue)), self.notifier()),
            Err(_) => {
                self.queues.refuse_receive();
                return self.model.fail_receive();
            }
        }
        self.blocks[RECEIVE] = setup.block.is_some();
        self.place_doorbells();
        self.queues.posted();
    }

    fn stop_receive(&mut self) {
        self.queues.stop_receive();
        self.blocks[RECEIVE] = false;
        self.place_doorbells();
    }

    fn notifier(&self) -> Notifier {
        Notifier::Pin(self.intx.clone())
    }
}

/// Stores to TDT that the kernel collects (coalesced MMIO).
impl E1000Device {
    /// Has them collected at the register's current address, for the running ring. `anew`: the ring is
    /// another one.
    fn place_collector(&mut self, anew: bool) {
        let Some(collector) = &self.collector else { return };
        let place = self.model.tails().zip(self.tail.clone()).map(|((tdt, _), tail)| (tdt, tail));
        let address = place.as_ref().map(|(address, _)| *address);
        if anew || address != self.collected {
            if collector.is_active() {
                self.pace.spend(Instant::now());
            }
            self.collected = address;
            collector.place(place);
        }
    }
}

/// Doorbells: with a status block a write signals an ioeventfd without leaving the kernel.
impl E1000Device {
    /// Connects the doorbells of the rings that need them at the registers' current addresses, and
    /// disconnects all others.
    fn place_doorbells(&mut self) {
        if !self.doorbells.can_connect() {
            return;
        }
        let (tdt, rdt) = self.model.tails().unzip();
        for (ring, address) in [(RECEIVE, rdt), (TRANSMIT, tdt)] {
            let wanted = address.filter(|_| self.blocks[ring]);
            if wanted != self.connected[ring] {
                self.move_doorbell(ring, wanted);
            }
        }
    }

    fn move_doorbell(&mut self, ring: usize, wanted: Option<u64>) {
        let event = if ring == RECEIVE { self.queues.rx.kick(ONLY) } else { self.queues.tx.kick(ONLY) };
        let Some(event) = event else { return };
        self.pace.spend(Instant::now());
        if let Some(address) = self.connected[ring].take() {
            self.doorbells.disconnect(address, event);
        }
        // If this fails, the doorbell still works, by an exit.
        self.connected[ring] = wanted.filter(|address| self.doorbells.connect(*address, event));
    }
}

fn count_read(registers: &E1000Registers, offset: u64) {
    match offset {
        ICR => registers.icr_read.add(1),
        STATUS => registers.status_read.add(1),
        _ => registers.other_read.add(1),
    }
}

fn count_write(registers: &E1000Registers, offset: u64) {
    match offset {
        TDT => registers.tdt_write.add(1),
        RDT => registers.rdt_write.add(1),
        IMS => registers.ims_write.add(1),
        IMC => registers.imc_write.add(1),
        _ => registers.other_write.add(1),
    }
}

#[cfg(test)]
mod tests;
