//! Threads of a router that a test plays, and the kernel's view of them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{Pid, sched_getaffinity};
use sched::{Class, Thread, ThreadIdentity, attributes};

use crate::host::wait_until;

/// Thread that sleeps or burns CPU time until it is dropped.
pub(crate) struct Worker {
    pub(crate) thread: Thread,
    stop: Arc<AtomicBool>,
    join: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(class: Class, burns: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let seen = stop.clone();
        let body = move || {
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            while !seen.load(Ordering::Relaxed) {
                if burns {
                    std::hint::spin_loop();
                } else {
                    std::thread::park_timeout(Duration::from_millis(20));
                }
            }
        };
        let join = std::thread::spawn(body);
        let tid = told.recv().expect("a number").as_raw_nonzero().get();
        let pid = i32::try_from(std::process::id()).expect("a number of a process");
        let (router, name) = ("edge".to_owned(), format!("edge/{class:?}"));
        let task = ThreadIdentity::look(pid, tid).expect("it runs");
        Self { thread: Thread { router, class, name, task }, stop, join: Some(join) }
    }

    pub(crate) fn tid(&self) -> i32 {
        self.thread.task.tid
    }

    pub(crate) fn cpus(&self) -> Vec<usize> {
        let set = sched_getaffinity(Pid::from_raw(self.tid())).expect("its CPUs");
        (0..1024).filter(|cpu| set.is_set(*cpu)).collect()
    }

    /// How many times the kernel has taken the CPU from it.
    fn preemptions(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/self/task/{}/status", self.tid())).expect("its state");
        let count = text.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse().ok()).expect("a number")
    }

    /// Its group in a controller's hierarchy.
    pub(crate) fn group(&self, controller: &str) -> String {
        let text = fs::read_to_string(format!("/proc/self/task/{}/cgroup", self.tid())).expect("its groups");
        let mut lines = text.lines().map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>());
        let line = lines.find(|line| line[0].split(',').any(|name| name == controller) || line[0].is_empty());
        line.expect("a group")[1].to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(join) = self.join.take() {
            join.join().expect("a worker ends");
        }
    }
}

pub(crate) fn vcpu(burns: bool) -> Worker {
    Worker::start(Class::Vcpu(0), burns)
}

pub(crate) fn vhost(burns: bool) -> Worker {
    Worker::start(Class::Vhost { nic: None, direction: None, pair: None }, burns)
}

/// Checks the reservation, in nanoseconds.
pub(crate) fn assert_reserved(worker: &Worker, runtime: u64, period: u64) {
    let held = attributes(worker.tid()).expect("a thread");
    assert!(held.is_deadline());
    assert_eq!((held.runtime, held.deadline, held.period), (runtime, period, period));
}

/// Waits until the kernel has stopped a burning thread with a reservation many times: it does so at the end of the
/// runtime, and for no other thread.
pub(crate) fn is_held_to_its_runtime(worker: &Worker) {
    let before = worker.preemptions();
    wait_until("it is stopped at the end of its runtime", || worker.preemptions() >= before + 20);
}
