//! Message-signalled interrupts: from an event descriptor in this process to a vector in the guest.
//!
//! Each MSI-X vector of each device owns one GSI with an irqfd, so that an interrupt costs one `write` and no
//! ioctl. Masking keeps the event pending here and sends it when the vector is unmasked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use bootinfo::MAX_VCPUS;
use kvm_bindings::{
    KVM_IRQ_ROUTING_MSI, KvmIrqRouting, kvm_irq_routing_entry, kvm_irq_routing_entry__bindgen_ty_1,
    kvm_irq_routing_msi,
};
use kvm_ioctls::VmFd;
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

/// First GSI for messages; those below belong to the interrupt chips' pins.
const FIRST_GSI: u32 = 24;

/// What a device's vector sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Address: 0xfee00000 with the destination's APIC id in bits 12 to 19.
    pub address: u64,
    /// Data: the vector in bits 0 to 7.
    pub data: u32,
}

/// One interrupt line that any thread may pull.
pub struct IrqLine {
    event: EventFd,
    gsi: u32,
    masked: AtomicBool,
    pending: AtomicBool,
    /// The mailbox word of the vCPU that the message goes to; null for guests without mailboxes.
    mailbox: AtomicPtr<AtomicU32>,
}

impl IrqLine {
    /// Interrupts the guest, or remembers to do so while the vector is masked.
    pub fn signal(&self) {
        if self.masked.load(Ordering::Acquire) {
            // SeqCst on both words, here and in `unmask`: either we see the line unmasked or they see the mark.
            self.pending.store(true, Ordering::SeqCst);
            // Unmasked in between: whoever takes the pending mark first sends.
            if self.masked.load(Ordering::SeqCst) || !self.pending.swap(false, Ordering::SeqCst) {
                return;
            }
        }
        self.send();
    }

    /// From now on interrupts wait here.
    fn mask(&self) {
        self.masked.store(true, Ordering::SeqCst);
    }

    /// Sends what waits, and from now on at once.
    fn unmask(&self) {
        self.masked.store(false, Ordering::SeqCst);
        if self.pending.swap(false, Ordering::SeqCst) {
            self.send();
        }
    }

    fn send(&self) {
        // SAFETY: the pointer is null or a word of `bootinfo::Shared` in guest RAM, which outlives every line
        // because the line's owner holds the `Vm`.
        if let Some(mailbox) = unsafe { self.mailbox.load(Ordering::Acquire).as_ref() } {
            mailbox.fetch_add(1, Ordering::SeqCst);
        }
        // The only error is a full counter, and then the interrupt is on its way already.
        let _ = self.event.write(1);
    }
}

/// The table of lines and routes of one VM.
pub struct IrqRouter {
    vm: Arc<VmFd>,
    mailboxes: [*mut AtomicU32; MAX_VCPUS],
    routes: Mutex<Routes>,
}

// SAFETY: the mailbox pointers are addresses of atomics in shared memory.
unsafe impl Send for IrqRouter {}
// SAFETY: as above.
unsafe impl Sync for IrqRouter {}

#[derive(Default)]
struct Routes {
    lines: u32,
    messages: BTreeMap<u32, Message>,
}

impl IrqRouter {
    /// A router without lines. `mailboxes` are the words to bump before an interrupt, by APIC id; null: none.
    pub(crate) fn new(vm: Arc<VmFd>, mailboxes: [*mut AtomicU32; MAX_VCPUS]) -> Self {
        Self { vm, mailboxes, routes: Mutex::default() }
    }

    /// A new line, masked until it is given a message.
    pub fn line(&self) -> Result<Arc<IrqLine>> {
        let event = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).context("cannot make an event descriptor")?;
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let gsi = FIRST_GSI + routes.lines;
        self.vm.register_irqfd(&event, gsi).context("cannot connect an interrupt (KVM_IRQFD)")?;
        routes.lines += 1;
        let (masked, pending) = (AtomicBool::new(true), AtomicBool::new(false));
        Ok(Arc::new(IrqLine { event, gsi, masked, pending, mailbox: AtomicPtr::default() }))
    }

    /// Gives a line the message it sends, or masks it (`None`).
    pub fn route(&self, line: &IrqLine, message: Option<Message>) -> Result<()> {
        let Some(message) = message else {
            line.mask();
            return Ok(());
        };
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.messages.insert(line.gsi, message) != Some(message) {
            self.vm
                .set_gsi_routing(&table(&routes.messages)?)
                .context("cannot route an interrupt (KVM_SET_GSI_ROUTING)")?;
        }
        let vcpu = (message.address >> 12 & 0xff) as usize;
        let mailbox = self.mailboxes.get(vcpu).copied().unwrap_or(std::ptr::null_mut());
        line.mailbox.store(mailbox, Ordering::Release);
        line.unmask();
        Ok(())
    }
}

fn table(messages: &BTreeMap<u32, Message>) -> Result<KvmIrqRouting> {
    let entries: Vec<_> = messages.iter().map(|(gsi, message)| entry(*gsi, *message)).collect();
    KvmIrqRouting::from_entries(&entries).context("too many interrupt routes")
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
