//! Level-triggered interrupts: the pin of a PCI function (INTA) at an input of the I/O APIC.
//!
//! Each NIC has a vector of its own, and the first ones an input of their own, so that handlers need not find out
//! whose interrupt it is. The VMM programs the I/O APIC once, as a PC's firmware would. On hosts that emulate guest
//! ring 0 a line that falls before the handler acknowledges it is delivered a second time: the handler then finds no
//! cause, and only time is lost.
//!
//! For the NICs after the first [`map::PINS`] there is no input: their pins send a message when they rise. The handler
//! reads ICR, which lowers the pin, so that each further cause lets it rise again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use bootinfo::{MAX_NICS, map};
use kvm_bindings::{KVM_IRQCHIP_IOAPIC, kvm_irqchip};
use kvm_ioctls::VmFd;
use nic_port::irq::{self, Line};

use super::{IrqLine, Message};
use crate::futex;
use crate::memory::GuestRam;

/// Bit of a redirection entry of the I/O APIC (82093AA data sheet, "I/O Redirection Table Registers"):
/// level-triggered. All other bits are 0: fixed delivery to one APIC ID, active high, not masked.
const LEVEL: u64 = 1 << 15;
/// Shift of the destination's APIC ID in the entry.
const DESTINATION: u32 = 56;

/// Interrupt pin of one NIC.
pub(crate) struct Pin {
    wire: Wire,
    vcpu: usize,
    ram: Arc<GuestRam>,
    state: Mutex<State>,
}

/// Way in which a pin reaches its vCPU.
pub(super) enum Wire {
    /// By an input of KVM's I/O APIC, which has this number.
    Input(Arc<VmFd>, u32),
    /// By a message, when it rises.
    Message(Arc<IrqLine>),
    /// Without KVM: the vCPU sleeps on its mailbox.
    Mailbox,
}

/// Wiring of a pin.
pub(super) struct Place {
    /// The number of its NIC.
    pub(super) nic: usize,
    /// The vCPU that it interrupts, unless the guest programs another one.
    pub(super) vcpu: usize,
    /// True if that vCPU can be interrupted already.
    pub(super) open: bool,
    /// True if the guest programs the I/O APIC itself.
    pub(super) pc: bool,
}

struct State {
    up: bool,
    /// True once the vCPU can be interrupted. A level that rises before the vCPU's local APIC is initialised
    /// would be lost there, and the I/O APIC would wait for its EOI indefinitely.
    open: bool,
}

impl Pin {
    /// Creates a pin that is low. Its route must exist.
    pub(super) fn new(wire: Wire, place: Place, ram: Arc<GuestRam>) -> Result<Self> {
        let Place { nic, vcpu, open, pc } = place;
        ensure!(ram.shared().mailbox.len() > vcpu, "there is no vCPU {vcpu} to be interrupted");
        if let Wire::Input(vm, _) = &wire
            && !pc
        {
            program(vm, nic, vcpu)?;
        }
        let state = Mutex::new(State { up: false, open: open || matches!(wire, Wire::Mailbox) });
        Ok(Self { wire, vcpu, ram, state })
    }

    /// Permits the pin to interrupt its vCPU, if that is this one.
    pub(super) fn open(&self, vcpu: usize) {
        let mut state = self.lock();
        if self.vcpu == vcpu && !state.open {
            state.open = true;
            self.drive(state.up, state.up);
        }
    }

    /// Drives the wire to its level; `rises`: it was lower before.
    fn drive(&self, up: bool, rises: bool) {
        match &self.wire {
            // It can only fail for a machine without interrupt controller, and this one has its route there.
            Wire::Input(vm, input) => drop(vm.set_irq_line(*input, up)),
            Wire::Message(line) if rises => line.signal(),
            Wire::Message(_) => {}
            Wire::Mailbox if up => {
                if let Some(mailbox) = self.ram.shared().mailbox.get(self.vcpu) {
                    futex::wake(&mailbox.0);
                }
            }
            Wire::Mailbox => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl irq::Pin for Pin {
    /// Increments the vCPU's mailbox before the line rises: a vCPU that checks the mailbox sees the interrupt
    /// earlier than its handler runs, and does not go to sleep.
    fn set(&self, up: bool) {
        let mailbox = self.ram.shared().mailbox.get(self.vcpu).filter(|_| up);
        if let Some(mailbox) = mailbox {
            mailbox.0.fetch_add(1, Ordering::SeqCst);
        }
        let mut state = self.lock();
        let rises = up && !state.up;
        state.up = up;
        if state.open {
            self.drive(up, rises);
        }
    }
}

/// Returns true if the pin of a NIC has an input of the I/O APIC.
pub(super) const fn has_input(nic: usize) -> bool {
    nic < map::PINS
}

/// Returns the message that the pin of a NIC sends to a vCPU instead: its handler is the same as for an input.
pub(super) fn message(nic: usize, vcpu: usize) -> Message {
    Message { address: map::APIC | (vcpu as u64) << 12, data: u32::from(map::FIRST_PIN_VECTOR) + nic as u32 }
}

/// Checks that there can be a pin for a NIC.
pub(super) fn verify(nic: usize, pc: bool) -> Result<()> {
    ensure!(nic < MAX_NICS, "an interrupt pin is for one of the first {MAX_NICS} NICs, not number {nic}");
    ensure!(
        !pc || has_input(nic),
        "a Linux guest has interrupt pins for its first {} NICs, not for number {nic}",
        map::PINS
    );
    Ok(())
}

/// Returns the I/O APIC input of a NIC, which is also its interrupt line (GSI).
pub(super) fn input(nic: usize) -> u32 {
    u32::from(map::FIRST_PIN) + nic as u32
}

/// Writes the redirection entry of the NIC's pin.
fn program(vm: &VmFd, nic: usize, vcpu: usize) -> Result<()> {
    let mut chip = kvm_irqchip { chip_id: KVM_IRQCHIP_IOAPIC, ..Default::default() };
    vm.get_irqchip(&mut chip).context("KVM_GET_IRQCHIP")?;
    // SAFETY: the kernel has filled this part of the union for the I/O APIC, and every bit pattern is valid in it.
    let ioapic = unsafe { &mut chip.chip.ioapic };
    let entry = ioapic.redirtbl.get_mut(input(nic) as usize).context("an I/O APIC with too few inputs")?;
    let vector = u64::from(map::FIRST_PIN_VECTOR) + nic as u64;
    entry.bits = vector | LEVEL | (vcpu as u64) << DESTINATION;
    vm.set_irqchip(&chip).context("cannot route an interrupt pin (KVM_SET_IRQCHIP)")
}

#[cfg(test)]
mod tests;
