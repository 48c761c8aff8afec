//! Joins a virtio-net model, the bus, event descriptors and the NIC's queues.

use std::sync::Arc;

use anyhow::{Context, Result};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use nic::pci::PciFunction;
use nic::virtio_net::rx::RxQueue;
use nic::virtio_net::tx::TxQueue;
use nic::virtio_net::{ControlQueue, Effect, NicConfig, QueueRole, QueueSetup, Start, VirtioNet};
use ring::Region;
use ring::split::DeviceQueue;

use crate::bus::BusDevice;
use crate::irq::{IrqLine, IrqRouter, Message};
use crate::nic_port::{NicQueues, Running};
use crate::vm::Vm;

/// Octets of an Ethernet header and a VLAN tag: what a frame may have more than the MTU.
const FRAME_OVERHEAD: usize = 18;

/// Puts a virtio-net device into a slot of the guest's bus; returns its queues, which start when the driver does.
/// With `several_senders` any number of threads may deliver to it at the same time.
pub fn attach(vm: &Vm, slot: usize, config: &NicConfig, several_senders: bool) -> Result<Arc<NicQueues>> {
    let pairs = usize::from(config.queue_pairs);
    let longest = usize::from(config.mtu) + FRAME_OVERHEAD;
    let queues = NicQueues::new(pairs, several_senders)?;
    let bar = bootinfo::map::BARS as u32 + slot as u32 * BAR_SPACING;
    let mut model = VirtioNet::new(config).context("a NIC cannot be built")?;
    // As firmware of a PC would: a place that a guest may change.
    model.config_write(CONFIG_BAR0, &bar.to_le_bytes());
    let vectors = model.vectors();
    let lines = (0..vectors).map(|_| vm.irqs().line()).collect::<Result<_>>()?;
    let device = NicDevice {
        model,
        queues: queues.clone(),
        control: None,
        lines,
        irqs: vm.irqs().clone(),
        vm: vm.fd().clone(),
        ram: vm.ram().region(),
        running: Vec::new(),
        doorbells: Vec::new(),
        longest,
    };
    vm.bus().insert(slot, Box::new(device));
    Ok(queues)
}

/// Distance of the places at which the VMM puts the BARs of two slots.
const BAR_SPACING: u32 = 1 << 16;
/// First base address register in configuration space.
const CONFIG_BAR0: u16 = 0x10;

/// A virtio-net device on the bus of a guest.
struct NicDevice {
    model: VirtioNet,
    queues: Arc<NicQueues>,
    control: Option<Control>,
    lines: Vec<Arc<IrqLine>>,
    irqs: Arc<IrqRouter>,
    vm: Arc<VmFd>,
    ram: Region,
    /// The queues that run.
    running: Vec<QueueSetup>,
    /// Doorbells registered with KVM.
    doorbells: Vec<(u64, QueueRole)>,
    longest: usize,
}

/// The control queue, served by the vCPU thread that rings its doorbell.
struct Control {
    index: u16,
    queue: ControlQueue,
    line: Option<Arc<IrqLine>>,
}

impl BusDevice for NicDevice {
    fn config_read(&mut self, offset: u16, data: &mut [u8]) {
        self.model.config_read(offset, data);
        self.carry_out();
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) {
        self.model.config_write(offset, data);
        self.carry_out();
    }

    fn memory_read(&mut self, address: u64, data: &mut [u8]) -> bool {
        let Some((bar, offset)) = self.find(address, data.len()) else { return false };
        self.model.bar_read(bar, offset, data);
        self.carry_out();
        true
    }

    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some((bar, offset)) = self.find(address, data.len()) else { return false };
        self.model.bar_write(bar, offset, data);
        self.carry_out();
        true
    }
}

impl NicDevice {
    fn find(&self, address: u64, len: usize) -> Option<(u8, u64)> {
        let window = self.model.bars().into_iter().find(|window| {
            address.checked_sub(window.address).is_some_and(|offset| offset + len as u64 <= window.len)
        })?;
        Some((window.index, address - window.address))
    }

