use std::fs;
use std::path::Path;
use std::thread;

use rustix::fs::{FlockOperation, flock};

use super::RunLock;
use super::cleaner::CleanupItem;
use super::file::{LockFile, clean_up, clean_up_all, is_held, is_taken_over, take_left};

#[test]
fn a_name_is_held_once_and_free_after() {
    let base = tempfile::tempdir().expect("a folder");
    let lock = RunLock::unguarded(base.path()).with(["edge", "core"]).expect("free names");
    let second = RunLock::unguarded(base.path()).with(["edge"]).expect_err("a held name");
    let expected = format!("a router named 'edge' is already running (pid {})", std::process::id());
    assert_eq!(second.to_string(), expected);
    assert!(["edge", "core"].iter().all(|name| base.path().join("routers").join(name).is_file()));
    drop(lock);
    assert_eq!(fs::read_dir(base.path()).expect("the folder").count(), 0, "nothing is left");
    assert!(RunLock::unguarded(base.path()).with(["edge"]).is_ok());
}

#[test]
fn each_run_has_a_user_that_no_other_one_has() {
    let base = tempfile::tempdir().expect("a folder");
    let take = || {
        let mut lock = RunLock::unguarded(base.path());
        let user = lock.take_user().expect("a user");
        (lock, user)
    };
    let ((one, first), (other, second)) = (take(), take());
    assert_ne!(first, second);
    assert_eq!(one.descriptors().expect("descriptors").len(), 1, "its data plane holds it as well");
    drop(one);
    assert_eq!(take().1, first, "free again");
    drop(other);
    assert_eq!(fs::read_dir(base.path()).expect("the folder").count(), 0, "nothing is left");
}

#[test]
fn all_or_none() {
    let base = tempfile::tempdir().expect("a folder");
    let _core = RunLock::unguarded(base.path()).with(["core"]).expect("a free name");
    assert!(RunLock::unguarded(base.path()).with(["edge", "core"]).is_err());
    assert!(RunLock::unguarded(base.path()).with(["edge"]).is_ok(), "edge was let go of");
}

#[test]
fn one_name_twice_is_refused() {
    let base = tempfile::tempdir().expect("a folder");
    assert!(RunLock::unguarded(base.path()).with(["edge", "edge"]).is_err());
}

#[test]
fn a_file_that_a_killed_run_left_is_taken_over() {
    let base = tempfile::tempdir().expect("a folder");
    fs::create_dir(base.path().join("routers")).expect("a folder");
    fs::write(base.path().join("routers/edge"), "999999999999\n").expect("a lock");
    let lock = RunLock::unguarded(base.path()).with(["edge"]).expect("nobody holds it");
    let pid = fs::read_to_string(base.path().join("routers/edge")).expect("a lock");
    assert_eq!(pid, format!("{}\n", std::process::id()));
    drop(lock);
}

#[test]
fn what_another_run_left_keeps_its_folder() {
    let base = tempfile::tempdir().expect("a folder");
    let mut lock = RunLock::unguarded(base.path()).with([]).expect("nothing to take");
    lock.name_run("lab", false).expect("a free name");
    let folder = lock.run().expect("it has a name").1;
    fs::write(folder.join("note"), "keep\n").expect("a note");
    drop(lock);
    assert!(folder.join("note").exists() && !folder.join("lock").exists());
}

#[test]
fn a_run_has_a_name_of_its_own() {
    let base = tempfile::tempdir().expect("a folder");
    let named = |changed| {
        let mut lock = RunLock::unguarded(base.path()).with([]).expect("nothing to take");
        lock.name_run("lab", changed).map(|()| lock)
    };
    let first = named(false).expect("free");
    let refused = named(false).expect_err("it is taken");
    let expected = format!("a run named 'lab' is already there (pid {})", std::process::id());
    assert_eq!(refused.to_string(), expected);
    let second = named(true).expect("it may be changed");
    let third = named(true).expect("it may be changed");
    assert_eq!(
        [&first, &second, &third].map(|lock| lock.run().expect("a name").0),
        ["lab", "lab-2", "lab-3"]
    );
    assert_eq!(second.run().expect("a name").1, base.path().join("runs/lab-2"));
    drop((first, second, third));
    assert_eq!(fs::read_dir(base.path()).expect("the folder").count(), 0, "nothing is left");
}

