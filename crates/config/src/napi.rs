//! NAPI threads: kernel threads that do the receive work of interfaces (threaded NAPI). This module defines which NICs of a
//! kernel router have one, and which keys of the file apply to them. They belong to the class `vhost`, like all threads that
//! move frames.

use crate::affinity::Allowed;
use crate::fault::Fault;
use crate::plan::{Nic, Router};

/// Keys that do not apply to a kernel router without NAPI threads.
const OF_THREADS: [&str; 3] = ["pin", "affinity", "sched"];
/// Keys that do not apply to a kernel router with NAPI threads: it has no vCPU.
const OF_VCPUS: [&str; 2] = ["pin.vcpu", "affinity.vcpu"];

impl Router {
    /// Returns true if NAPI threads do the receive work of a kernel router: as the key `threaded` says, or by default if the file
    /// has a key that applies to such threads.
    pub fn is_threaded(&self) -> bool {
        let is_asked_for = || thread_key(self).is_some();
        self.kernel.is_some_and(|kernel| kernel.threaded.unwrap_or_else(is_asked_for))
    }

    /// Returns the NICs of a kernel router that have NAPI threads, with their positions.
    pub fn threaded_nics(&self) -> impl Iterator<Item = (usize, &Nic)> {
        let is_threaded = self.is_threaded();
        self.nics.iter().enumerate().filter(move |(_, nic)| is_threaded && nic.attach.has_napi())
    }

    /// Returns ringroad's name for the NAPI thread of a NIC's first queue: `edge/wan-napi0`. The threads of its other queues have
    /// the same placement. The kernel calls them `napi/wan-NUMBER`.
    pub fn napi_thread(&self, nic: &Nic) -> String {
        format!("{}/{}-napi0", self.name, nic.name)
    }
}

/// Returns the first key of the file that applies to NAPI threads.
fn thread_key(router: &Router) -> Option<&'static str> {
    let said = [
        ("pin.vhost", router.pin.vhost.is_some()),
        ("affinity.vhost", router.affinity.vhost != Allowed::Auto),
        ("sched", !router.sched.is_empty()),
        ("guarantee", router.guarantee.is_some()),
    ];
    said.into_iter().find_map(|(key, is_said)| is_said.then_some(key))
}

/// Returns the keys about threads that do not apply to a kernel router.
pub(crate) fn inapplicable(router: &Router) -> &'static [&'static str] {
    if router.is_threaded() { &OF_VCPUS[..] } else { &OF_THREADS[..] }
}

/// Error text for keys about vCPUs.
pub(crate) fn no_vcpu() -> &'static str {
    "a kernel router has no vCPU; remove this key, or write it for vhost, the class of its NAPI threads"
}

/// Refuses keys about threads that a kernel router does not have.
pub(crate) fn verify(index: usize, router: &Router, faults: &mut Vec<Fault>) {
    let Some(kernel) = &router.kernel else { return };
    let before = faults.len();
    let of_vcpus = [
        ("pin.vcpu", router.pin.vcpu.is_some()),
        ("affinity.vcpu", router.affinity.vcpu != Allowed::Auto),
        ("sched.vcpu", router.sched.vcpu.is_some()),
    ];
    let of_vcpus = of_vcpus.into_iter().filter(|(_, is_said)| *is_said);
    faults.extend(of_vcpus.map(|(key, _)| Fault::new(index, key, no_vcpu())));
    let Some(key) = thread_key(router).filter(|_| faults.len() == before) else { return };
    if kernel.threaded == Some(false) {
        let what =
            format!("{key} is about NAPI threads, which threaded = false rules out; remove one of the two");
        faults.push(Fault::new(index, "threaded", what));
    }
    let has_none = |nic: &&Nic| nic.attach.takes_kernel() && !nic.attach.has_napi();
    let without: Vec<&Nic> = router.nics.iter().filter(has_none).collect();
    let Some(first) = without.first() else { return };
    if router.guarantee.is_some() {
        faults.push(Fault::new(index, "guarantee", not_promised(first)));
    } else if without.len() == router.nics.len() {
        let what = format!(
            "none of its NICs has a NAPI thread of its own; write e.g. attach = \"veth:rr-{}\", or remove this key",
            first.name
        );
        faults.push(Fault::new(index, key, what));
    }
}

/// Error text for a guarantee of a router with such a NIC: the CPU time of its frames cannot be measured or controlled.
fn not_promised(nic: &Nic) -> String {
    format!(
        "NIC {:?} at {:?} has no NAPI thread of its own, so no rate can be guaranteed; write e.g. attach = \
         \"veth:rr-{}\", or remove guarantee",
        nic.name,
        nic.attach.to_string(),
        nic.name
    )
}
