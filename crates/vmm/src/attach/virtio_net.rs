//! Connects a virtio-net model to the bus, event descriptors and the NIC's queues.

mod vectors;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nic::moderation::Moderation;
use nic::pci::PciFunction;
use nic::queue::{RxQueue, TxQueue};
use nic::virtio_net::{self, ControlQueue, Effect, NicConfig, QueueRole, QueueSetup, Start, VirtioNet};
use nic_port::irq::{DelayedInterrupts, InterruptTimer, Line, Messages, Queue};
use nic_port::{
    ExportedQueue, Kicks, NicQueues, NicQueuesConfig, Notifier, Receiver, Ringer, Running, SetUp,
};
use ring::split::DeviceQueue;
use vmm_sys_util::eventfd::EventFd;

use super::{CONFIG_BAR0, FRAME_OVERHEAD, bar_of, find};
use crate::bus::BusDevice;
use crate::doorbells::Doorbells;
use crate::irq::{IrqLine, IrqRouter};
use crate::machine::Machine;
use crate::memory::GuestRam;
use crate::pace::AccessRateLimit;

/// Attaches a virtio-net device to a slot of the guest's bus; returns its queues, which start when the driver
/// starts the device.
pub(super) fn attach(
    machine: &Machine,
    slot: usize,
    (config, moderation): (&NicConfig, Moderation),
    several_senders: bool,
    in_access: bool,
) -> Result<Arc<NicQueues>> {
    let served = if in_access { ServedBy::Access } else { ServedBy::Threads };
    build(machine, slot, (config, moderation), several_senders, served)
}

/// Attaches a virtio-net device whose queues are handed to a receiver.
pub(super) fn attach_handed(
    machine: &Machine,
    slot: usize,
    config: &NicConfig,
    receiver: Arc<dyn Receiver>,
) -> Result<Arc<NicQueues>> {
    build(machine, slot, (config, Moderation::Off), false, ServedBy::Receiver(receiver))
}

/// Server of the queues.
enum ServedBy {
    /// Polling threads, which doorbells wake.
    Threads,
    /// Transmit queues: the thread of the vCPU that rings the doorbell; receive queues: a thread that the
    /// doorbells wake.
    Access,
    /// A receiver (vhost-net or a vhost-user backend).
    Receiver(Arc<dyn Receiver>),
}

fn build(
    machine: &Machine,
    slot: usize,
    (config, moderation): (&NicConfig, Moderation),
    several_senders: bool,
    by: ServedBy,
) -> Result<Arc<NicQueues>> {
    let in_access = matches!(by, ServedBy::Access);
    let receiver = if let ServedBy::Receiver(receiver) = by { Some(receiver) } else { None };
    let pairs = usize::from(config.queue_pairs);
    let longest = usize::from(config.mtu) + FRAME_OVERHEAD;
    let moderated = moderated(pairs, moderation)?;
    let timers = moderated.iter().map(|pair| pair.clone() as Arc<dyn InterruptTimer>).collect();
    let stop = machine.stop_sign().clone();
    let handed = receiver.is_some();
    let design = NicQueuesConfig {
        pairs,
        several_senders,
        in_access,
        timers,
        handed,
        stop,
        ..NicQueuesConfig::default()
    };
    let queues = NicQueues::new(design)?;
    queues.keep(machine.ram().clone());
    let mut model = VirtioNet::new(config).context("a NIC cannot be built")?;
    // Like a PC's firmware: an initial address, which a guest may change.
    model.config_write(CONFIG_BAR0, &(bar_of(slot) as u32).to_le_bytes());
    let vectors = model.vectors();
    let irqs = machine.irqs();
    let line = |_| if receiver.is_some() { irqs.externally_signalled_line() } else { irqs.line() };
    let lines = (0..vectors).map(line).collect::<Result<_>>()?;
    let device = NicDevice {
        model,
        queues: queues.clone(),
        control: None,
        moderated,
        lines,
        irqs: machine.irqs().clone(),
        doorbells: machine.doorbells().clone(),
        ram: machine.ram().clone(),
        running: Vec::new(),
        unrouted: BTreeSet::new(),
        connected: Vec::new(),
        longest,
        receiver,
        kicks: None,
        pace: AccessRateLimit::new(Instant::now()),
        told: false,
        stop: machine.stop_sign().clone(),
    };
    offer_doorbells(machine, slot, config.queue_pairs, &queues)?;
    machine.bus().insert(slot, Box::new(device));
    Ok(queues)
}

