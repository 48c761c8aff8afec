use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::{Process, all_sleep, children_of, descendants_of, threads_of};
use crate::Running;

#[test]
fn threads_have_names() {
    let named = thread::Builder::new().name("edge/wan-rx".to_owned());
    let thread = named.spawn(|| thread::park_timeout(Duration::from_secs(60))).expect("a thread");
    while !threads_of(std::process::id()).expect("threads").values().any(|name| name == "edge/wan-rx") {
        thread::yield_now();
    }
    thread.thread().unpark();
    thread.join().expect("it ends");
    assert!(threads_of(u32::MAX).is_err());
}

#[test]
fn a_thread_that_runs_does_not_sleep() {
    let shell = |script: &str| Running::start(Command::new("sh").args(["-c", script])).expect("sh runs");
    let sleeps = shell("exec sleep 50");
    let mut spins = shell("echo up; while :; do :; done");
    spins.wait_for_line(Duration::from_secs(60), |line| line == "up").expect("it runs");
    while !all_sleep([sleeps.id()]) {
        thread::yield_now();
    }
    assert!(!all_sleep([sleeps.id(), spins.id()]));
}

#[test]
fn children_and_their_children_are_seen() {
    let mut command = Command::new("sh");
    let mut shell = Running::start(command.args(["-c", "sleep 50 & echo up; wait"])).expect("sh runs");
    shell.wait_for_line(Duration::from_secs(60), |line| line == "up").expect("it runs");
    let words = |process: &Process| process.words.join(" ");
    assert!(children_of(std::process::id()).iter().any(|process| process.id == shell.id()));
    let sleeps = || children_of(shell.id()).iter().any(|process| words(process).starts_with("sleep 50"));
    while !sleeps() {
        thread::yield_now();
    }
    let all = descendants_of(std::process::id());
    let place = |what: &str| all.iter().position(|process| words(process).starts_with(what));
    assert!(place("sh -c") < place("sleep 50"), "{all:?}");
    let sleep = children_of(shell.id()).remove(0);
    assert!(sleep.program().is_absolute() && sleep.descriptors().expect("open") >= 3);
    let memory = sleep.memory().expect("memory");
    assert!(memory.share > 0 && memory.share <= memory.resident, "{memory:?}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(sleep.id.cast_signed()).expect("an id"),
        crate::Signal::KILL,
    )
    .expect("it is ours");
    shell.wait(Duration::from_secs(60)).expect("it ends");
}

#[test]
fn what_a_process_has_in_its_memory_is_found_and_nothing_else() {
    let mut child =
        Command::new("cat").env("WORDS", "qvz-in-the-memory").stdin(Stdio::piped()).spawn().expect("cat");
    let words = ["qvz-in-the-memory", "qvz-nowhere-at-all"].map(|word| (word, word.as_bytes().to_vec()));
    // Immediately after `exec` it has no command line yet.
    let process = loop {
        if let Some(process) = Process::look(child.id()) {
            break process;
        }
        std::thread::yield_now();
    };
    let found = process.holds(&words).expect("it can be read");
    child.kill().expect("killed");
    child.wait().expect("it ends");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["qvz-in-the-memory"]);
}
