//! Each class of threads, in a process of its own: allowed operations work, and a forbidden one ends the
//! process with one line before it has any effect.
//!
//! A trial runs this program again, with the trial's name in the environment.

mod allowed;
mod forbidden;

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use sandbox::{Class, confine};

/// Holds `CLASS/TRIAL` in the process of a trial.
const TRIAL: &str = "RINGROAD_SANDBOX_TRIAL";
/// Output of a trial whose forbidden call returned.
const CAME_BACK: &str = "came back";
/// Name of the thread that makes the trial.
const THREAD: &str = "edge/wan-rx";

/// Runs one trial in a process of its own.
fn try_out(class: Class, trial: &str, directory: &std::path::Path) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "trial", "--nocapture", "--test-threads=1"])
        .env(TRIAL, format!("{}/{trial}", class.name()))
        .env("RUST_BACKTRACE", "1")
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Body of a trial's process; not a test by itself.
#[test]
fn trial() {
    let Ok(trial) = env::var(TRIAL) else { return };
    let (class, name) = trial.split_once('/').unwrap();
    let class = Class::ALL.into_iter().find(|known| known.name() == class).unwrap();
    let act: Box<dyn FnOnce() + Send> = match forbidden::named(name) {
        Some(call) => Box::new(move || println!("{CAME_BACK} with {}", call.make())),
        None => allowed::prepare(name),
    };
    let body = move || {
        confine(class).unwrap();
        act();
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(body).unwrap();
    thread.join().unwrap();
}

#[test]
fn what_a_class_may_not_ends_the_process_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    for class in Class::ALL {
        for call in forbidden::all().iter().filter(|call| forbidden::is_forbidden(class, call)) {
            let output = try_out(class, call.name, folder.path());
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{} in class {}: {:?}\n{told}", call.name, class.name(), output.status);
            assert_eq!(output.status.signal(), Some(libc::SIGSYS), "{what}");
            assert!(sandbox::was_forbidden(output.status), "{what}");
            let name = call.name.split('-').next().unwrap();
            let line =
                format!("ringroad: thread {THREAD} (class {}) asked the kernel for {name}(", class.name());
            assert_eq!(told.lines().filter(|told| told.starts_with(&line)).count(), 1, "{what}");
            assert!(!String::from_utf8_lossy(&output.stdout).contains(CAME_BACK), "{what}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "carried out: {what}");
        }
    }
}

#[test]
fn what_a_class_needs_works() {
    let folder = tempfile::tempdir().unwrap();
    for class in Class::ALL {
        for name in allowed::names(class) {
            let output = try_out(class, name, folder.path());
            let (out, told) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{name} in class {}: {:?}\n{told}", class.name(), output.status);
            assert!(out.contains(allowed::DONE), "{name} in class {}: {out}", class.name());
            let panics = told.matches("on purpose").count();
            assert_eq!(panics, allowed::panics_of(name), "{name} in class {}: {told}", class.name());
        }
    }
}

#[test]
fn a_crash_is_told_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for class in Class::ALL {
        for (name, signal) in allowed::CRASHES {
            let output = try_out(class, name, folder.path());
            let told = String::from_utf8_lossy(&output.stderr);
            let what = format!("{name} in class {}: {:?}\n{told}", class.name(), output.status);
            assert_eq!(output.status.signal(), Some(signal), "{what}");
            assert!(!sandbox::was_forbidden(output.status) && !told.contains("asked the kernel"), "{what}");
        }
    }
}

#[test]
fn a_trial_that_is_not_confined_carries_its_calls_out() {
    // Control experiment: the same calls succeed without a filter, so the trials above can fail.
    let folder = tempfile::tempdir().unwrap();
    env::set_current_dir(folder.path()).unwrap();
    let make = |name| forbidden::named(name).unwrap().make();
    assert!(make("openat-create") >= 0 && folder.path().join("made").exists());
    assert!(make("socket") >= 0);
    assert_eq!(make("kill"), 0);
    assert!(make("mmap-exec") > 0);
    assert!(make("pidfd_open") >= 0);
}