/// A virtio-net device on the bus of a guest.
struct NicDevice {
    model: VirtioNet,
    queues: Arc<NicQueues>,
    control: Option<Control>,
    /// The messages of each pair, if they are moderated.
    moderated: Vec<Arc<DelayedInterrupts<Messages>>>,
    lines: Vec<Arc<IrqLine>>,
    irqs: Arc<IrqRouter>,
    doorbells: Arc<Doorbells>,
    ram: Arc<GuestRam>,
    /// The running queues.
    running: Vec<QueueSetup>,
    /// Vectors with messages that are not routed yet: they were set before DRIVER_OK, or the host refused them.
    unrouted: BTreeSet<u16>,
    /// Doorbells that are ioeventfds.
    connected: Vec<(u64, QueueRole)>,
    longest: usize,
    /// The receiver that serves the queues in place of our threads.
    receiver: Option<Arc<dyn Receiver>>,
    /// Kicks to be passed to the receiver.
    kicks: Option<Kicks>,
    pace: AccessRateLimit,
    /// True once a fault of the host was reported.
    told: bool,
    /// Set when the machine is to stop.
    stop: Arc<AtomicBool>,
}

/// The control queue, served by the vCPU thread that rings its doorbell.
struct Control {
    index: u16,
    queue: ControlQueue,
    line: Option<Arc<dyn Line>>,
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
        let Some((bar, offset)) = find(&self.model.bars(), address, data.len()) else { return false };
        self.model.bar_read(bar, offset, data);
        self.carry_out();
        true
    }

    fn memory_write(&mut self, address: u64, data: &[u8]) -> bool {
        let Some((bar, offset)) = find(&self.model.bars(), address, data.len()) else { return false };
        self.model.bar_write(bar, offset, data);
        self.carry_out();
        true
    }

    fn take_kicks(&mut self) -> Option<Kicks> {
        self.kicks.take()
    }

    fn take_debt(&mut self) -> Option<Duration> {
        self.pace.take_debt()
    }

    fn set_link(&mut self, up: bool) {
        self.model.set_link(up);
        self.carry_out();
    }

    fn recall(&mut self) {
        if let Some(receiver) = &self.receiver {
            receiver.recall();
        }
    }

    fn has_more(&self) -> bool {
        let has_more = self.control.as_ref().is_some_and(|control| control.queue.has_more());
        has_more && !self.stop.load(Ordering::Relaxed)
    }

    fn go_on(&mut self) {
        self.serve_control();
        self.carry_out();
    }
}

impl Drop for NicDevice {
    fn drop(&mut self) {
        // Doorbells end with the machine. Taking one back (KVM_IOEVENTFD) waits for a grace period of the kernel's
        // SRCU, and seconds for each were seen on a busy host.
        self.connected.clear();
        // The threads that serve the queues may outlive the device, while the memory only lives as long as
        // someone holds a reference.
        self.stop();
    }
}

impl NicDevice {
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