#[test]
fn routers_come_and_go() {
    let base = tempfile::tempdir().expect("a folder");
    let mut lock = RunLock::unguarded(base.path()).with(["edge", "core"]).expect("free names");
    lock.add("west").expect("free");
    assert!(lock.add("west").is_err(), "held already");
    lock.keep(|name| name == "west");
    assert!(lock.has("west") && !lock.has("edge"));
    assert!(RunLock::unguarded(base.path()).with(["edge", "core"]).is_ok());
    assert!(RunLock::unguarded(base.path()).with(["west"]).is_err());
}

#[test]
fn claimed_names_are_released_unless_a_run_adopts_them() {
    let base = tempfile::tempdir().expect("a folder");
    let mut lock = RunLock::unguarded(base.path()).with(["edge"]).expect("a free name");
    let is_free = |name| RunLock::unguarded(base.path()).with([name]).is_ok();
    let claim = lock.claim(["edge", "west"].into_iter()).take().expect("one is held, the other one free");
    assert!(!is_free("west"));
    drop(claim);
    assert!(is_free("west"));
    let other = RunLock::unguarded(base.path()).with(["core"]).expect("a free name");
    assert!(lock.claim(["west", "core"].into_iter()).take().is_err());
    assert!(is_free("west"), "all or none");
    drop(other);
    let claim = lock.claim(["west", "core"].into_iter()).take().expect("free names");
    lock.adopt(claim);
    assert!(lock.has("west") && lock.has("core") && !is_free("west"));
}

/// Lock of a dead process that remains of its run still hold.
fn left_over(path: &Path) -> fs::File {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, "999999999\n").expect("a dead process");
    let rest = fs::File::open(path).expect("opened");
    flock(&rest, FlockOperation::LockExclusive).expect("locked");
    rest
}

#[test]
fn the_rest_of_a_killed_run_is_waited_for() {
    let base = tempfile::tempdir().expect("a folder");
    let path = base.path().join("routers/edge");
    let (mut rest, mut waits) = (Some(left_over(&path)), 0);
    let mut until_the_third = || {
        waits += 1;
        rest.take_if(|_| waits == 3);
        true
    };
    let lock = LockFile::take(&path, "held", &mut until_the_third).expect("free in the end");
    drop(lock);
    assert_eq!(waits, 3);
}

#[test]
fn who_waits_for_the_rest_of_a_killed_run_gives_up() {
    let base = tempfile::tempdir().expect("a folder");
    let path = base.path().join("routers/edge");
    let _rest = left_over(&path);
    let error = LockFile::take(&path, "edge is running", &mut || false).expect_err("it is held");
    assert_eq!(error.to_string(), "edge is running (pid 999999999)");
    assert!(!clean_up(&path, 999_999_999, &[]));
    assert!(path.exists(), "somebody still has it");
}

#[test]
fn a_cleaner_takes_what_the_dead_process_had_and_who_wants_it_waits() {
    let base = tempfile::tempdir().expect("a folder");
    let path = base.path().join("functions/0000:01:10.0");
    let take_at_once = |dead: u32| take_left(&path, dead, &mut || false);
    assert!(take_at_once(999_999_999).is_none(), "there is no lock");
    drop(left_over(&path));
    assert!(take_at_once(17).is_none(), "it is that of another process");
    let (mut rest, mut waits) = (Some(left_over(&path)), 0);
    assert!(take_at_once(999_999_999).is_none(), "it is held");
    assert!(take_left(&path, 17, &mut || panic!("another process has it")).is_none());
    // The kernel has not closed all descriptors of the dead process yet.
    let mut until_the_second = || {
        waits += 1;
        rest.take_if(|_| waits == 2);
        true
    };
    let mut left = take_left(&path, 999_999_999, &mut until_the_second);
    assert!(left.is_some());
    assert_eq!(std::mem::take(&mut waits), 2);
    let mut until_the_third = || {
        waits += 1;
        left.take_if(|_| waits == 3);
        true
    };
    let lock = LockFile::take(&path, "held", &mut until_the_third).expect("free in the end");
    assert_eq!(waits, 3);
    assert!(take_at_once(999_999_999).is_none(), "another run has it");
    drop(lock);
}

