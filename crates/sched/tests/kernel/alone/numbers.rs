//! Threads that have ended, and others that reuse their numbers.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use sched::{ApplyError, SchedFacts, attributes};

use crate::host::{HANGS, RESERVED, alone, applier, exclusive_can_be, lacks, outlined, place, plan};
use crate::worker::vcpu;

/// Process that is killed when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number that the kernel assigned last, in this PID namespace.
const LAST: &str = "/proc/sys/kernel/ns_last_pid";

/// Returns true, and prints why, if numbers cannot be chosen here.
fn lacks_numbers() -> bool {
    let lacks = fs::OpenOptions::new().write(true).open(LAST).is_err();
    if lacks {
        println!("SKIPPED: {LAST} cannot be written");
    }
    lacks
}

/// Starts something repeatedly until it gets a number that was used before.
fn again<T>(number: i32, start: impl Fn() -> (i32, T)) -> T {
    let end = Instant::now() + HANGS;
    loop {
        fs::write(LAST, (number - 1).to_string()).expect("a number");
        let (given, started) = start();
        if given == number {
            return started;
        }
        assert!(Instant::now() < end, "others take number {number}");
    }
}

#[test]
fn a_thread_that_has_ended_is_no_lasting_error() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["two CPUs"]) {
        return;
    }
    let mut ended = vcpu(false).thread.clone();
    ended.task.tid = i32::MAX;
    let mut applier = applier();
    let cpu = *known.topology.allowed.last().expect("a CPU");
    applier.make(&outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}"), &known)).expect("nothing to make");
    let errors = applier.place(&[ended]);
    assert_eq!(errors.iter().map(|error| error.is_passing()).collect::<Vec<_>>(), [true]);
}

#[test]
fn who_has_the_number_of_one_that_ended_is_not_touched() {
    let _alone = alone();
    let Some((known, cpus)) = exclusive_can_be() else { return };
    if lacks_numbers() {
        return;
    }
    let on = |cpu| format!("{RESERVED}\npin = {{ vcpu = \"{cpu}\" }}\naffinity = {{ vhost = \"free\" }}");
    let vcpu = vcpu(false);
    let thread = vcpu.thread.clone();
    let mut applier = applier();
    applier.make(&outlined(&on(cpus[1]), &known)).expect("a cpuset");
    place(&mut applier, &[&vcpu]);
    drop(vcpu);
    let other = again(thread.task.tid, || {
        let mut command = Command::new("chrt");
        let child = command.args(["--rr", "3", "cat"]).stdin(Stdio::piped()).spawn().expect("chrt");
        (child.id().cast_signed(), Ended(child))
    });
    let held = || attributes(thread.task.tid).map(|held| (held.policy, held.priority)).expect("it is there");
    let end = Instant::now() + HANGS;
    while held() != (2, 3) {
        assert!(Instant::now() < end, "chrt does nothing");
    }
    // Where the ended thread would have been made an ordinary one.
    applier.make(&outlined(&on(cpus[0]), &known)).expect("another cpuset");
    assert_eq!(held(), (2, 3), "SCHED_RR");
    let errors = applier.place(std::slice::from_ref(&thread));
    assert!(errors.iter().all(ApplyError::is_passing) && errors.len() == 1, "{errors:?}");
    assert_eq!(held(), (2, 3), "SCHED_RR");
    applier.let_go();
    assert!(applier.undo_all().is_empty());
    assert_eq!(held(), (2, 3), "SCHED_RR");
    drop(other);
}

#[test]
fn another_thread_with_a_number_that_was_placed_is_placed() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    if lacks(&known, &["two CPUs"]) || lacks_numbers() {
        return;
    }
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let mut applier = applier();
    applier.make(&outlined(&format!("pin = {{ vcpu = \"{cpu}\" }}"), &known)).expect("nothing to make");
    let first = vcpu(false);
    place(&mut applier, &[&first]);
    let task = first.thread.task;
    drop(first);
    // They are told apart by start time, which is counted in ticks.
    let second = loop {
        let second = again(task.tid, || {
            let worker = vcpu(false);
            (worker.tid(), worker)
        });
        if second.thread.task != task {
            break second;
        }
    };
    assert_ne!(second.cpus(), [cpu as usize]);
    place(&mut applier, &[&second]);
    assert_eq!(second.cpus(), [cpu as usize]);
}
