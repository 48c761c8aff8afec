//! Level-triggered interrupts: the pin of a PCI function (INTA) at an input of the I/O APIC.
//!
//! Each NIC has an input and a vector of its own, so that handlers need not find out whose interrupt it is.
//! The VMM programs the I/O APIC once, as a PC's firmware would. On hosts that emulate guest ring 0 a line
//! that falls before the handler acknowledges it is delivered a second time: the handler then finds no cause,
//! and only time is lost.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use bootinfo::{MAX_NICS, map};
use kvm_bindings::{KVM_IRQCHIP_IOAPIC, kvm_irqchip};
use kvm_ioctls::VmFd;
use nic_port::irq;

use crate::futex;
use crate::memory::GuestRam;

/// Bit of a redirection entry of the I/O APIC (82093AA data sheet, "I/O Redirection Table Registers"):
/// level-triggered. All other bits are 0: fixed delivery to one APIC ID, active high, not masked.
const LEVEL: u64 = 1 << 15;
/// Shift of the destination's APIC ID in the entry.
const DESTINATION: u32 = 56;

/// Interrupt pin of one NIC.
pub(crate) struct Pin {
    /// KVM's handle; `None` without KVM.
    vm: Option<Arc<VmFd>>,
    input: u32,
    vcpu: usize,
    ram: Arc<GuestRam>,
    state: Mutex<State>,
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
    pub(super) fn new(vm: Option<Arc<VmFd>>, place: Place, ram: Arc<GuestRam>) -> Result<Self> {
        let Place { nic, vcpu, open, pc } = place;
        ensure!(nic < MAX_NICS, "an interrupt pin is for one of the first {MAX_NICS} NICs, not number {nic}");
        ensure!(ram.shared().mailbox.len() > vcpu, "there is no vCPU {vcpu} to be interrupted");
        if let Some(vm) = vm.as_ref().filter(|_| !pc) {
            program(vm, nic, vcpu)?;
        }
        let state = Mutex::new(State { up: false, open: open || vm.is_none() });
        Ok(Self { vm, input: input(nic), vcpu, ram, state })
    }

    /// Permits the pin to interrupt its vCPU, if that is this one.
    pub(super) fn open(&self, vcpu: usize) {
        let mut state = self.lock();
        if let Some(vm) = self.vm.as_ref().filter(|_| self.vcpu == vcpu && !state.open) {
            state.open = true;
            self.drive(vm, state.up);
        }
    }

    fn drive(&self, vm: &VmFd, up: bool) {
        // It can only fail for a machine without interrupt controller, and this one has its route there.
        let _ = vm.set_irq_line(self.input, up);
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
        state.up = up;
        match (&self.vm, mailbox) {
            (Some(vm), _) if state.open => self.drive(vm, up),
            (None, Some(mailbox)) => futex::wake(&mailbox.0),
            (Some(_) | None, _) => {}
        }
    }
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
