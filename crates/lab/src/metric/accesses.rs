//! Cost of a guest's NICs per frame: accesses by register, exits and interrupts.

use engine::Guest;

use crate::ledger_snapshot::Snapshot;

/// Counters of e1000 registers that are reported separately, and the names of their figures per frame.
const REGISTERS: [(&str, &str); 9] = [
    ("registers.tdt_write", "tdt_write_per_frame"),
    ("registers.icr_read", "icr_read_per_frame"),
    ("registers.imc_write", "imc_write_per_frame"),
    ("registers.status_read", "status_read_per_frame"),
    ("registers.ims_write", "ims_write_per_frame"),
    ("registers.rdt_write", "rdt_write_per_frame"),
    ("registers.other_read", "other_read_per_frame"),
    ("registers.other_write", "other_write_per_frame"),
    ("registers.coalesced_tdt", "coalesced_tdt_per_frame"),
];
/// Interrupt counters that are reported separately, and the names of their figures per frame.
const INTERRUPTS: [(&str, &str); 3] = [
    ("interrupts.raised", "interrupts_per_frame"),
    ("interrupts.suppressed", "suppressed_per_frame"),
    ("interrupts.moderated", "moderated_per_frame"),
];

/// Adds the register and interrupt counters of all NICs, under `nic0.registers` and so on.
pub(crate) fn take(guest: &Guest, ledger: &mut Snapshot) {
    for (n, nic) in guest.nics().iter().enumerate() {
        if let Some(registers) = nic.registers() {
            ledger.take(&format!("nic{n}.registers"), registers);
        }
        ledger.take(&format!("nic{n}.interrupts"), &nic.interrupts());
    }
}

/// Counts of all NICs per frame; counters that are 0 are omitted.
pub(crate) fn per_frame(ledger: &Snapshot, frames: u64) -> Vec<(&'static str, f64)> {
    let of = |(end, name): &(&'static str, &'static str)| {
        let times = count(ledger, end);
        (times > 0 && frames > 0).then_some((*name, times as f64 / frames as f64))
    };
    REGISTERS.iter().chain(&INTERRUPTS).filter_map(of).collect()
}

/// Register accesses that caused an exit to the VMM.
pub(crate) fn exits(ledger: &Snapshot) -> u64 {
    let leaves = |(end, _): &&(&str, &str)| *end != "registers.coalesced_tdt";
    REGISTERS.iter().filter(leaves).map(|(end, _)| count(ledger, end)).sum()
}

/// Exits made by the interrupt handler in ring 0: it reads ICR, then accesses IMC and STATUS if there was a
/// cause.
pub(crate) fn by_ring0(ledger: &Snapshot) -> u64 {
    count(ledger, "registers.icr_read") + 2 * count(ledger, "registers.imc_write")
}

/// Sum of the counters of all NICs whose names end in `end`.
fn count(ledger: &Snapshot, end: &str) -> u64 {
    ledger.iter().filter(|(known, _)| known.ends_with(end)).map(|(_, value)| value).sum()
}

#[cfg(test)]
mod tests;
