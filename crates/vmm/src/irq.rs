//! Interrupts from any thread of this process to a vCPU.
//!
//! Messages (MSI-X): in a virtual machine each MSI-X vector of each device has one GSI with an irqfd, so that
//! an interrupt costs one `write` and no ioctl. A vCPU that is a thread of another process sleeps on its
//! mailbox word itself, and is woken there. While a vector is masked its interrupt is kept pending here, and
//! sent when it is unmasked.
//!
//! Pins (`pin`): one for each NIC without messages, driven by an ioctl. Interrupts of both kinds may be
//! delayed before they arrive here (`nic_port::irq`).

mod pc;
mod pin;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bootinfo::map;
use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_IRQCHIP_IOAPIC, KvmIrqRouting, kvm_irq_routing_entry,
    kvm_irq_routing_entry__bindgen_ty_1, kvm_irq_routing_irqchip, kvm_irq_routing_msi,
};
use kvm_ioctls::VmFd;
use nic_port::irq::Line;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use crate::futex;
use crate::memory::GuestRam;

pub(crate) use pin::Pin;

/// First GSI for messages; those below are the pins of the interrupt controllers.
const FIRST_GSI: u32 = 24;

/// MSI-X message of a device's vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Address: 0xfee00000 with the destination's APIC id in bits 12 to 19.
    pub address: u64,
    /// Data: the vector in bits 0 to 7.
    pub data: u32,
}

/// One interrupt line that any thread may signal.
pub struct IrqLine {
    wire: Wire,
    masked: AtomicBool,
    pending: AtomicBool,
    /// Access of an external process to it, if permitted. We never write to that eventfd: its owner could
    /// block us.
    lent: ExternalSignal,
    /// Mailbox word of the vCPU that the message goes to; null if it goes to no vCPU.
    mailbox: AtomicPtr<AtomicU32>,
    /// Keeps the memory of the mailbox alive.
    _ram: Arc<GuestRam>,
}

/// Access of an external process to a line.
#[derive(Default)]
enum ExternalSignal {
    #[default]
    No,
    /// By an eventfd of its own, which KVM watches while the line is not masked.
    Event(EventFd),
    /// Only indirectly: this process signals the line for it.
    Asked,
}

/// Way in which an interrupt is sent, in addition to incrementing the mailbox.
enum Wire {
    /// By KVM's irqfd with its GSI.
    Event { event: EventFd, gsi: u32 },
    /// By a futex: the vCPU sleeps on the mailbox.
    Mailbox,
}

impl IrqLine {
    /// Creates a masked line without a message.
    fn new(wire: Wire, ram: Arc<GuestRam>) -> Self {
        let (masked, pending) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { wire, masked, pending, lent: ExternalSignal::No, mailbox: AtomicPtr::default(), _ram: ram }
    }

    /// Keeps interrupts pending from now on.
    fn mask(&self) {
        self.masked.store(true, Ordering::SeqCst);
    }

    /// Sends a pending interrupt, and later ones at once.
    fn unmask(&self) {
        self.masked.store(false, Ordering::SeqCst);
        if self.pending.swap(false, Ordering::SeqCst) {
            self.send();
        }
    }

    fn send(&self) {
        // SAFETY: the pointer is null or a word of `bootinfo::Shared` in guest RAM, which the line holds.
        let mailbox = unsafe { self.mailbox.load(Ordering::Acquire).as_ref() };
        if let Some(mailbox) = mailbox {
            mailbox.fetch_add(1, Ordering::SeqCst);
        }
        match (&self.wire, mailbox) {
            // The only error is a full counter, and then the interrupt is pending already.
            (Wire::Event { event, .. }, _) => drop(event.write(1)),
            (Wire::Mailbox, Some(mailbox)) => futex::wake(mailbox),
            (Wire::Mailbox, None) => {}
        }
    }
}

impl Line for IrqLine {
    fn signal(&self) {
        if self.masked.load(Ordering::Acquire) {
            // SeqCst on both words, here and in `unmask`: either this thread sees the line unmasked or the
            // other one sees the mark.
            self.pending.store(true, Ordering::SeqCst);
            // Unmasked in between: the thread that takes the pending mark first sends.
            if self.masked.load(Ordering::SeqCst) || !self.pending.swap(false, Ordering::SeqCst) {
                return;
            }
        }
        self.send();
    }

    fn event(&self) -> Option<&EventFd> {
        if let ExternalSignal::Event(event) = &self.lent { Some(event) } else { None }
    }
}

/// Interrupt lines and routes of one machine.
pub struct IrqRouter {
    /// KVM's handle; `None` without KVM.
    vm: Option<Arc<VmFd>>,
    ram: Arc<GuestRam>,
    routes: Mutex<Routes>,
}

