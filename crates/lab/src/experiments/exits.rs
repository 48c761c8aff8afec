//! How often a router's vCPUs leave the guest.

use engine::Guest;
use ledger::Group;

/// Exits to the VMM, doorbells and stores that the kernel answers, and interrupts that the host sends: each takes a vCPU
/// out of its guest.
pub(super) fn exits(router: &Guest) -> u64 {
    let mut sum = 0;
    for reasons in router.machine().exits() {
        reasons.each(&mut |_, times| sum += times);
    }
    for vcpu in router.machine().shared().vcpus.iter().take(router.machine().vcpus()) {
        sum += vcpu.nics.iter().map(|nic| nic.kicks.get()).sum::<u64>();
    }
    for nic in router.nics() {
        sum += nic.interrupts().raised.get();
        if let Some(registers) = nic.registers() {
            // The driver calls these kicks, and they are among the exits above.
            sum = sum.saturating_sub(registers.tdt_write.get() + registers.rdt_write.get());
        }
    }
    sum
}
