//! Ceilings enforced by a real kernel. If this host lets none be made, a test says so and is skipped.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sched::Undo;
use sched::ceiling::{Ceiling, CgroupLimits, Reached, Resource, place};

const MIB: u64 = 1 << 20;

/// Returns true, and prints why, if this host lets us make none.
fn lacks() -> bool {
    let missing = Resource::ALL.into_iter().find_map(|resource| place(resource).err());
    let given = || PathBuf::from("/sys/fs/cgroup/cgroup.controllers").exists();
    let why = missing.or_else(|| given().then(|| "control groups of version 2 are not made".to_owned()));
    why.inspect(|why| println!("SKIPPED: {why}")).is_some()
}

/// Ceilings, and the groups announced before they were made.
fn bounds(memory: u64, tasks: u64) -> (CgroupLimits, Vec<PathBuf>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    let journal = move |undo: &Undo| {
        let Undo::Group { path, .. } = undo else { panic!("{undo:?}") };
        assert!(!path.exists(), "it is told of before it is made");
        hears.lock().expect("no panic").push(path.clone());
    };
    let (bounds, errors) = CgroupLimits::make("test", &Ceiling { memory, tasks }, Instant::now(), journal);
    assert!(errors.is_empty(), "{errors:?}");
    let groups = told.lock().expect("no panic").clone();
    (bounds, groups)
}

/// Shell that waits for a line before it runs the script.
fn shell(script: &str) -> Child {
    let script = format!("read line; {script}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("a shell")
}

/// Lets it run to its end. Returns its status and output.
fn go_on(mut child: Child) -> (ExitStatus, String) {
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
    let said: Vec<String> =
        BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok).collect();
    (child.wait().expect("it ends"), said.join("\n"))
}

/// Script that holds so many MiB in a shell variable.
fn hold(mib: u32) -> String {
    format!("x=$(head -c {mib}M /dev/zero | tr '\\0' x); echo done ${{#x}}")
}

#[test]
fn beyond_its_memory_a_process_is_ended_and_that_is_told_once() {
    if lacks() {
        return;
    }
    let (mut bounds, groups) = bounds(32 * MIB, 64);
    assert_eq!((groups.len(), groups.iter().all(|group| group.is_dir())), (2, true), "{groups:?}");
    let within = shell(&hold(4));
    bounds.enter(within.id()).expect("it enters");
    let (status, said) = go_on(within);
    assert!(status.success() && said.starts_with("done "), "{status} {said}");
    assert_eq!(bounds.reached(), []);
    let beyond = shell(&hold(200));
    bounds.enter(beyond.id()).expect("it enters");
    let (status, said) = go_on(beyond);
    assert_eq!((status.signal(), said.as_str()), (Some(9), ""), "{status}");
    let reached = bounds.reached();
    let [Reached { resource: Resource::Memory, times: 1.., ceiling: Some(ceiling) }] = reached[..] else {
        panic!("{reached:?}");
    };
    assert_eq!(ceiling, 32 * MIB);
    assert_eq!(bounds.reached(), []);
    drop(bounds);
    assert!(!groups.iter().any(|group| group.exists()), "{groups:?}");
}

#[test]
fn what_others_hold_is_not_charged_to_who_comes_after_a_new_beginning() {
    if lacks() {
        return;
    }
    let (mut bounds, groups) = bounds(32 * MIB, 64);
    // Memory that outlives the process that touched it, like that of a peer.
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file in memory");
    let fills = shell(&format!("head -c 28M /dev/zero >{}", file.path().display()));
    bounds.enter(fills.id()).expect("it enters");
    assert!(go_on(fills).0.success());
    let needs_some = || shell(&hold(6));
    let child = needs_some();
    bounds.enter(child.id()).expect("it enters");
    go_on(child);
    assert_eq!(bounds.reached().len(), 1, "there is no room beside that");
    // A living process moves along.
    let child = needs_some();
    bounds.enter(child.id()).expect("it enters");
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    for _ in 0..3 {
        let hears = hears.clone();
        let journal = move |undo: &Undo| {
            let Undo::Group { path, .. } = undo else { panic!("{undo:?}") };
            hears.lock().expect("no panic").push(path.clone());
        };
        bounds.renew(&[child.id()], Instant::now(), journal).expect("renewed");
        let errors = bounds.clear(Instant::now());
        assert!(errors.is_empty(), "{errors:?}");
    }
    let (status, said) = go_on(child);
    assert!(status.success() && said.starts_with("done "), "{status} {said}");
    assert_eq!(bounds.reached(), []);
    let beyond = shell(&hold(200));
    bounds.enter(beyond.id()).expect("it enters");
    assert_eq!(go_on(beyond).0.signal(), Some(9), "the ceiling is as it was");
    let told = told.lock().expect("no panic").clone();
    assert_eq!(
        told.iter().collect::<std::collections::BTreeSet<_>>().len(),
        2,
        "two names in turn: {told:?}"
    );
    assert_eq!(
        told.iter().filter(|group| group.exists()).count(),
        2,
        "the third and the first are one: {told:?}"
    );
    drop(bounds);
    assert!(!groups.iter().chain(&told).any(|group| group.exists()), "{groups:?} {told:?}");
}

