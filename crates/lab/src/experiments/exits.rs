//! How often a router's vCPUs leave the guest.

use engine::Guest;
use ledger::Group;

/// Exits to the VMM, doorbells that the kernel answers, and interrupts that the host sends: each takes a vCPU out of
/// its guest.
pub(super) fn exits(router: &Guest) -> u64 {
    let mut sum = 0;
    for reasons in router.machine().exits() {
        reasons.each(&mut |_, times| sum += times);
    }
    for vcpu in router.machine().shared().vcpus.iter().take(router.machine().vcpus()) {
        sum += vcpu.nics.iter().map(|nic| nic.kicks.get()).sum::<u64>();
    }
    let interrupts = |nic: &std::sync::Arc<vmm::NicQueues>| {
        nic.rx_ledger().interrupts.get() + nic.tx_ledger().interrupts.get()
    };
    sum + router.nics().iter().map(interrupts).sum::<u64>()
}
