use std::process::Command;
use std::time::Duration;

use super::{Injected, inject_syscall};
use crate::{Running, Signal, process::threads_of};

const SOON: Duration = Duration::from_secs(60);
const NOTHING: [u64; 6] = [0; 6];

fn start(words: &[&str]) -> Running {
    let mut command = Command::new("busybox");
    let running = Running::start(command.args(words)).expect("it starts");
    // Until `exec` is done the thread has this program's name; then it gets the new program's, and finally the
    // vDSO.
    let is_named = || threads_of(running.id()).expect("it runs").values().any(|name| name == "busybox");
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", running.id())).expect("it runs");
    while !(is_named() && maps().contains("[vdso]")) {
        std::thread::sleep(Duration::from_millis(1));
    }
    running
}

#[test]
fn a_sleeping_process_makes_a_call_and_sleeps_on() {
    crate::needs!(Program("busybox"));
    // Long enough that it does not end before it is stopped, even if this thread gets no CPU time for seconds.
    let mut sleeper = start(&["sleep", "6"]);
    for _ in 0..3 {
        let done = inject_syscall(sleeper.id(), "busybox", libc::SYS_getpid, NOTHING).expect("injected");
        assert_eq!(done, Injected::Returned(i64::from(sleeper.id())));
    }
    // It has slept to the end, unaffected.
    assert!(sleeper.wait(SOON).expect("it ends").status.success());
}

#[test]
fn a_computing_process_makes_a_call_and_computes_on() {
    crate::needs!(Program("busybox"));
    // It runs until it is told to end: how far it counts depends on the host.
    let script = "stop=0; trap stop=1 TERM; i=0; j=0; echo up; \
                  while [ $stop = 0 ]; do i=$((i+1)); j=$((j+3)); done; [ $j = $((i*3)) ] && echo right";
    let mut counter = start(&["sh", "-c", script]);
    counter.wait_for_line(SOON, |line| line == "up").expect("it begins");
    for _ in 0..20 {
        let done = inject_syscall(counter.id(), "busybox", libc::SYS_close, [99, 0, 0, 0, 0, 0]);
        assert_eq!(done.expect("injected"), Injected::Returned(-i64::from(libc::EBADF)));
    }
    counter.signal(Signal::TERM).expect("it runs");
    assert_eq!(counter.wait(SOON).expect("it ends").stdout, "up\nright");
}

#[test]
fn a_call_that_kills_is_told() {
    crate::needs!(Program("busybox"));
    let mut sleeper = start(&["sleep", "100"]);
    let pid = u64::from(sleeper.id());
    let sys = libc::SIGSYS.unsigned_abs().into();
    let done = inject_syscall(sleeper.id(), "busybox", libc::SYS_tkill, [pid, sys, 0, 0, 0, 0]);
    assert_eq!(done.expect("injected"), Injected::Signalled(libc::SIGSYS));
    assert!(!sleeper.wait(SOON).expect("it ends").status.success());

    let mut sleeper = start(&["sleep", "100"]);
    let pid = u64::from(sleeper.id());
    let done = inject_syscall(sleeper.id(), "busybox", libc::SYS_kill, [pid, 9, 0, 0, 0, 0]);
    assert_eq!(done.expect("injected"), Injected::Killed(libc::SIGKILL));
    assert!(!sleeper.wait(SOON).expect("it ends").status.success());
}

#[test]
fn a_thread_that_is_not_there_is_an_error() {
    let error = inject_syscall(std::process::id(), "nobody", libc::SYS_getpid, NOTHING).expect_err("no such");
    assert!(error.to_string().starts_with("0 threads named nobody"), "{error}");
}
