//! How a guest's doorbell becomes an event that an I/O thread can wait for.
//!
//! In a virtual machine KVM turns the store into the event (ioeventfd). A process is handed the event itself and
//! writes to it. Where neither is so, the doorbell is a register access like any other.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use vmm_sys_util::eventfd::EventFd;

/// The doorbells of one machine.
pub(crate) struct Doorbells {
    /// KVM's handle; none for a process.
    vm: Option<Arc<VmFd>>,
    /// Events for a process, to be handed over when it starts.
    bells: Mutex<Vec<Bell>>,
}

/// One doorbell of a process: who rings it, and the event that rings.
pub(crate) struct Bell {
    /// PCI slot of the NIC.
    pub(crate) slot: u32,
    /// Number of the queue.
    pub(crate) queue: u32,
    /// The event.
    pub(crate) event: EventFd,
}

impl Doorbells {
    pub(crate) fn new(vm: Option<Arc<VmFd>>) -> Self {
        Self { vm, bells: Mutex::default() }
    }

    /// For a process: queue `queue` of the NIC in `slot` rings `event`.
    pub(crate) fn offer(&self, slot: usize, queue: usize, event: &EventFd) -> Result<()> {
        if self.vm.is_some() {
            return Ok(());
        }
        let event = event.try_clone().context("cannot duplicate an event descriptor")?;
        let bell = Bell { slot: slot as u32, queue: queue as u32, event };
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).push(bell);
        Ok(())
    }

    /// The bells that were offered; they are handed over once.
    pub(crate) fn take(&self) -> Vec<Bell> {
        std::mem::take(&mut self.bells.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a store can ring without an access.
    pub(crate) fn can_connect(&self) -> bool {
        self.vm.is_some()
    }

    /// From now on a store to `address` rings `event`; false if it does not and the store is an access.
    pub(crate) fn connect(&self, address: u64, event: &EventFd) -> bool {
        self.vm
            .as_ref()
            .is_some_and(|vm| vm.register_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch).is_ok())
    }

    /// Takes back what [`Doorbells::connect`] did with the same arguments.
    pub(crate) fn disconnect(&self, address: u64, event: &EventFd) {
        if let Some(vm) = &self.vm {
            // It was registered with exactly these arguments.
            let _ = vm.unregister_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch);
        }
    }
}
