//! Level-triggered interrupts: the pin of a PCI function (INTA) at an input of the I/O APIC.
//!
//! Each NIC has an input and a vector of its own, so that none has to ask whose interrupt it is. The VMM programs the I/O
//! APIC once, as the firmware of a PC would. On hosts that emulate guest ring 0 a line that falls before the handler
//! acknowledges is delivered a second time: the handler finds no cause then, and only time is lost.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use bootinfo::{MAX_NICS, map};
use kvm_bindings::{KVM_IRQCHIP_IOAPIC, kvm_irqchip};
use kvm_ioctls::VmFd;
use nic_port::irq;

use crate::futex;
use crate::memory::GuestRam;

/// In a redirection entry of the I/O APIC (82093AA data sheet, "I/O Redirection Table Registers"): level-triggered. All
/// else is 0: fixed delivery to one APIC id, active high, not masked.
const LEVEL: u64 = 1 << 15;
/// Where the entry holds the destination's APIC id.
const DESTINATION: u32 = 56;

/// One pin.
pub(crate) struct Pin {
    /// KVM's handle; none where no KVM is.
    vm: Option<Arc<VmFd>>,
    input: u32,
    vcpu: usize,
    ram: Arc<GuestRam>,
    state: Mutex<State>,
}

/// Where a pin is.
pub(super) struct Place {
    /// The number of its NIC.
    pub(super) nic: usize,
    /// The vCPU that it interrupts, unless the guest says otherwise.
    pub(super) vcpu: usize,
    /// Whether that vCPU can be interrupted already.
    pub(super) open: bool,
    /// Whether the guest programs the I/O APIC itself.
    pub(super) pc: bool,
}

struct State {
    up: bool,
    /// Whether the vCPU can be interrupted. A level that rises before the vCPU's local APIC has got its state would be
    /// lost in there, and the I/O APIC wait for its acknowledgement for ever.
    open: bool,
}

impl Pin {
    /// A pin that is low. Its route must exist.
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

    /// From now on its vCPU can be interrupted, if it is this one.
    pub(super) fn open(&self, vcpu: usize) {
        let mut state = self.lock();
        if let Some(vm) = self.vm.as_ref().filter(|_| self.vcpu == vcpu && !state.open) {
            state.open = true;
            self.drive(vm, state.up);
        }
    }

    fn drive(&self, vm: &VmFd, up: bool) {
        // It can only fail for a machine without interrupt controller, and this one has got its route there.
        let _ = vm.set_irq_line(self.input, up);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl irq::Pin for Pin {
    /// Before the line rises, the mailbox of the vCPU moves: who looks at it sees the interrupt earlier than its handler runs,
    /// and does not sleep.
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

/// Input of the I/O APIC, and number of its interrupt line (GSI).
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