#[derive(Default)]
struct Routes {
    lines: u32,
    messages: BTreeMap<u32, Message>,
    /// I/O APIC inputs in use.
    inputs: BTreeSet<u32>,
    pins: Vec<Arc<Pin>>,
    /// vCPUs that have been initialised.
    ready: BTreeSet<usize>,
    /// True if the guest expects a PC, and programs its interrupt controllers itself.
    pc: bool,
    /// How often KVM's table was set.
    #[cfg(test)]
    times_set: AtomicU32,
}

impl IrqRouter {
    /// Creates a router without lines.
    pub(crate) fn new(vm: Option<Arc<VmFd>>, ram: Arc<GuestRam>) -> Self {
        Self { vm, ram, routes: Mutex::default() }
    }

    /// Creates a router without lines for a guest that expects a PC: lines are connected to inputs as on a
    /// PC, and the guest programs the I/O APIC.
    pub(crate) fn of_pc(vm: Option<Arc<VmFd>>, ram: Arc<GuestRam>) -> Self {
        Self { vm, ram, routes: Mutex::new(Routes { pc: true, ..Routes::default() }) }
    }

    /// Creates a line, masked until it is given a message.
    pub fn line(&self) -> Result<Arc<IrqLine>> {
        let wire = match &self.vm {
            Some(vm) => self.event(vm)?,
            None => Wire::Mailbox,
        };
        Ok(Arc::new(IrqLine::new(wire, self.ram.clone())))
    }

    /// Creates a line that an external process may signal as well, by [`Line::event`]: a signal while it is
    /// masked stays in the eventfd, which KVM does not watch then. It sends [`map::PEER_VECTOR`] instead of
    /// the firmware's own vector.
    pub(crate) fn externally_signalled_line(&self) -> Result<Arc<IrqLine>> {
        let (wire, lent) = match &self.vm {
            Some(vm) => (self.event(vm)?, ExternalSignal::Event(new_event()?)),
            None => (Wire::Mailbox, ExternalSignal::Asked),
        };
        Ok(Arc::new(IrqLine { lent, ..IrqLine::new(wire, self.ram.clone()) }))
    }

    fn event(&self, vm: &VmFd) -> Result<Wire> {
        let (event, gsi) = (new_event()?, self.next_gsi());
        vm.register_irqfd(&event, gsi).context("cannot connect an interrupt (KVM_IRQFD)")?;
        Ok(Wire::Event { event, gsi })
    }

    fn next_gsi(&self) -> u32 {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.lines += 1;
        FIRST_GSI + routes.lines - 1
    }

    /// Has KVM watch, or not watch, the eventfd of a lent line.
    fn listen(&self, line: &IrqLine, listens: bool) -> Result<()> {
        let (Some(vm), Wire::Event { gsi, .. }, ExternalSignal::Event(event)) =
            (&self.vm, &line.wire, &line.lent)
        else {
            return Ok(());
        };
        let was = !line.masked.load(Ordering::Acquire);
        match (was, listens) {
            (false, true) => {
                vm.register_irqfd(event, *gsi).context("cannot connect an interrupt (KVM_IRQFD)")
            }
            (true, false) => {
                vm.unregister_irqfd(event, *gsi).context("cannot disconnect an interrupt (KVM_IRQFD)")
            }
            _ => Ok(()),
        }
    }

    /// Sets the message of a line, or masks it (`None`).
    pub fn route(&self, line: &IrqLine, message: Option<Message>) -> Result<()> {
        if let Some(message) = message {
            return self.route_all(&[(line, message)]);
        }
        self.listen(line, false)?;
        line.mask();
        Ok(())
    }

    /// Sets the messages of several lines. KVM's routing table is replaced once for all of them: each time waits for
    /// the table's readers, which takes seconds on a host that has stopped one of them.
    pub(crate) fn route_all(&self, lines: &[(&IrqLine, Message)]) -> Result<()> {
        let lines = lines.iter().map(|(line, message)| (*line, self.sent_by(line, *message)));
        let lines: Vec<_> = lines.collect();
        if let Some(vm) = &self.vm {
            self.route_gsis(vm, &lines)?;
        }
        for (line, message) in lines {
            // All interrupts of the firmware use the same vector; they differ in the vCPU.
            let vcpu = (message.address >> 12 & 0xff) as usize;
            let mailbox = self.ram.shared().mailbox.get(vcpu);
            let mailbox = mailbox.map_or(std::ptr::null_mut(), |word| std::ptr::from_ref(&word.0).cast_mut());
            line.mailbox.store(mailbox, Ordering::Release);
            self.listen(line, true)?;
            line.unmask();
        }
        Ok(())
    }

