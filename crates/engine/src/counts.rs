//! What counts in an instance, to be read by anybody at any time.
//!
//! Routers come and go under whoever changes the instance, and that may take long: a firmware boots, a thread ends. So what counts
//! is noted here when it begins and crossed out before it ends, and who reads it waits for neither.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Counters;
use ledger::Group;
use rustix::time::{ClockId, clock_gettime};
use switch::Switch;

use crate::thread::CpuMeter;

/// A part of an instance that counts.
pub(crate) trait Counted: Send {
    /// Calls `visit` with each group of counters and what its names begin with: `edge.wan.rx`.
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group));
    /// Calls `visit` with the name of each thread and the nanoseconds that it has spent on a CPU.
    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64));
}

/// The parts of an instance that count now. Its clones are of the same instance.
#[derive(Clone, Default)]
pub struct Counts(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    next: u64,
    counted: BTreeMap<u64, Box<dyn Counted>>,
    switches: Vec<Arc<Switch>>,
}

impl Counts {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `visit` with each group of counters and what its names begin with: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        let parts = self.parts();
        parts.counted.values().for_each(|counted| counted.each_group(visit));
        for switch in &parts.switches {
            switch
                .counters(&mut |port, counters| visit(&format!("switch.{}.{port}", switch.name()), counters));
        }
    }

    /// Calls `visit` with the name of each thread and the nanoseconds it has spent on a CPU.
    pub fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.parts().counted.values().for_each(|counted| counted.each_thread(visit));
    }

    /// Reads every counter and the CPU time of every thread, without stopping anything.
    pub fn read(&self) -> Counters {
        let (first_ns, mut counters, mut cpu_ns) = (now_ns(), BTreeMap::new(), BTreeMap::new());
        self.each_group(&mut |prefix, group: &dyn Group| {
            group.each(&mut |name, value| {
                counters.insert(format!("{prefix}.{name}"), value);
            });
        });
        self.each_thread(&mut |name, ns| {
            cpu_ns.insert(name.to_owned(), ns);
        });
        let at_ns = now_ns();
        Counters { at_ns, first_ns, last_ns: at_ns, counters, cpu_ns }
    }

    /// Notes something that counts, until what is returned is dropped.
    pub(crate) fn add(&self, counted: impl Counted + 'static) -> Counting {
        let mut parts = self.parts();
        parts.next += 1;
        let number = parts.next;
        parts.counted.insert(number, Box::new(counted));
        Counting { counts: self.clone(), number }
    }

    /// These are the switches from now on.
    pub(crate) fn keep(&self, switches: &[Arc<Switch>]) {
        self.parts().switches = switches.to_vec();
    }
}

/// CLOCK_MONOTONIC in nanoseconds, which is the same for all processes.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock began with the host.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Something that counts. When this is dropped, nobody reads it any more.
pub(crate) struct Counting {
    counts: Counts,
    number: u64,
}

impl Drop for Counting {
    fn drop(&mut self) {
        let gone = self.counts.parts().counted.remove(&self.number);
        // What it holds may take its time to go.
        drop(gone);
    }
}

/// A thread that nobody counts for.
impl Counted for Arc<CpuMeter> {
    fn each_group(&self, _: &mut dyn FnMut(&str, &dyn Group)) {}

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit(self.name(), self.read());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scripted(&'static str, u64);

    impl Counted for Scripted {
        fn each_group(&self, _: &mut dyn FnMut(&str, &dyn Group)) {}

        fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
            visit(self.0, self.1);
        }
    }

    fn threads(counts: &Counts) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        counts.each_thread(&mut |name, ns| all.push((name.to_owned(), ns)));
        all
    }

    #[test]
    fn what_ends_is_not_read_any_more() {
        let counts = Counts::default();
        let reader = counts.clone();
        let edge = counts.add(Scripted("edge/vhost", 7));
        let core = counts.add(Scripted("core/vhost", 8));
        assert_eq!(threads(&reader), [("edge/vhost".to_owned(), 7), ("core/vhost".to_owned(), 8)]);
        drop(edge);
        assert_eq!(threads(&reader), [("core/vhost".to_owned(), 8)]);
        drop(core);
        assert!(threads(&reader).is_empty());
    }
}
