use std::fs;

use rustix::io::Errno;

use super::claimed::free;
use super::*;

/// Fake group with these files.
fn group(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

#[test]
fn what_a_group_has_counted_is_read_in_both_versions() {
    let v1 = group(&[
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("pids.events", "max 5\n"),
    ]);
    let v2 = group(&[("memory.events", "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n")]);
    let of = |resource, version, group: &tempfile::TempDir| counted(resource, version, group.path());
    assert_eq!(of(Resource::Memory, Version::V1, &v1), Counted { times: 2, own: 0 });
    assert_eq!(of(Resource::Memory, Version::V2, &v2), Counted { times: 3, own: 4 });
    assert_eq!(of(Resource::Tasks, Version::V1, &v1), Counted { times: 5, own: 5 });
    assert_eq!(of(Resource::Tasks, Version::V2, &v2), Counted::default(), "nothing is counted");
}

#[test]
fn what_is_reached_is_told_once_and_whose_ceiling_it_was() {
    let folder = group(&[("memory.max", "4096\n"), ("memory.events", "oom 0\noom_kill 0\n")]);
    let (version, resource) = (Version::V2, Resource::Memory);
    let bound = CgroupLimit {
        resource,
        version,
        group: folder.path().to_owned(),
        own: None,
        seen: Counted::default(),
    };
    let mut bounds = CgroupLimits { held: vec![bound], leaving: Vec::new(), deserted: Vec::new() };
    let mut after = |events: &str| {
        fs::write(folder.path().join("memory.events"), events).expect("written");
        bounds.reached()
    };
    assert_eq!(after("oom 0\noom_kill 0\n"), []);
    assert_eq!(after("oom 1\noom_kill 2\n"), [Reached { resource, times: 2, ceiling: Some(4096) }]);
    assert_eq!(after("oom 1\noom_kill 2\n"), [], "it was told");
    assert_eq!(after("oom 1\noom_kill 3\n"), [Reached { resource, times: 1, ceiling: None }], "the host's");
}

#[test]
fn a_group_that_was_not_full_was_hurt_by_others() {
    let used = |memory: u64, with_swap: u64| {
        group(&[
            ("memory.limit_in_bytes", "8388608\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            ("memory.max_usage_in_bytes", &format!("{memory}\n")),
            ("memory.memsw.max_usage_in_bytes", &format!("{with_swap}\n")),
        ])
    };
    for (memory, with_swap, ceiling) in
        [(8 << 20, 0, Some(8 << 20)), (0, 8_380_000, Some(8 << 20)), (4 << 20, 5 << 20, None)]
    {
        let (folder, resource) = (used(memory, with_swap), Resource::Memory);
        let (group, seen) = (folder.path().to_owned(), Counted::default());
        let mut bound = CgroupLimit { resource, version: Version::V1, group, own: None, seen };
        assert_eq!(bound.reached(), Some(Reached { resource, times: 1, ceiling }));
    }
}

#[test]
fn a_group_of_version_2_has_a_ceiling_if_somebody_has_set_one() {
    let folder = group(&[("memory.max", "max\n"), ("pids.max", "4915\n")]);
    assert_eq!(given(Resource::Memory, folder.path()), None);
    assert_eq!(given(Resource::Tasks, folder.path()), Some(4915));
    assert_eq!(given(Resource::Tasks, &folder.path().join("root")), None, "the root has none");
}

/// As left by runs whose supervisor and cleaner were killed, beside a living one.
#[test]
fn groups_that_nobody_claims_any_more_are_taken_away() {
    let base = tempfile::tempdir().expect("a folder");
    let make = |name: &str| {
        let group = base.path().join(name);
        fs::create_dir(&group).expect("made");
        group
    };
    let (left, lives, used, other) =
        (make("ringroad-a.1-f"), make("ringroad-a.2-f"), make("ringroad-a.3-f"), make("ringroad-b.4-f"));
    fs::create_dir(used.join("something")).expect("it cannot be removed");
    let claimed = claim(&lives).expect("nobody has it");
    assert!(claim(&lives).is_err(), "it is claimed");
    let now = Instant::now();
    let deserted = sweep(base.path(), "ringroad-a.", now);
    let mut bounds = CgroupLimits { held: Vec::new(), leaving: Vec::new(), deserted };
    assert_eq!([&left, &lives, &used, &other].map(|group| group.exists()), [false, true, true, true]);
    // The processes in it were killed, and it can be removed when the kernel has torn them down.
    assert!(claim(&used).is_err(), "it is claimed meanwhile");
    assert!(bounds.clear(now + LEAVING / 2).is_empty() && used.exists());
    fs::remove_dir(used.join("something")).expect("it was there");
    assert!(bounds.clear(now + LEAVING / 2).is_empty() && !used.exists());
    drop(claimed);
    assert!(sweep(base.path(), "ringroad-a.", now).is_empty() && !lives.exists());
}

/// As with a process that does not die, or a run whose claim another process holds.
#[test]
fn a_deserted_group_that_is_in_use_for_long_is_left_alone() {
    let base = tempfile::tempdir().expect("a folder");
    let group = base.path().join("ringroad-a.1-f");
    fs::create_dir_all(group.join("something")).expect("made");
    let now = Instant::now();
    let deserted = sweep(base.path(), "ringroad-a.", now);
    let mut bounds = CgroupLimits { held: Vec::new(), leaving: Vec::new(), deserted };
    assert!(bounds.clear(now + LEAVING).is_empty(), "nobody is told of it");
    assert!(group.exists() && claim(&group).is_ok());
}

/// As with processes that the kernel has not torn down yet.
#[test]
fn what_is_in_use_goes_later_and_is_named_if_it_does_not() {
    let base = tempfile::tempdir().expect("a folder");
    let now = Instant::now();
    let given_up = |name: &str| {
        let (path, home) = (base.path().join(name), base.path().to_owned());
        fs::create_dir_all(path.join("in use")).expect("made");
        let undo = Undo::Group { version: Version::V1, path: path.clone(), home: home.clone() };
        let procs = File::open(&path).expect("it is there");
        (OwnedGroup { undo, _claim: None, procs, name: path, home }, now)
    };
    let mut bounds =
        CgroupLimits { held: Vec::new(), leaving: vec![given_up("a"), given_up("b")], deserted: Vec::new() };
    let (a, b) = (base.path().join("a"), base.path().join("b"));
    assert!(bounds.clear(now).is_empty() && a.exists());
    fs::remove_dir(a.join("in use")).expect("it was there");
    assert!(bounds.clear(now + LEAVING / 2).is_empty());
    assert_eq!((a.exists(), b.exists()), (false, true));
    let errors: Vec<_> = bounds.clear(now + LEAVING).iter().map(ToString::to_string).collect();
    let line = format!("{} is left behind: ", b.display());
    assert!(matches!(errors.as_slice(), [told] if told.starts_with(&line)), "{errors:?}");
    assert!(bounds.clear(now + 2 * LEAVING).is_empty(), "it is told once");
}

#[test]
fn a_name_is_free_that_no_group_has() {
    let base = tempfile::tempdir().expect("a folder");
    let name = base.path().join("a.1-f");
    for next in [name.clone(), numbered(&name, 2), numbered(&name, 3)] {
        assert_eq!(free(&name), next);
        fs::create_dir(next).expect("made");
    }
    fs::remove_dir(numbered(&name, 2)).expect("it was there");
    assert_eq!(free(&name), numbered(&name, 2));
}

/// As with two runs of one name that begin at the same moment: one finds what the other has just made.
#[test]
fn a_group_that_is_lost_before_it_is_claimed_is_made_under_the_next_name() {
    let base = tempfile::tempdir().expect("a folder");
    let name = base.path().join("a.1");
    let (mut told, mut looks) = (Vec::new(), 0);
    let claim_late = |group: &Path| {
        looks += 1;
        match looks {
            1 => Err(Errno::WOULDBLOCK.into()),
            2 => {
                fs::remove_dir(group)?;
                claim(group)
            }
            _ => claim(group),
        }
    };
    let (group, claimed) =
        make_claimed(&name, |group| told.push(group.to_owned()), claim_late).expect("made");
    assert!(group.exists() && claimed.is_some() && claim(&group).is_err(), "it is claimed");
    assert_eq!(told, [name.clone(), numbered(&name, 2), numbered(&name, 2)], "each is told of");
    assert!(!name.exists(), "what was lost is not left behind");
}

#[test]
fn a_group_that_somebody_else_always_holds_is_made_all_the_same() {
    let base = tempfile::tempdir().expect("a folder");
    let name = base.path().join("a.1");
    let held = |_: &Path| Err(Errno::WOULDBLOCK.into());
    let (group, claimed) = make_claimed(&name, |_| {}, held).expect("made");
    assert!(claimed.is_none());
    let there = fs::read_dir(base.path()).expect("a folder").flatten().map(|entry| entry.path());
    assert_eq!(there.collect::<Vec<_>>(), [group]);
}

/// As with a process that may open no more files.
#[test]
fn no_group_is_left_behind_when_one_cannot_be_claimed() {
    let base = tempfile::tempdir().expect("a folder");
    let mut looks = 0;
    let fails = |_: &Path| {
        looks += 1;
        let error = if looks == 1 { Errno::WOULDBLOCK } else { Errno::MFILE };
        Err(error.into())
    };
    let refused = make_claimed(&base.path().join("a.1"), |_| {}, fails).expect_err("it cannot be claimed");
    assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    assert_eq!(looks, 2);
    assert_eq!(fs::read_dir(base.path()).expect("a folder").count(), 0);
}

fn numbered(name: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}.{number}", name.display()))
}
