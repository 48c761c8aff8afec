//! What counts in an instance, to be read by anybody at any time.
//!
//! Routers come and go under whoever changes the instance, and that may take long: a firmware boots, a thread ends. So what counts
//! is noted here when it begins and crossed out before it ends, and who reads it waits for neither. Nor does anybody who notes or
//! crosses out wait for who reads: the list is locked to be copied, and read without the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Counters;
use ledger::Group;
use rustix::time::{ClockId, clock_gettime};
use switch::Switch;
use threads::CpuMeter;

use crate::task;

/// A part of an instance that counts.
pub(crate) trait Counted: Send + Sync {
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
    counted: BTreeMap<u64, Part>,
    switches: Vec<Arc<Switch>>,
}

/// What counts, as who reads it has it.
type Part = Arc<Box<dyn Counted>>;

/// The parts that counted at one moment, for who reads them.
struct Seen {
    counted: Vec<Part>,
    switches: Vec<Arc<Switch>>,
}

impl Drop for Seen {
    /// What was crossed out meanwhile may take its time to go, with the memory of a machine for instance: that is for nobody who
    /// reads.
    fn drop(&mut self) {
        let last: Vec<_> = self.counted.drain(..).filter_map(Arc::into_inner).collect();
        if !last.is_empty() {
            task::leave(Box::new(move || drop(last)));
        }
    }
}

impl Counts {
    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> Seen {
        let parts = self.parts();
        Seen { counted: parts.counted.values().cloned().collect(), switches: parts.switches.clone() }
    }

    /// Calls `visit` with each group of counters and what its names begin with: `edge.wan.rx`, `edge.vcpu0`,
    /// `switch.lan.edge.wan`.
    pub fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Group)) {
        let seen = self.seen();
        seen.counted.iter().for_each(|counted| counted.each_group(visit));
        for switch in &seen.switches {
            switch
                .counters(&mut |port, counters| visit(&format!("switch.{}.{port}", switch.name()), counters));
        }
    }

    /// Calls `visit` with the name of each thread and the nanoseconds it has spent on a CPU.
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

    /// Notes something that counts, until what is returned is dropped.
    pub(crate) fn add(&self, counted: impl Counted + 'static) -> Counting {
        let mut parts = self.parts();
        parts.next += 1;
        let number = parts.next;
        parts.counted.insert(number, Arc::new(Box::new(counted)));
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

/// Something that counts. When this is dropped, nobody begins to read it any more.
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
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use super::*;

    /// Longest wait for anything.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A part whose reader waits, as for a lock of the data path.
    struct Held {
        is_in: Mutex<Sender<()>>,
        go_on: Mutex<Receiver<()>>,
        gone: Sender<ThreadId>,
    }

    impl Counted for Held {
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
        let counts = Counts::default();
        let held = counts.add(Held { is_in: Mutex::new(is_in), go_on: Mutex::new(go_on), gone });
        let read = counts.clone();
        let reader = thread::spawn(move || read.each_group(&mut |_, _| ()));
        came_in.recv_timeout(PATIENCE).expect("it is read");
        let (tell, told) = channel();
        let control = thread::spawn(move || {
            counts.keep(&[]);
            drop((counts.add(Scripted("edge/vhost", 7)), held));
            // Who waits may have given up.
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