    fn apply(&mut self, effect: Effect) {
        if is_costly(&effect) {
            self.pace.spend(Instant::now());
        }
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
            Effect::PairsChanged(pairs) => match &self.receiver {
                Some(receiver) => receiver.use_pairs(usize::from(pairs)),
                None => self.queues.use_pairs(usize::from(pairs)),
            },
            Effect::OffloadsChanged(takes) => self.queues.take_offloads(takes),
            Effect::BarsMoved => self.ring_doorbells(),
        }
    }

    fn start(&mut self, start: &Start) -> Result<()> {
        self.route_vectors()?;
        let mut handed = Vec::new();
        for setup in &start.queues {
            let mut queue = DeviceQueue::new(self.ram.region(), &setup.layout, setup.features)
                .context("a queue is unusable")?;
            if setup.role != QueueRole::Control {
                queue.disarm();
            }
            if self.receiver.is_some() && setup.role != QueueRole::Control {
                handed.push(ExportedQueue::new(setup, &self.queues, self.line(setup.vector)));
                continue;
            }
            let notifier = self.notifier(setup);
            match setup.role {
                QueueRole::Receive(pair) => {
                    let running = Running { queue: rx(queue, start), notifier };
                    self.queues.rx.install(usize::from(pair), running);
                }
                QueueRole::Transmit(pair) => {
                    let running = Running { queue: tx(queue, self.longest, start), notifier };
                    self.queues.tx.install(usize::from(pair), running);
                }
                QueueRole::Control => {
                    let (queue, line) = (ControlQueue::new(queue), self.line(setup.vector));
                    self.control = Some(Control { index: setup.index, queue, line });
                }
            }
        }
        if self.receiver.is_none() {
            self.queues.take_offloads(start.offloads_of_device());
        }
        self.running.clone_from(&start.queues);
        self.register_doorbells(&start.queues);
        // Kick once, for buffers and frames that were there before the doorbells were connected.
        start.queues.iter().for_each(|setup| self.look(setup, Ringer::Device));
        if let Some(receiver) = &self.receiver {
            receiver.begin(SetUp::new(start.features, handed, self.ram.clone()));
        }
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(receiver) = &self.receiver {
            receiver.end();
        }
        self.queues.stop();
        self.moderated.iter().for_each(|pair| pair.with(|messages, _| messages.reset()));
        self.control = None;
        self.running.clear();
        self.forget_doorbells();
    }

    /// Gives up a driver's set-up that cannot be served: the device sets DEVICE_NEEDS_RESET and waits for its
    /// reset.
    fn give_up(&mut self) {
        self.stop();
        self.model.fail();
    }

    fn notifier(&self, setup: &QueueSetup) -> Notifier {
        let line = self.line(setup.vector);
        let (pair, queue) = match setup.role {
            QueueRole::Receive(pair) => (pair, Queue::Receive),
            QueueRole::Transmit(pair) => (pair, Queue::Transmit),
            QueueRole::Control => return Notifier::Message(line),
        };
        match self.moderated.get(usize::from(pair)) {
            None => Notifier::Message(line),
            Some(pair) => {
                pair.with(|messages, _| messages.set_line(queue, line));
                Notifier::Moderated(pair.clone(), queue)
            }
        }
    }

    fn line(&self, vector: Option<u16>) -> Option<Arc<dyn Line>> {
        let line: Arc<IrqLine> = self.lines.get(usize::from(vector?))?.clone();
        Some(line)
    }

    /// Handles a doorbell that arrived by register access: signals the eventfd of that doorbell.
    fn kicked(&mut self, index: u16) {
        if let Some(control) = self.control.as_mut().filter(|control| control.index == index) {
            control.queue.kicked();
            self.serve_control();
        } else if let Some(setup) = self.running.iter().find(|setup| setup.index == index).copied() {
            self.look(&setup, Ringer::Driver);
        }
    }

    /// Has a queue served: by this thread, if frames are sent within the access, else by the thread that its
    /// doorbell wakes. A receiver's doorbell may block this thread, so it is signalled later.
    fn look(&mut self, setup: &QueueSetup, ringer: Ringer) {
        if self.receiver.is_some() && setup.role != QueueRole::Control {
            return self.kicks.get_or_insert_with(|| Kicks::new(self.queues.clone())).add(setup.index);
        }
        match setup.role {
            QueueRole::Transmit(pair) if self.queues.transmits_in_access() => {
                self.queues.transmit_pair(usize::from(pair), ringer);
            }
            QueueRole::Transmit(pair) => self.queues.tx.ring(usize::from(pair), ringer),
            QueueRole::Receive(pair) => self.queues.rx.ring(usize::from(pair), ringer),
            // It is served by register access.
            QueueRole::Control => {}
        }
    }
}

