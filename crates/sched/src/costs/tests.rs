use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;
use crate::guarantee::{Class, Kind, Path as Way_};

fn way() -> CostKey {
    let kind = Kind { class: Class::Vhost, path: Way_::Tap, exits: false, far: false };
    CostKey { kind, device: "kvm shared virtio-net/tap".to_owned(), cpus: 1 }
}

fn window(cycles: u64) -> Observation {
    Observation { cycles: 20_000 * cycles, frames: 20_000, octets: 1_200_000, batches: 1000 }
}

fn machine() -> Machine {
    Machine { cpu: "EPYC".to_owned(), kernel: "6.12".to_owned(), ringroad: "0.1.0".to_owned() }
}

fn day() -> Day {
    "2026-11-22".parse().expect("a day")
}

fn costs(folder: &Path) -> Costs {
    Costs::load(folder.to_owned(), machine(), Instant::now())
}

/// A run that observes packets of this cost, and ends.
fn run(folder: &Path, cycles: u64) -> Costs {
    let mut costs = costs(folder);
    costs.note(&way(), &window(cycles), Idleness::Never, day());
    costs.keep_now();
    costs
}

fn known(folder: &Path) -> Option<f64> {
    Some(costs(folder).memory.model(&way(), 60.0)?.per_frame(60.0, 20.0).cycles.round())
}

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn what_a_run_has_seen_the_next_one_knows() {
    let top = temporary();
    let folder = top.path().join("deep/ringroad");
    assert!(known(&folder).is_none() && !folder.exists(), "who only reads makes nothing");
    let mut silent = costs(&folder);
    silent.keep_now();
    assert!(!folder.exists(), "nothing was seen");
    assert_eq!(run(&folder, 5467).trouble(), None);
    let cost = known(&folder).expect("it is known");
    assert!((cost / 5467.0 - 1.0).abs() < 0.02, "{cost}");
    let file = fs::metadata(folder.join(NAME)).expect("a file");
    assert_eq!(file.permissions().mode() & 0o7777, 0o644);
    let names: Vec<_> =
        fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("one").file_name()).collect();
    assert_eq!(names, [NAME], "no draft is left");
}

#[test]
fn two_runs_write_one_file() {
    let folder = temporary();
    let (mut first, mut second) = (costs(folder.path()), costs(folder.path()));
    let other = CostKey { cpus: 2, ..way() };
    first.note(&way(), &window(5000), Idleness::Never, day());
    second.note(&other, &window(7000), Idleness::Never, day());
    first.keep_now();
    second.keep_now();
    assert!(known(folder.path()).is_some());
    assert!(costs(folder.path()).memory.model(&other, 60.0).is_some());
    // A run that writes again includes what the other one has observed.
    first.note(&way(), &window(5000), Idleness::Never, day());
    first.keep_now();
    assert!(first.memory.model(&other, 60.0).is_some());
}

/// Any user who may open the folder may hold a lock on it.
#[test]
fn nobody_who_holds_a_lock_is_waited_for() {
    let folder = temporary();
    let (_folder, file) = (held(folder.path()), folder.path().join(NAME));
    let mut costs = costs(folder.path());
    costs.note(&way(), &window(5000), Idleness::Never, day());
    costs.keep_if_due(costs.due);
    assert!(known(folder.path()).is_some());
    let _file = held(&file);
    costs.note(&CostKey { cpus: 2, ..way() }, &window(7000), Idleness::Never, day());
    costs.keep_if_due(Instant::now());
    let known = |cpus| self::costs(folder.path()).memory.model(&CostKey { cpus, ..way() }, 60.0).is_some();
    assert!(!known(2), "a minute is not over");
    costs.keep_now();
    assert!(known(1) && known(2));
}

fn held(path: &Path) -> File {
    let file = File::open(path).expect("it is there");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).expect("it is free");
    file
}

#[test]
fn what_another_run_writes_meanwhile_stays() {
    let folder = temporary();
    let path = folder.path().join(NAME);
    fs::write(&path, "before").expect("a file");
    let open = opened(folder.path()).expect("it opens").expect("it is there");
    let there = mark(&open);
    let other = || {
        let draft = folder.path().join("other");
        fs::write(&draft, "another run's").and_then(|()| fs::rename(draft, &path)).expect("replaced");
    };
    let is_there = || {
        other();
        mark(&open) == there
    };
    assert!(!replace(&open, "ours", is_there).expect("it can be written"));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "another run's");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no draft is left");
    let there = mark(&open);
    assert!(replace(&open, "ours", || mark(&open) == there).expect("it can be written"));
    assert_eq!(fs::read_to_string(&path).expect("a file"), "ours");
}

#[test]
fn a_file_that_is_not_as_it_should_be_is_told_of_and_replaced() {
    let folder = temporary();
    let file = folder.path().join(NAME);
    let elsewhere = folder.path().join("elsewhere");
    let fill = |text: &str| fs::write(&file, text).expect("written");
    let cases: [(&str, &dyn Fn()); 7] = [
        ("it is broken", &|| fill("{")),
        ("it is broken: no text", &|| fs::write(&file, [0xff, 0xfe]).expect("written")),
        ("its version is 7", &|| fill("{\"version\": 7}")),
        ("it has more than", &|| fill(&" ".repeat(600_000))),
        ("it is a symbolic link", &|| {
            fs::write(&elsewhere, "precious").expect("written");
            symlink(&elsewhere, &file).expect("a link");
        }),
        ("it is no plain file", &|| {
            let path = file.to_str().expect("a path");
            let done = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
            assert!(done.success());
        }),
        ("others can write it", &|| {
            run(folder.path(), 5000);
            fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("set");
        }),
    ];
    for (why, make) in cases {
        let _ = fs::remove_file(&file);
        make();
        let mut run = costs(folder.path());
        assert!(run.memory.model(&way(), 60.0).is_none(), "{why}");
        let line = run.pending_trouble().unwrap_or_default().to_owned();
        assert!(line.contains(why) && line.contains("costs.json") && !line.contains('\n'), "{line}");
        assert_eq!((run.trouble(), run.trouble()), (Some(line), None), "it is told once");
        run.note(&way(), &window(5000), Idleness::Never, day());
        run.keep_now();
        assert!(run.trouble().is_none() && known(folder.path()).is_some(), "{why}");
    }
    assert_eq!(fs::read_to_string(&elsewhere).expect("a file"), "precious", "where the link went");
}

#[test]
fn what_cannot_be_written_is_told_once_and_nothing_ends() {
    let folder = temporary();
    let taken = folder.path().join("taken");
    fs::write(&taken, "").expect("a file");
    for place in [taken.clone(), taken.join("below")] {
        let mut costs = costs(&place);
        let _ = costs.trouble();
        for told in [true, false] {
            costs.note(&way(), &window(5000), Idleness::Never, day());
            costs.keep_now();
            assert_eq!(costs.trouble().is_some(), told, "{}", place.display());
            assert!(costs.memory.model(&way(), 60.0).is_some(), "it is known all the same");
        }
    }
    let mut nowhere = Costs::nowhere(None, machine(), Instant::now());
    nowhere.note(&way(), &window(5000), Idleness::Never, day());
    nowhere.keep_now();
    assert!(nowhere.trouble().is_none() && nowhere.memory.model(&way(), 60.0).is_some());
}
