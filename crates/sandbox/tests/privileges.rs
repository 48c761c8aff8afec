//! Giving up privileges, in a process of its own: this program once more, with a word as its argument.
//!
//! There is no test harness: it would run each trial beside a thread of its own, and privileges are given up by a
//! process that has one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use sandbox::give_up_privileges;

/// An unprivileged user.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The value behind a name in `/proc/self/status`.
fn status(name: &str) -> String {
    let all = fs::read_to_string("/proc/self/status").unwrap();
    let line = all.lines().find(|line| line.split(':').next() == Some(name)).unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("alone") => return alone(),
        Some("beside-a-thread") => return beside_a_thread(),
        _ => {}
    }
    // Other arguments are for a harness.
    nothing_is_left_of_what_the_process_was_started_with();
    a_user_without_privileges_can_give_them_up_too();
    other_threads_would_keep_their_privileges();
    println!("test result: ok. 3 passed; 0 failed");
}

fn beside_a_thread() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let other = std::thread::spawn(move || assert!(stopped.recv().is_err()));
    println!("refused: {}", give_up_privileges().unwrap_err());
    drop(stop);
    other.join().unwrap();
}

fn alone() {
    // As a unit's OOMScoreAdjust= does for what it starts, where that may be had (CAP_SYS_RESOURCE).
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "-500") {
        println!("starts as others do: {error}");
    }
    let before = rustix::process::geteuid();
    give_up_privileges().unwrap();
    assert_eq!(rustix::process::geteuid(), before);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&status(set), 16), Ok(0), "{set}");
    }
    assert_eq!(status("NoNewPrivs"), "1");
    let score: i32 = fs::read_to_string("/proc/self/oom_score_adj").unwrap().trim().parse().unwrap();
    assert!(score >= 0, "it outlives others when memory runs out: {score}");
    let limits = fs::read_to_string("/proc/self/limits").unwrap();
    for limit in ["Max core file size", "Max msgqueue size"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert_eq!(line[limit.len()..].split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{line}");
    }
    assert_eq!(rustix::process::dumpable_behavior().unwrap(), rustix::process::DumpableBehavior::NotDumpable);
    if before.is_root() {
        assert_eq!(u64::from_str_radix(&status("CapBnd"), 16), Ok(0));
        let refused = Command::new("/bin/true").uid(NOBODY).status();
        assert_eq!(refused.map_err(|error| error.raw_os_error()).err(), Some(Some(libc::EPERM)));
        // A program that root starts gets all capabilities, elsewhere.
        let child = Command::new("grep").args(["CapEff", "/proc/self/status"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&child.stdout).trim(), "CapEff:\t0000000000000000");
    }
    give_up_privileges().expect("twice is once");
    println!("given up");
}

fn passed(command: &mut Command, word: &str) {
    let output = command.output().unwrap();
    let (out, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(word), "{:?}\n{out}\n{told}", output.status);
}

fn this_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn nothing_is_left_of_what_the_process_was_started_with() {
    passed(Command::new(this_program()).arg("alone"), "given up");
}

fn a_user_without_privileges_can_give_them_up_too() {
    if !is_root() {
        // The test before this one was this one.
        return;
    }
    // The program must be reachable for that user.
    let folder = tempfile::Builder::new().prefix("ringroad-sandbox-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("trial");
    fs::copy(this_program(), &program).unwrap();
    passed(Command::new(program).arg("alone").uid(NOBODY).gid(NOBODY).current_dir("/"), "given up");
}

fn other_threads_would_keep_their_privileges() {
    let refusal = "refused: privileges are given up by a process with one thread; this one has 2";
    passed(Command::new(this_program()).arg("beside-a-thread"), refusal);
}
