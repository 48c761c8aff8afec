use ledger::{E1000Registers, NicInterrupts};

use super::*;

#[test]
fn accesses_are_told_for_each_frame_and_collected_writes_are_no_exits() {
    let (registers, interrupts) = (E1000Registers::default(), NicInterrupts::default());
    registers.tdt_write.add(100);
    registers.status_read.add(20);
    registers.coalesced_tdt.add(50);
    interrupts.raised.add(10);
    let mut ledger = Snapshot::new();
    ledger.take("nic0.registers", &registers);
    ledger.take("nic0.interrupts", &interrupts);
    ledger.take("nic1.registers", &registers);
    let found = per_frame(&ledger, 100);
    let figure = |name: &str| found.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    assert_eq!(figure("tdt_write_per_frame"), Some(2.0));
    assert_eq!(figure("interrupts_per_frame"), Some(0.1));
    assert_eq!(figure("icr_read_per_frame"), None);
    assert_eq!(exits(&ledger), 240);
    assert!(per_frame(&ledger, 0).is_empty());
}
