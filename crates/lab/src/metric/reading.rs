//! Counter readings of a rig with guests, before and after a slice.

use anyhow::{Context, Result, bail};
use config::Engine;
use engine::Guest;
use ledger::Group;
use vmm::probe::{self, KvmCosts};

use crate::ledger_snapshot::Snapshot;

/// Rig with guests whose counters can be read.
pub(crate) trait HasCounters {
    /// The rig's guests.
    fn guests(&self) -> &[Guest];

    /// Appends all counters of the rig.
    fn count(&self, ledger: &mut Snapshot);
}

/// Counters and exits up to some moment.
pub(crate) struct Reading {
    ledger: Snapshot,
    exits: u64,
}

impl Reading {
    /// Reads the counters of a rig.
    pub(crate) fn of(rig: &impl HasCounters) -> Self {
        let mut ledger = Snapshot::new();
        rig.count(&mut ledger);
        Self { ledger, exits: rig.guests().iter().map(exits).sum() }
    }

    /// Returns the increase of the counters since this reading, and the number of VM exits.
    ///
    /// # Errors
    /// A guest has stopped.
    pub(crate) fn since(&self, rig: &impl HasCounters) -> Result<(Snapshot, u64)> {
        let now = Self::of(rig);
        check(rig.guests())?;
        Ok((now.ledger.since(&self.ledger), now.exits - self.exits))
    }
}

/// Number of VM exits: exits to the VMM, doorbells and stores that the kernel handles, and interrupts that the host
/// injects; each takes a vCPU out of its guest.
pub(crate) fn exits(router: &Guest) -> u64 {
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
            // The driver counts these register writes as kicks too, but they are already among the exits above.
            sum = sum.saturating_sub(registers.tdt_write.get() + registers.rdt_write.get());
        }
    }
    sum
}

/// Fails if any of the guests has stopped.
pub(crate) fn check(guests: &[Guest]) -> Result<()> {
    match guests.iter().find_map(Guest::fault) {
        Some(fault) => bail!("the guest stopped: {fault}"),
        None => Ok(()),
    }
}

/// Appends the counters of each vCPU of a guest: `vcpu0`, its first NIC `vcpu0.nic0`, its exits `vcpu0.exit`.
pub(crate) fn take_vcpus(guest: &Guest, ledger: &mut Snapshot) {
    let machine = guest.machine();
    for (n, vcpu) in machine.shared().vcpus.iter().take(machine.vcpus()).enumerate() {
        ledger.take(&format!("vcpu{n}"), &vcpu.router);
        ledger.take(&format!("vcpu{n}.nic0"), &vcpu.nics[0]);
        ledger.take(&format!("vcpu{n}.exit"), &*machine.exits()[n]);
    }
}

/// Measures KVM's own exit costs, if KVM runs the guest.
pub(crate) fn kvm_costs(guest: &Guest) -> Result<Option<KvmCosts>> {
    match guest.engine() {
        Engine::Kvm => Ok(Some(probe::kvm_costs().context("cannot measure KVM itself")?)),
        Engine::Process | Engine::Linux | Engine::Kernel | Engine::Lxc => Ok(None),
    }
}
