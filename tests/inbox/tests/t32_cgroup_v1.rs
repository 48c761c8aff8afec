//! Objective: the kernel tests of `sched` pass with control groups of version 1 as well, on the same kernel that runs them with
//! version 2.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);
const ROOT: &str = "/sys/fs/cgroup";
/// Path of the tests of `crates/sched/tests/kernel` in the box.
const TESTS: &str = "/tests/kernel";

/// Version 1 hierarchies with one controller each, unmounted when dropped.
struct Hierarchies {
    mounted: Vec<(&'static str, String)>,
}

impl Hierarchies {
    fn mount(controllers: &[&'static str]) -> Self {
        let mut this = Self { mounted: Vec::new() };
        for controller in controllers {
            let folder = format!("/run/cgroup-v1/{controller}");
            fs::create_dir_all(&folder).expect("a folder");
            // Groups that were removed from version 2 keep the controller for a little longer.
            let done =
                || run("mount", &["-t", "cgroup", "-o", controller, "cgroup", &folder]).status.success();
            wait(controller, done);
            this.mounted.push((controller, folder));
        }
        this
    }
}

impl Drop for Hierarchies {
    fn drop(&mut self) {
        for (controller, folder) in &self.mounted {
            run("umount", &[folder]);
            // Version 2 gets the controller back when nothing of the hierarchy is left.
            let is_back = || {
                let held = fs::read_to_string(Path::new(ROOT).join("cgroup.controllers")).unwrap_or_default();
                held.split_whitespace().any(|held| held == *controller)
            };
            wait(controller, is_back);
        }
    }
}

fn run(program: &str, words: &[&str]) -> support::Finished {
    support::run(Command::new(program).args(words), PATIENCE).expect("it ends")
}

#[track_caller]
fn wait(what: &str, is_there: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        thread::sleep(LOOK);
    }
}

#[test]
fn a_kernel_with_version_1_does_the_same() {
    support::needs!(Root, Program("mount"), Program("umount"));
    if !inbox::inside() {
        println!("SKIPPED: not in the box, whose control groups are nobody else's");
        return;
    }
    fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "-cpu -cpuset").expect("no group has them");
    let hierarchies = Hierarchies::mount(&["cpu", "cpuset"]);
    let done = run(TESTS, &["--show-output", "--test-threads=1"]);
    drop(hierarchies);
    // Prefix the output to keep it apart from this test's own.
    let said: String =
        done.stdout.lines().chain(done.stderr.lines()).map(|line| format!("| {line}\n")).collect();
    assert!(done.status.success(), "{said}");
    // The tests have found the hierarchies.
    assert!(!said.contains("SKIPPED: no cgroup hierarchy"), "{said}");
}