#[test]
fn beyond_its_tasks_a_process_starts_none() {
    if lacks() {
        return;
    }
    let (mut bounds, _) = bounds(64 * MIB, 1);
    let child = shell("(:) || :; echo went on");
    bounds.enter(child.id()).expect("it enters");
    go_on(child);
    let reached = bounds.reached();
    let [Reached { resource: Resource::Tasks, times: 1.., ceiling: Some(1) }] = reached[..] else {
        panic!("{reached:?}");
    };
    // One more task of headroom allows one more.
    bounds.set(&Ceiling { memory: 64 * MIB, tasks: 8 }).expect("set");
    let child = shell("(echo within); echo went on");
    bounds.enter(child.id()).expect("it enters");
    let (status, said) = go_on(child);
    assert!(status.success() && said == "within\nwent on", "{status} {said}");
    assert_eq!(bounds.reached(), []);
}

#[test]
fn a_ceiling_is_raised_and_lowered_but_not_below_what_is_held() {
    if lacks() {
        return;
    }
    let (bounds, groups) = bounds(16 * MIB, 8);
    let memory = groups.iter().find(|group| group.join("memory.limit_in_bytes").exists()).expect("a group");
    let held = |file: &str| fs::read_to_string(memory.join(file)).ok().map(|text| text.trim().to_owned());
    for mib in [64, 256, 24, 8] {
        bounds.set(&Ceiling { memory: mib * MIB, tasks: 8 }).expect("set");
        let wanted = Some((mib * MIB).to_string());
        assert_eq!(held("memory.limit_in_bytes"), wanted);
        // Not every kernel accounts swap.
        let with_swap = held("memory.memsw.limit_in_bytes");
        assert!(with_swap.is_none() || with_swap == wanted, "{with_swap:?}");
    }
    bounds.set(&Ceiling { memory: 256 * MIB, tasks: 8 }).expect("set");
    let mut child = shell(&format!("{}; read line", hold(40)));
    bounds.enter(child.id()).expect("it enters");
    let pipe = child.stdin.as_mut().expect("a pipe");
    pipe.write_all(b"\n").expect("it reads");
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("it says so");
    assert!(said.starts_with("done "), "{said}");
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default().lines().count() > 1;
    let lowered = bounds.set(&Ceiling { memory: 8 * MIB, tasks: 9 });
    assert!(swaps || lowered.is_err(), "more than that is held");
    assert!(child.try_wait().expect("it can be asked").is_none(), "nobody is ended for it");
    let tasks = groups.iter().find_map(|group| fs::read_to_string(group.join("pids.max")).ok());
    assert_eq!(tasks.as_deref().map(str::trim), Some("9"), "the other one is set all the same");
    drop(child.stdin.take());
    child.wait().expect("it ends");
    bounds.set(&Ceiling { memory: 8 * MIB, tasks: 8 }).expect("now it is");
}

#[test]
fn a_group_that_is_in_use_is_not_waited_for() {
    if lacks() {
        return;
    }
    let (mut bounds, groups) = bounds(16 * MIB, 8);
    let memory = groups.iter().find(|group| group.join("memory.limit_in_bytes").exists()).expect("a group");
    let inside = memory.join("inside");
    fs::create_dir(&inside).expect("a group in it");
    let mut now = Instant::now();
    bounds.renew(&[], now, |_| {}).expect("renewed");
    for _ in 0..3 {
        now += Duration::from_secs(1);
        assert!(bounds.clear(now).is_empty() && memory.exists());
    }
    fs::remove_dir(&inside).expect("it was there");
    assert!(bounds.clear(now).is_empty());
    assert!(!memory.exists());
}
