//! Doorbells of a guest, as eventfds on which an I/O thread can wait.
//!
//! In a virtual machine KVM turns the store into the event (ioeventfd). A process is given the eventfd itself
//! and writes to it. Where neither is possible, the doorbell is an ordinary register access.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use vmm_sys_util::eventfd::EventFd;

/// The doorbells of one machine.
pub(crate) struct Doorbells {
    /// KVM's handle; `None` for a process.
    vm: Option<Arc<VmFd>>,
    /// Eventfds for a process, handed over when it starts.
    bells: Mutex<Vec<Bell>>,
}

/// One doorbell of a process: its queue and its eventfd.
pub(crate) struct Bell {
    /// PCI slot of the NIC.
    pub(crate) slot: u32,
    /// Number of the queue.
    pub(crate) queue: u32,
    /// The eventfd.
    pub(crate) event: EventFd,
}

impl Doorbells {
    pub(crate) fn new(vm: Option<Arc<VmFd>>) -> Self {
        Self { vm, bells: Mutex::default() }
    }

    /// For a process: offers `event` as the doorbell of queue `queue` of the NIC in `slot`.
    pub(crate) fn offer(&self, slot: usize, queue: usize, event: &EventFd) -> Result<()> {
        if self.vm.is_some() {
            return Ok(());
        }
        let event = event.try_clone().context("cannot duplicate an event descriptor")?;
        let bell = Bell { slot: slot as u32, queue: queue as u32, event };
        self.bells.lock().unwrap_or_else(PoisonError::into_inner).push(bell);
        Ok(())
    }

    /// Takes the offered doorbells; they are handed over once.
    pub(crate) fn take(&self) -> Vec<Bell> {
        std::mem::take(&mut self.bells.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if a store can signal an eventfd without an exit.
    pub(crate) fn can_connect(&self) -> bool {
        self.vm.is_some()
    }

    /// Makes stores to `address` signal `event`; returns false if this is not possible and each store remains
    /// an exit.
    pub(crate) fn connect(&self, address: u64, event: &EventFd) -> bool {
        self.vm
            .as_ref()
            .is_some_and(|vm| vm.register_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch).is_ok())
    }

    /// Undoes [`Doorbells::connect`] with the same arguments.
    pub(crate) fn disconnect(&self, address: u64, event: &EventFd) {
        if let Some(vm) = &self.vm {
            // It was registered with exactly these arguments.
            let _ = vm.unregister_ioevent(event, &IoEventAddress::Mmio(address), NoDatamatch);
        }
    }
}
