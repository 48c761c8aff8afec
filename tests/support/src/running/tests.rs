use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};

use super::{Running, Signal, run};

const SOON: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn both_outputs_and_the_status_are_kept() {
    let done = run(&mut shell("echo a; echo b >&2; exit 3"), SOON).expect("sh runs");
    assert_eq!((done.status.code(), done.stdout.as_str(), done.stderr.as_str()), (Some(3), "a", "b"));
}

#[test]
fn a_line_is_waited_for_and_a_missing_one_is_not_waited_for_after_the_end() {
    let mut child = Running::start(&mut shell("sleep 0.1; echo ready")).expect("sh runs");
    assert_eq!(child.wait_for_line(SOON, |line| line.contains("rea")).expect("the line comes"), "ready");
    let started = Instant::now();
    let error = child.wait_for_line(SOON * 6, |line| line == "never").expect_err("the line never comes");
    assert!(error.to_string().contains("ready"), "{error}");
    assert!(started.elapsed() < SOON);
}

#[test]
fn a_process_that_does_not_end_is_an_error_and_is_gone_after_the_drop() {
    let mut child = Running::start(&mut shell("exec sleep 100")).expect("sh runs");
    assert!(child.wait(Duration::from_millis(50)).is_err());
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
    test_kill_process(pid).expect("it runs");
    drop(child);
    assert!(test_kill_process(pid).is_err());
}

#[test]
fn a_signal_ends_it() {
    let mut child = Running::start(&mut shell("exec sleep 100")).expect("sh runs");
    child.signal(Signal::INT).expect("it runs");
    let done = child.wait(SOON).expect("it ends");
    assert!(!done.status.success());
    child.signal(Signal::INT).expect("no error after the end");
}
