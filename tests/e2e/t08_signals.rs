//! Objective: SIGINT and SIGTERM end a run in good order; SIGKILL at any moment, even during the start, leaves nothing
//! behind, and the next start with the same names works at once.

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use support::{RandomTimes, Running, Signal, Traces, alone};

/// Timeout of a start or an end, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for leftovers to disappear: the kernel removes links and namespaces some time after the process has ended.
const GONE: Duration = Duration::from_secs(60);
/// File of these tests: its TAPs are created in the namespace of the caller, where a leftover would be seen.
const FILE: &str = "[switch.lan]\n\
    [[router]]\nname = \"t08-a\"\nvhost = \"split\"\n\
    [[router.nic]]\nname = \"out\"\nattach = \"tap:t08-a\"\naddress = \"192.0.2.1/24\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"203.0.113.1/24\"\n\
    [[router]]\nname = \"t08-b\"\nvcpus = 2\n\
    [[router.nic]]\nname = \"out\"\nattach = \"tap:t08-b\"\naddress = \"198.51.100.1/24\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"203.0.113.2/24\"\n";

fn run(folder: &Path) -> Running {
    fs::write(folder.join("file.toml"), FILE).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringroad"));
    Running::start(command.current_dir(folder).args(["run", "file.toml", "--json"])).expect("it starts")
}

/// Starts the program behind `ringroad demo` directly: in a source tree the command would call cargo first, and the
/// demo itself is to be killed.
fn demo() -> Running {
    let program = concat!(env!("CARGO_BIN_EXE_ringroad"), "-lab");
    Running::start(Command::new(program).arg("demo")).expect("it starts")
}

/// Waits for the first line of counters: then everything is up.
fn is_up(run: &mut Running) {
    run.wait_for_line(PATIENCE, |line| line.starts_with('{')).expect("it comes up");
}

/// Returns true for traces that a killed demo may leave for the next one to clean up: its lock file, which is not
/// locked. (A run has a cleaner process instead.)
fn stale(trace: &str) -> bool {
    trace.starts_with("run /run/ringroad/")
}

fn left(before: &Traces) -> Vec<String> {
    let all = Traces::left(before, Duration::ZERO);
    if all.iter().all(|trace| stale(trace)) {
        return vec![];
    }
    Traces::left(before, GONE).into_iter().filter(|trace| !stale(trace)).collect()
}

#[test]
fn asked_to_end() {
    support::needs!(Root, Kvm, Tun);
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let before = Traces::now();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut run = run(folder.path());
        is_up(&mut run);
        run.signal(signal).expect("signalled");
        let done = run.wait(PATIENCE).expect("it ends");
        assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
        assert_eq!(done.stderr, "");
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
    }
}

fn kill(run: &mut Running, moment: Duration) {
    assert!(!run.ended().expect("it can be asked"), "it had ended before {moment:?}");
    run.signal(Signal::KILL).expect("killed");
    assert_eq!(run.wait(PATIENCE).expect("it ends").status.code(), None);
}

mod all {
    use super::*;

    #[test]
    fn asked_to_end_at_any_moment_of_the_start() {
        support::needs!(Root, Kvm, Tun);
        let mut moments = RandomTimes::new();
        let _turn = alone();
        let folder = tempfile::tempdir().expect("a folder");
        let before = Traces::now();
        for moment in moments.early(12, Duration::from_millis(60)) {
            let mut run = run(folder.path());
            thread::sleep(moment);
            run.signal(Signal::TERM).expect("signalled");
            let done = run.wait(PATIENCE).expect("it ends");
            // Before it handles signals it is killed by them, but has created nothing yet.
            assert!(done.status.success() || done.status.code().is_none(), "{moment:?}: {}", done.stderr);
            assert_eq!(Traces::left(&before, GONE), [""; 0], "{moment:?}");
        }
    }
}

mod long {
    use super::*;

    #[test]
    fn killed_at_any_moment() {
        support::needs!(Root, Kvm, Tun);
        let mut moments = RandomTimes::new();
        let _turn = alone();
        let folder = tempfile::tempdir().expect("a folder");
        let before = Traces::now();
        for moment in
            [moments.early(16, Duration::from_millis(60)), moments.early(8, Duration::from_millis(3000))]
                .concat()
        {
            let mut run = run(folder.path());
            thread::sleep(moment);
            kill(&mut run, moment);
            assert_eq!(Traces::left(&before, GONE), [""; 0], "killed after {moment:?}");
        }
        // Use the same names at once, without a pause.
        for moment in moments.early(5, Duration::from_millis(40)) {
            let mut killed = run(folder.path());
            thread::sleep(moment);
            kill(&mut killed, moment);
            let mut next = run(folder.path());
            is_up(&mut next);
            next.signal(Signal::TERM).expect("signalled");
            let done = next.wait(PATIENCE).expect("it ends");
            assert!(done.status.success() && done.stderr.is_empty(), "{moment:?}: {}", done.stderr);
        }
        assert_eq!(Traces::left(&before, GONE), [""; 0]);
    }

    #[test]
    fn the_demo_killed_at_any_moment() {
        support::needs!(Root, Kvm, Tun);
        let mut moments = RandomTimes::new();
        let _turn = alone();
        let before = Traces::now();
        for moment in
            [moments.early(14, Duration::from_millis(60)), moments.early(7, Duration::from_millis(3000))]
                .concat()
        {
            let mut run = demo();
            thread::sleep(moment);
            kill(&mut run, moment);
            assert_eq!(left(&before), [""; 0], "killed after {moment:?}");
        }
        let mut last = demo();
        last.wait_for_line(PATIENCE, |line| line.contains("ping 4")).expect("it works at once");
        last.signal(Signal::INT).expect("signalled");
        last.wait(PATIENCE).expect("it ends");
        assert_eq!(Traces::left(&before, GONE), [""; 0], "the next start has cleaned up");
    }
}