    /// Does what the last access asks for, until it asks for nothing more.
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

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Started(start) => {
                if self.start(&start).is_err() {
                    self.give_up();
                }
            }
            Effect::Stopped => self.stop(),
            Effect::Kicked(index) => self.kicked(index),
            Effect::VectorChanged(vector) => self.vector_changed(vector),
            Effect::QueueVectorChanged(index) => self.queue_vector_changed(index),
            Effect::Interrupt { vector, .. } => {
                if let Some(line) = self.lines.get(usize::from(vector)) {
                    line.signal();
                }
            }
            Effect::PairsChanged(pairs) => self.queues.use_pairs(usize::from(pairs)),
            Effect::BarsMoved => self.ring_doorbells(),
        }
    }

    fn start(&mut self, start: &Start) -> Result<()> {
        for setup in &start.queues {
            let mut queue =
                DeviceQueue::new(self.ram, &setup.layout, setup.features).context("a queue is unusable")?;
            if setup.role != QueueRole::Control {
                queue.disarm();
            }
            let line = self.line(setup.vector);
            match setup.role {
                QueueRole::Receive(pair) => {
                    let running = Running { queue: RxQueue::new(queue, start.mergeable()), line };
                    install(self.queues.rx.lock(usize::from(pair)), running);
                }
                QueueRole::Transmit(pair) => {
                    let running = Running { queue: TxQueue::new(queue, self.longest), line };
                    install(self.queues.tx.lock(usize::from(pair)), running);
                }
                QueueRole::Control => {
                    let queue = ControlQueue::new(queue);
                    self.control = Some(Control { index: setup.index, queue, line });
                }
            }
        }
        self.running.clone_from(&start.queues);
        self.register_doorbells(&start.queues);
        // Buffers or frames that were there before the doorbells: have a look.
        self.ring_all();
        Ok(())
    }

    fn stop(&mut self) {
        self.queues.stop();
        self.control = None;
        self.running.clear();
        self.forget_doorbells();
    }

    /// The driver's set-up cannot be served: the device says so (DEVICE_NEEDS_RESET) and waits for its reset.
    fn give_up(&mut self) {
        self.stop();
        self.model.fail();
    }

    fn line(&self, vector: Option<u16>) -> Option<Arc<IrqLine>> {
        self.lines.get(usize::from(vector?)).cloned()
    }

    fn vector_changed(&mut self, vector: u16) {
        let message = self.model.message(vector).map(|m| Message { address: m.address, data: m.data });
        if let Some(line) = self.lines.get(usize::from(vector))
            && let Err(error) = self.irqs.route(line, message)
        {
            eprintln!("ringroad: {error:#}");
            self.give_up();
        }
    }

    fn queue_vector_changed(&mut self, index: u16) {
        let line = self.line(self.model.queue_vector(index));
        let pair = usize::from(index / 2);
        if let Some(control) = self.control.as_mut().filter(|control| control.index == index) {
            control.line = line;
        } else if index.is_multiple_of(2) {
            set_line(self.queues.rx.lock(pair), line);
        } else {
            set_line(self.queues.tx.lock(pair), line);
        }
    }

    /// A doorbell that came by register access: ring the event that the doorbell would.
    fn kicked(&mut self, index: u16) {
        if self.control.as_ref().is_some_and(|control| control.index == index) {
            self.serve_control();
            return;
        }
        let pair = usize::from(index / 2);
        let bell =
            if index.is_multiple_of(2) { self.queues.rx.kick(pair) } else { self.queues.tx.kick(pair) };
        if let Some(bell) = bell {
            // The only error is a full counter, and then it is rung.
            let _ = bell.write(1);
        }
    }

    fn ring_all(&self) {
        self.queues.rx.ring();
        self.queues.tx.ring();
    }
}

/// The control queue.
impl NicDevice {
    fn serve_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        let model = &mut self.model;
        match control.queue.serve(|command| model.control(command)) {
            Ok(true) => {
                if let Some(line) = &control.line {
                    line.signal();
                }
            }
            Ok(false) => {}
            Err(_) => self.give_up(),
        }
    }
}

/// Doorbells: a write becomes an event without leaving the kernel.
impl NicDevice {
    fn register_doorbells(&mut self, queues: &[QueueSetup]) {
        for setup in queues {
            let event = match setup.role {
                QueueRole::Receive(pair) => self.queues.rx.kick(usize::from(pair)),
                QueueRole::Transmit(pair) => self.queues.tx.kick(usize::from(pair)),
                QueueRole::Control => None,
            };
            if let Some(event) = event
                && let Some(address) = self.model.doorbell(setup.index)
                && self.vm.register_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch).is_ok()
            {
                self.doorbells.push((address, setup.role));
            }
            // Without an ioeventfd the doorbell still works, by an exit (`Effect::Kicked`).
        }
    }

    fn forget_doorbells(&mut self) {
        for (address, role) in self.doorbells.drain(..) {
            let event = match role {
                QueueRole::Receive(pair) => self.queues.rx.kick(usize::from(pair)),
                QueueRole::Transmit(pair) => self.queues.tx.kick(usize::from(pair)),
                QueueRole::Control => None,
            };
            if let Some(event) = event {
                // It was registered with exactly these arguments.
                let _ = self.vm.unregister_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch);
            }
        }
    }

    /// The BARs moved: doorbells at the old place must not ring any more, those at the new place by exits.
    fn ring_doorbells(&mut self) {
        self.forget_doorbells();
        let queues = std::mem::take(&mut self.running);
        self.register_doorbells(&queues);
        self.running = queues;
    }
}

fn install<Q>(place: Option<std::sync::MutexGuard<'_, Option<Running<Q>>>>, running: Running<Q>) {
    if let Some(mut place) = place {
        *place = Some(running);
    }
}

fn set_line<Q>(place: Option<std::sync::MutexGuard<'_, Option<Running<Q>>>>, line: Option<Arc<IrqLine>>) {
    if let Some(mut place) = place
        && let Some(running) = place.as_mut()
    {
        running.line = line;
    }
}
