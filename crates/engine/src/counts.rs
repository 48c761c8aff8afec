//! Registry of all counters of an instance, readable by any thread at any time.
//!
//! Routers come and go while an instance is being changed, which may take long: a firmware boots, a thread
//! ends. So each set of counters is registered here when it begins to count and withdrawn before it ends, and
//! readers wait for neither. Registration and withdrawal do not wait for readers either: the list is copied
//! under its lock, and the counters are read without the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Counters;
use ledger::Group;
use rustix::time::{ClockId, clock_gettime};
use switch::Switch;
use threads::CpuMeter;

use crate::task;

/// A component that has counters.
pub(crate) trait HasCounters: Send + Sync {
    /// Calls `visit` with each group of counters and the prefix of its names: `edge.wan.rx`.
    fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group));
    /// Calls `visit` with the name of each thread and its CPU time in nanoseconds.
    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64));
}

/// The counters of an instance that are registered now. Clones share the registry.
#[derive(Clone, Default)]
pub struct CounterRegistry(Arc<Mutex<Parts>>);

#[derive(Default)]
struct Parts {
    next: u64,
    counted: BTreeMap<u64, Registered>,
    switches: Vec<Arc<Switch>>,
}

/// A registered component, as readers hold it.
type Registered = Arc<Box<dyn HasCounters>>;

/// Snapshot of the registry, for a reader.
struct RegistrySnapshot {
    counted: Vec<Registered>,
    switches: Vec<Arc<Switch>>,
}

impl Drop for RegistrySnapshot {
    /// Components that were withdrawn while they were read may take long to be freed, for instance the memory
    /// of a machine. The reader does not do that: the reserve thread does.
    fn drop(&mut self) {
        let last: Vec<_> = self.counted.drain(..).filter_map(Arc::into_inner).collect();
        if !last.is_empty() {
            task::run_on_reserve(Box::new(move || drop(last)));
        }
    }
}

impl CounterRegistry {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> RegistrySnapshot {
        let parts = self.parts();
        RegistrySnapshot {
            counted: parts.counted.values().cloned().collect(),
            switches: parts.switches.clone(),
        }
    }

    /// Calls `visit` with each group of counters and the prefix of its names: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        let seen = self.seen();
        seen.counted.iter().for_each(|counted| counted.each_group(visit));
        for switch in &seen.switches {
            switch
                .counters(&mut |port, counters| visit(&format!("switch.{}.{port}", switch.name()), counters));
        }
    }

    /// Calls `visit` with the name of each thread and its CPU time in nanoseconds.
    pub fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.seen().counted.iter().for_each(|counted| counted.each_thread(visit));
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

    /// Registers a component until the returned guard is dropped.
    pub(crate) fn add(&self, counted: impl HasCounters + 'static) -> CounterRegistration {
        let mut parts = self.parts();
        parts.next += 1;
        let number = parts.next;
        parts.counted.insert(number, Arc::new(Box::new(counted)));
        CounterRegistration { counts: self.clone(), number }
    }

    /// Sets the current switches.
    pub(crate) fn keep(&self, switches: &[Arc<Switch>]) {
        self.parts().switches = switches.to_vec();
    }
}

/// Returns CLOCK_MONOTONIC in nanoseconds, which is the same for all processes.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock starts at zero when the host boots.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Registration of a component. Once this is dropped, no new reader sees the component.
pub(crate) struct CounterRegistration {
    counts: CounterRegistry,
    number: u64,
}

impl Drop for CounterRegistration {
    fn drop(&mut self) {
        let gone = self.counts.parts().counted.remove(&self.number);
        // After the lock is released: freeing the component may take long.
        drop(gone);
    }
}

/// A thread without counters other than its CPU time.
impl HasCounters for Arc<CpuMeter> {
    fn each_group(&self, _: &mut dyn FnMut(&str, &dyn Group)) {}

    fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit(self.name(), self.read());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::*;

    /// Time limit of every wait.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A component whose reader blocks, as on a lock of the data path.
    struct Held {
        is_in: Mutex<Sender<()>>,
        go_on: Mutex<Receiver<()>>,
        gone: Sender<ThreadId>,
    }

    impl HasCounters for Held {
        fn each_group(&self, _: &mut dyn FnMut(&str, &dyn Group)) {
            self.is_in.lock().expect("no panic").send(()).expect("it is waited for");
            let _ = self.go_on.lock().expect("no panic").recv_timeout(PATIENCE);
        }

        fn each_thread(&self, _: &mut dyn FnMut(&str, u64)) {}
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.gone.send(thread::current().id());
        }
    }

    #[test]
    fn who_reads_keeps_nobody_waiting_and_has_nothing_to_take_down() {
        task::keep_reserve().expect("a thread");
        let ((is_in, came_in), (go, go_on), (gone, went)) = (channel(), channel(), channel());
        let counts = CounterRegistry::default();
        let held = counts.add(Held { is_in: Mutex::new(is_in), go_on: Mutex::new(go_on), gone });
        let read = counts.clone();
        let reader = thread::spawn(move || read.each_group(&mut |_, _| ()));
        came_in.recv_timeout(PATIENCE).expect("it is read");
        let (tell, told) = channel();
        let control = thread::spawn(move || {
            counts.keep(&[]);
            drop((counts.add(Scripted("edge/vhost", 7)), held));
            // The receiver may have timed out.
            let _ = tell.send(());
        });
        let goes_on = told.recv_timeout(PATIENCE / 2);
        go.send(()).expect("it waits for that");
        let readers = reader.thread().id();
        reader.join().expect("no panic");
        control.join().expect("no panic");
        assert_eq!(goes_on, Ok(()), "control waits for who reads");
        assert_ne!(went.recv_timeout(PATIENCE).expect("it goes"), readers);
    }

    struct Scripted(&'static str, u64);

    impl HasCounters for Scripted {
        fn each_group(&self, _: &mut dyn FnMut(&str, &dyn Group)) {}

        fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
            visit(self.0, self.1);
        }
    }

    fn threads(counts: &CounterRegistry) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        counts.each_thread(&mut |name, ns| all.push((name.to_owned(), ns)));
        all
    }

    #[test]
    fn what_ends_is_not_read_any_more() {
        let counts = CounterRegistry::default();
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
