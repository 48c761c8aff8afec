//! Interrupts of an 82540EM: delivery to the driver, and the five register accesses that each one costs (seed paper
//! 004, "Transmission throughput performance").
//!
//! ```text
//!   in a virtual machine                                 in a process
//!   the pin rises                                        the pin rises: the mailbox moves
//!   ring 0 reads ICR, notes the causes,                  the driver sees that, and reads ICR,
//!   writes IMC, reads STATUS                             writes IMC, reads STATUS
//!   the driver sees the causes, and polls                polls
//!   ...
//!   finish: write IMS, read STATUS                       the same
//! ```

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use bootinfo::TransmitMode;
use ledger::RouterNic;
use ring::combine::Combiner;

use super::registers as r;
use super::tail::Tail;
use crate::pci::Registers;
use crate::{boot, halt, process};

/// Interrupt pin of one device, seen by the vCPU that it interrupts.
pub(crate) struct InterruptPin {
    registers: Registers,
    /// Word in which ring 0 stores causes.
    causes: &'static AtomicU32,
    /// Mailbox word that the host increments before each interrupt.
    mailbox: &'static AtomicU32,
    /// Word that tells ring 0 which causes to mask with each interrupt, and whether masking is wanted at all.
    mask: &'static AtomicU32,
    masks: bool,
    /// Value of the mailbox when a process last read ICR or unmasked.
    seen: u32,
}

impl InterruptPin {
    /// Creates the pin of NIC `index`, at vCPU `vcpu`.
    pub(super) fn new(registers: Registers, index: usize, vcpu: usize) -> Self {
        let words = boot::shared();
        let (causes, mask, mailbox) =
            (&words.causes[index].0, &words.pin_masks[index].0, &words.mailbox[vcpu].0);
        Self { registers, causes, mask, masks: false, mailbox, seen: mailbox.load(Acquire) }
    }

    /// Returns true if an interrupt has come, perhaps of another device; takes no register access.
    #[inline(always)]
    pub(super) fn rang(&self) -> bool {
        if process::is_running() {
            self.mailbox.load(Relaxed) != self.seen
        } else {
            self.causes.load(Relaxed) != 0
        }
    }

    /// Returns the causes of a pending interrupt, and masks it if that was requested; 0 if it was another device's.
    pub(super) fn take(&mut self) -> u32 {
        if process::is_running() {
            self.seen = self.mailbox.load(Acquire);
            let causes = self.registers.read(r::ICR);
            if causes != 0 && self.masks {
                self.mask();
            }
            return causes;
        }
        self.causes.swap(0, Acquire)
    }

    /// From now on, each interrupt masks all causes, so that the driver polls until it unmasks them.
    pub(super) fn mask_each(&mut self) {
        self.masks = true;
        self.mask.store(u32::MAX, Release);
    }

    /// Masks all causes, and reads STATUS to ensure that the write has taken effect, where ring 0 does not do so.
    fn mask(&self) {
        self.registers.write(r::IMC, u32::MAX);
        let _arrived: u32 = self.registers.read(r::STATUS);
    }

    /// Unmasks the causes that the driver wants, and ensures that the write has taken effect.
    pub(super) fn unmask(&mut self, counters: &RouterNic) {
        // Read the mailbox first: any change from here on may be our interrupt.
        self.seen = self.mailbox.load(Acquire);
        counters.arms.add(1);
        self.registers.write(r::IMS, r::WANTED);
        let _arrived: u32 = self.registers.read(r::STATUS);
    }
}

/// Serves the interrupts of a device whose frames the first vCPU moves, which relieves that vCPU of the register
/// accesses.
pub(crate) struct InterruptOnly {
    /// None if this vCPU does not serve the device.
    line: Option<InterruptPin>,
    /// True if the device works with a status block: then interrupts need not be masked.
    block: bool,
    combining: Option<(&'static Combiner, Tail)>,
}

impl InterruptOnly {
    pub(super) fn new(
        line: Option<InterruptPin>,
        mode: TransmitMode,
        combiner: Option<&'static Combiner>,
    ) -> Self {
        let tdt = line.as_ref().map(|line| Tail::new(line.registers, r::TX_RING));
        Self { line, block: mode == TransmitMode::Csb, combining: combiner.zip(tdt) }
    }

    /// Serves a pending interrupt; returns true if there was one.
    pub(crate) fn attend(&mut self, counters: &RouterNic) -> bool {
        let Some(line) = self.line.as_mut().filter(|line| line.rang()) else { return false };
        let causes = line.take();
        if causes == 0 {
            return false;
        }
        if let Some((combiner, tdt)) = self.combining.filter(|_| causes & r::TXDW != 0) {
            combiner.interrupted(|tail| tdt.write(tail, counters));
        }
        halt::wake_first();
        if !self.block {
            line.unmask(counters);
        }
        true
    }

    /// Returns true if an interrupt is pending.
    pub(crate) fn arm(&self) -> bool {
        self.line.as_ref().is_some_and(InterruptPin::rang)
    }
}
