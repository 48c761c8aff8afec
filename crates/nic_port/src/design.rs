//! Options for the queues of a NIC.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ledger::E1000Registers;

use super::StoreCoalescing;
use crate::irq::InterruptTimer;

/// Options for the queues of a NIC.
#[derive(Default)]
pub struct NicQueuesConfig {
    /// Number of queue pairs.
    pub pairs: usize,
    /// True if the driver is in another program, and brings its doorbells.
    pub foreign: bool,
    /// True if several threads deliver frames.
    pub several_senders: bool,
    /// True if frames are sent within the register access that rings the doorbell.
    pub in_access: bool,
    /// Timers of moderated interrupts, one for each pair; empty if all interrupts are sent at once.
    pub timers: Vec<Arc<dyn InterruptTimer>>,
    /// Counters of register accesses, for an e1000.
    pub registers: Option<Arc<E1000Registers>>,
    /// Coalescing of register stores by the kernel.
    pub collector: Option<Arc<dyn StoreCoalescing>>,
    /// True if the queues are handed on to another backend.
    pub handed: bool,
    /// Set when the machine must stop.
    pub stop: Arc<AtomicBool>,
}