/// The control queue.
impl NicDevice {
    /// Executes one burst of commands.
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

/// Doorbells: a write signals an ioeventfd without leaving the kernel.
impl NicDevice {
    fn register_doorbells(&mut self, queues: &[QueueSetup]) {
        if self.queues.transmits_in_access() {
            return;
        }
        for setup in queues {
            if let Some(event) = kick(&self.queues, setup.role)
                && let Some(address) = self.model.doorbell(setup.index)
                && self.doorbells.connect(address, event)
            {
                self.connected.push((address, setup.role));
            }
            // If this fails, the doorbell still works, by an exit (`Effect::Kicked`).
        }
    }

    fn forget_doorbells(&mut self) {
        for (address, role) in self.connected.drain(..) {
            if let Some(event) = kick(&self.queues, role) {
                self.doorbells.disconnect(address, event);
            }
        }
    }

    /// The BARs moved: disconnects the doorbells at the old addresses, and connects them at the new ones.
    fn ring_doorbells(&mut self) {
        self.forget_doorbells();
        let queues = std::mem::take(&mut self.running);
        self.register_doorbells(&queues);
        self.running = queues;
    }
}

/// Returns the eventfd of a queue's doorbell; `None` for the control queue, which is served by register
/// access.
fn kick(queues: &NicQueues, role: QueueRole) -> Option<&EventFd> {
    match role {
        QueueRole::Receive(pair) => queues.rx.kick(usize::from(pair)),
        QueueRole::Transmit(pair) => queues.tx.kick(usize::from(pair)),
        QueueRole::Control => None,
    }
}

/// For a process, which signals the eventfds itself: offers the doorbells of all queues.
fn offer_doorbells(machine: &Machine, slot: usize, pairs: u16, queues: &NicQueues) -> Result<()> {
    for pair in 0..pairs {
        let number = 2 * usize::from(pair);
        for (queue, role) in [(number, QueueRole::Receive(pair)), (number + 1, QueueRole::Transmit(pair))] {
            if let Some(event) = kick(queues, role) {
                machine.doorbells().offer(slot, queue, event)?;
            }
        }
    }
    Ok(())
}

fn rx(queue: DeviceQueue, start: &Start) -> RxQueue {
    let queue = virtio_net::rx::RxQueue::new(queue, start.mergeable());
    RxQueue::VirtioNet(Box::new(queue.with_offloads(start.offloads_of_device())))
}

fn tx(queue: DeviceQueue, longest: usize, start: &Start) -> TxQueue {
    let queue = virtio_net::tx::TxQueue::new(queue, longest);
    TxQueue::VirtioNet(Box::new(queue.with_offloads(start.offloads_of_driver())))
}

/// Returns the moderation timers that delay each pair's messages; empty without moderation.
fn moderated(pairs: usize, moderation: Moderation) -> Result<Vec<Arc<DelayedInterrupts<Messages>>>> {
    if matches!(moderation, Moderation::Off | Moderation::Every(0)) {
        return Ok(Vec::new());
    }
    (0..pairs).map(|_| Ok(Arc::new(DelayedInterrupts::new(Messages::new(moderation))?))).collect()
}

/// Returns true if an effect changes the kernel's tables of ioeventfds or interrupt routes.
fn is_costly(effect: &Effect) -> bool {
    match effect {
        Effect::Started(_) | Effect::Stopped | Effect::VectorChanged(_) | Effect::BarsMoved => true,
        Effect::Kicked(_)
        | Effect::QueueVectorChanged(_)
        | Effect::Interrupt { .. }
        | Effect::PairsChanged(_)
        | Effect::OffloadsChanged(_) => false,
    }
}
