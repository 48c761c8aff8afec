//! Host of a test: what it lacks, what is made on it, and what is left behind.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use sched::{Applier, ApplyError, Host, Outline, SchedFacts, Thread, Version, outline};
use tempfile::TempDir;

use crate::worker::Worker;

/// Runs one test at a time: there is only one root cpuset.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true, and prints why, if a test with these needs cannot run here.
pub(crate) fn lacks(known: &SchedFacts, needs: &[&str]) -> bool {
    let missing = needs.iter().find_map(|need| {
        let lacks = |found: &Result<sched::Hierarchy, String>| found.as_ref().err().cloned();
        match *need {
            "nice" => (known.host.priority < 99).then(|| "no CAP_SYS_NICE".to_owned()),
            "real-time group" => {
                (known.host.group_rt_us == Some(0)).then(|| "no rt_runtime_us here".to_owned())
            }
            "cpu" => lacks(&known.host.cpu),
            "cpuset" => lacks(&known.host.cpuset),
            _ => (known.topology.allowed.len() < 2).then(|| "one CPU".to_owned()),
        }
    });
    let Some(reason) = missing else { return false };
    println!("SKIPPED: {reason}");
    true
}

pub(crate) fn plan(lines: &str) -> config::Plan {
    let text =
        format!("[[router]]\nname = \"edge\"\n{lines}\n[[router.nic]]\nname = \"a\"\nattach = \"null\"\n");
    config::parse(&text, "f.toml").expect("a good file")
}

#[track_caller]
pub(crate) fn outlined(lines: &str, known: &SchedFacts) -> Outline {
    let plan = plan(lines);
    outline(&plan, known).unwrap_or_else(|refused| panic!("{}", sched::refused(&plan, refused)))
}

pub(crate) fn run() -> String {
    format!("t{}", std::process::id())
}

/// Folder of all runs of these tests.
pub(crate) fn shared() -> &'static Path {
    static FOLDER: LazyLock<TempDir> = LazyLock::new(|| {
        let mode = Permissions::from_mode(0o700);
        tempfile::Builder::new().permissions(mode).tempdir().expect("a folder of its own")
    });
    FOLDER.path()
}

pub(crate) fn applier() -> Applier {
    Applier::new(&run(), shared(), |_| {})
}

#[track_caller]
pub(crate) fn place(applier: &mut Applier, workers: &[&Worker]) {
    let errors = lasting(applier, workers, |_| false);
    assert!(errors.is_empty(), "{errors:?}");
}

/// Errors that remain after the passing ones that are not `meant` have passed.
pub(crate) fn lasting(
    applier: &mut Applier,
    workers: &[&Worker],
    meant: impl Fn(&ApplyError) -> bool,
) -> Vec<ApplyError> {
    let threads: Vec<Thread> = workers.iter().map(|worker| worker.thread.clone()).collect();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let errors = applier.place(&threads);
        if errors.iter().all(|error| meant(error) || !error.is_passing()) || Instant::now() > end {
            return errors;
        }
        sleep(Duration::from_millis(5));
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Objects of this test that are still on the host.
pub(crate) fn left_over(host: &Host) -> Vec<PathBuf> {
    let bases = [&host.cpu, &host.cpuset].map(|found| found.as_ref().ok().map(|found| found.base.clone()));
    // In v2 both are the same folder.
    let bases = BTreeSet::from(bases);
    let entries = bases.into_iter().flatten().filter_map(|base| fs::read_dir(base).ok()).flatten().flatten();
    let ours = entries.map(|entry| entry.path()).filter(|path| path.display().to_string().contains(&run()));
    ours.collect()
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).trim().to_owned()
}

pub(crate) fn balance(host: &Host) -> Option<String> {
    let found = host.cpuset.as_ref().ok().filter(|found| found.version == Version::V1)?;
    Some(read(&found.base.join("cpuset.sched_load_balance")))
}

/// Host-wide settings that must be restored: load balancing, and the controllers of groups.
pub(crate) fn settings(host: &Host) -> Vec<Option<String>> {
    let bases = [&host.cpu, &host.cpuset].map(|found| found.as_ref().ok().map(|found| found.base.clone()));
    let controllers = |base: &PathBuf| fs::read_to_string(base.join("cgroup.subtree_control")).ok();
    bases.iter().map(|base| base.as_ref().and_then(controllers)).chain([balance(host)]).collect()
}

/// The host, and CPUs of which some can be made exclusive; `None`, with the reason printed, if that is
/// impossible.
pub(crate) fn exclusive_can_be() -> Option<(SchedFacts, Vec<u32>)> {
    let known = SchedFacts::read(&plan(""));
    let cpus = known.topology.allowed.iter().copied().collect();
    (!lacks(&known, &["nice", "two CPUs", "cpuset"])).then_some((known, cpus))
}

pub(crate) const RESERVED: &str =
    "sched = { vcpu = { policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" } }";

/// Longer than any wait of another process, even on a busy host.
pub(crate) const HANGS: Duration = Duration::from_secs(120);