#[test]
fn a_lock_is_held_by_who_has_it_and_not_by_a_number() {
    let base = tempfile::tempdir().expect("a folder");
    let path = base.path().join("functions/0000:01:10.0");
    assert!(!is_held(&path), "there is no lock");
    let lock = LockFile::take(&path, "held", &mut || false).expect("free");
    assert!(is_held(&path));
    drop(lock);
    assert!(!is_held(&path));
    drop(left_over(&path));
    fs::write(&path, format!("{}\n", std::process::id())).expect("the number of a living process");
    assert!(!is_held(&path), "nobody has locked it");
}

#[test]
fn names_that_no_run_has_are_held_one_by_one() {
    let base = tempfile::tempdir().expect("a folder");
    let edge = RunLock::unguarded(base.path()).with(["edge"]).expect("a free name");
    let mut done = Vec::new();
    RunLock::unguarded(base.path()).each_free(["edge", "core", "west"].into_iter(), |name| {
        assert!(RunLock::unguarded(base.path()).with([name]).is_err(), "it is held meanwhile");
        done.push(name);
    });
    assert_eq!(done, ["core", "west"]);
    drop(edge);
    assert_eq!(fs::read_dir(base.path()).expect("the folder").count(), 0, "nothing is left");
}

#[test]
fn what_a_killed_run_left_is_removed_unless_it_was_taken_over() {
    let base = tempfile::tempdir().expect("a folder");
    let folder = base.path().join("runs/lab");
    let (lock, socket) = (folder.join("lock"), folder.join("control"));
    let leave = || {
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(&lock, "999999999\n").expect("a lock");
        fs::write(&socket, "").expect("a socket");
    };
    leave();
    assert!(clean_up(&lock, 999_999_999, &[CleanupItem::File(socket.clone())]));
    assert!(!folder.exists());
    leave();
    assert!(clean_up(&lock, 17, &[CleanupItem::File(socket.clone())]));
    assert!(lock.exists() && socket.exists(), "it belongs to somebody else");
    assert!(clean_up(&base.path().join("nothing"), 17, &[]));
}

#[test]
fn a_process_that_never_ends_keeps_only_what_is_its_own() {
    let base = tempfile::tempdir().expect("a folder");
    let [stuck, free] = ["routers/a", "routers/b"].map(|name| base.path().join(name));
    let _rest = left_over(&stuck);
    drop(left_over(&free));
    let mut rounds = 0;
    let locks = Vec::from([&stuck, &free].map(|path| (path.clone(), Vec::new())));
    clean_up_all(locks, 999_999_999, &mut || {
        assert!(!free.exists(), "it does not wait for the other one");
        rounds += 1;
        rounds < 3
    });
    assert!(stuck.exists() && rounds == 3);
}

#[test]
fn a_lock_is_taken_over_when_another_process_has_written_its_number() {
    let base = tempfile::tempdir().expect("a folder");
    let lock = base.path().join("lock");
    assert!(!is_taken_over(&lock, 17), "it is gone");
    for (text, is_taken) in [("", false), ("17\n", false), ("18\n", true)] {
        fs::write(&lock, text).expect("a lock");
        assert_eq!(is_taken_over(&lock, 17), is_taken, "{text:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let base = tempfile::NamedTempFile::new().expect("a file");
    let error = RunLock::unguarded(base.path()).with(["edge"]).expect_err("a file is no folder");
    assert!(format!("{error:#}").starts_with("cannot make "), "{error:#}");
}

#[test]
fn never_two_at_once() {
    let base = tempfile::tempdir().expect("a folder");
    let inside = std::sync::atomic::AtomicU32::new(0);
    let once = || {
        for _ in 0..200 {
            let Ok(_lock) = RunLock::unguarded(base.path()).with(["edge"]) else { continue };
            assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
            thread::yield_now();
            inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(once);
        }
    });
}

#[test]
fn there_is_a_place_for_locks() {
    // No names, so nothing is made, but the folder has to be known.
    if let Err(error) = RunLock::take([]) {
        assert!(error.to_string().contains("set XDG_RUNTIME_DIR"), "{error:#}");
    }
}