    /// Returns the message that a line sends if the guest has set this one. A Linux kernel has vectors of its own.
    fn sent_by(&self, line: &IrqLine, message: Message) -> Message {
        let ours = !matches!(line.lent, ExternalSignal::No) && self.ram.is_of_firmware();
        if ours && message.data == u32::from(map::MESSAGE_VECTOR) {
            return Message { data: u32::from(map::PEER_VECTOR), ..message };
        }
        message
    }

    fn route_gsis(&self, vm: &VmFd, lines: &[(&IrqLine, Message)]) -> Result<()> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = routes.messages.clone();
        let mut is_changed = false;
        for (line, message) in lines {
            if let Wire::Event { gsi, .. } = &line.wire {
                is_changed |= routes.messages.insert(*gsi, *message) != Some(*message);
            }
        }
        if is_changed && let Err(error) = routes.set(vm) {
            // KVM still has the table of before: another attempt is to find that something has changed.
            routes.messages = before;
            return Err(error);
        }
        Ok(())
    }

    /// Creates the interrupt pin of NIC `nic`, which is low and leads to `vcpu`. To be called once.
    pub(crate) fn pin(&self, nic: usize, vcpu: usize) -> Result<Arc<Pin>> {
        let wire = self.pin_wire(nic, vcpu)?;
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pin::Place { nic, vcpu, open: routes.pc || routes.ready.contains(&vcpu), pc: routes.pc };
        let input = match &wire {
            pin::Wire::Input(vm, input) => Some((vm.clone(), *input)),
            pin::Wire::Message(_) | pin::Wire::Mailbox => None,
        };
        let pin = Arc::new(Pin::new(wire, place, self.ram.clone())?);
        if let Some((vm, input)) = input
            && routes.inputs.insert(input)
        {
            routes.set(&vm)?;
        }
        routes.pins.push(pin.clone());
        Ok(pin)
    }

    /// Creates what connects a pin to its vCPU.
    fn pin_wire(&self, nic: usize, vcpu: usize) -> Result<pin::Wire> {
        pin::verify(nic, self.routes.lock().unwrap_or_else(PoisonError::into_inner).pc)?;
        match &self.vm {
            None => Ok(pin::Wire::Mailbox),
            Some(vm) if pin::has_input(nic) => Ok(pin::Wire::Input(vm.clone(), pin::input(nic))),
            Some(_) => {
                let line = self.line()?;
                self.route(&line, Some(pin::message(nic, vcpu)))?;
                Ok(pin::Wire::Message(line))
            }
        }
    }

    /// Permits pins to interrupt a vCPU, which has been initialised.
    pub(crate) fn open(&self, vcpu: usize) {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.ready.insert(vcpu);
        routes.pins.iter().for_each(|pin| pin.open(vcpu));
    }
}

fn new_event() -> Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")
}

impl Routes {
    /// Sets KVM's routing table.
    fn set(&self, vm: &VmFd) -> Result<()> {
        #[cfg(test)]
        self.times_set.fetch_add(1, Ordering::Relaxed);
        vm.set_gsi_routing(&self.table()?).context("cannot route an interrupt (KVM_SET_GSI_ROUTING)")
    }

    fn table(&self) -> Result<KvmIrqRouting> {
        let pins: Vec<_> =
            if self.pc { pc::entries() } else { self.inputs.iter().map(|input| pin_entry(*input)).collect() };
        let messages = self.messages.iter().map(|(gsi, message)| entry(*gsi, *message));
        let entries: Vec<_> = pins.into_iter().chain(messages).collect();
        KvmIrqRouting::from_entries(&entries).context("too many interrupt routes")
    }
}

/// Line and I/O APIC input have the same number.
fn pin_entry(input: u32) -> kvm_irq_routing_entry {
    chip_entry(input, KVM_IRQCHIP_IOAPIC, input)
}

/// Returns the route of a line to an input of an interrupt controller.
fn chip_entry(gsi: u32, chip: u32, input: u32) -> kvm_irq_routing_entry {
    let irqchip = kvm_irq_routing_irqchip { irqchip: chip, pin: input };
    kvm_irq_routing_entry {
        gsi,
        type_: KVM_IRQ_ROUTING_IRQCHIP,
        u: kvm_irq_routing_entry__bindgen_ty_1 { irqchip },
        ..Default::default()
    }
}

fn entry(gsi: u32, message: Message) -> kvm_irq_routing_entry {
    let msi = kvm_irq_routing_msi {
        address_lo: message.address as u32,
        address_hi: (message.address >> 32) as u32,
        data: message.data,
        ..Default::default()
    };
    kvm_irq_routing_entry {
        gsi,
        type_: KVM_IRQ_ROUTING_MSI,
        u: kvm_irq_routing_entry__bindgen_ty_1 { msi },
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
