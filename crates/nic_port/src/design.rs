//! What is chosen when a NIC's queues are made.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ledger::E1000Registers;

use super::Collecting;
use crate::irq::Timekeeping;

/// What a NIC's queues are to be.
#[derive(Default)]
pub struct Design {
    /// Pairs of queues.
    pub pairs: usize,
    /// Whether the driver is in another program, and brings its doorbells.
    pub foreign: bool,
    /// Whether several threads deliver.
    pub several_senders: bool,
    /// Whether frames are sent within the register access that tells of them.
    pub in_access: bool,
    /// The time of interrupts that may have to wait, for each pair; none where all are sent at once.
    pub timers: Vec<Arc<dyn Timekeeping>>,
    /// The register accesses of an e1000.
    pub registers: Option<Arc<E1000Registers>>,
    /// What the kernel collects of them.
    pub collector: Option<Arc<dyn Collecting>>,
    /// Whether the queues are handed on, for somebody else to serve.
    pub handed: bool,
    /// Set once the machine is to stop.
    pub stop: Arc<AtomicBool>,
}
