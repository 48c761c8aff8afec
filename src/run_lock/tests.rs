use std::fs;
use std::thread;

use super::RunLock;

#[test]
fn a_name_is_held_once_and_free_after() {
    let base = tempfile::tempdir().expect("a folder");
    let lock = RunLock::take_in(base.path(), ["edge", "core"]).expect("free names");
    let second = RunLock::take_in(base.path(), ["edge"]).expect_err("a held name");
    let expected = format!("a router named 'edge' is already running (pid {})", std::process::id());
    assert_eq!(second.to_string(), expected);
    assert!(["edge", "core"].iter().all(|name| base.path().join(name).join("lock").is_file()));
    drop(lock);
    assert_eq!(fs::read_dir(base.path()).expect("the folder").count(), 0, "nothing is left");
    assert!(RunLock::take_in(base.path(), ["edge"]).is_ok());
}

#[test]
fn all_or_none() {
    let base = tempfile::tempdir().expect("a folder");
    let _core = RunLock::take_in(base.path(), ["core"]).expect("a free name");
    assert!(RunLock::take_in(base.path(), ["edge", "core"]).is_err());
    assert!(RunLock::take_in(base.path(), ["edge"]).is_ok(), "edge was let go of");
}

#[test]
fn one_name_twice_is_refused() {
    let base = tempfile::tempdir().expect("a folder");
    assert!(RunLock::take_in(base.path(), ["edge", "edge"]).is_err());
}

#[test]
fn a_file_that_a_killed_run_left_is_taken_over() {
    let base = tempfile::tempdir().expect("a folder");
    fs::create_dir(base.path().join("edge")).expect("a folder");
    fs::write(base.path().join("edge/lock"), "999999999999\n").expect("a lock");
    let lock = RunLock::take_in(base.path(), ["edge"]).expect("nobody holds it");
    let pid = fs::read_to_string(base.path().join("edge/lock")).expect("a lock");
    assert_eq!(pid, format!("{}\n", std::process::id()));
    drop(lock);
}

#[test]
fn what_a_run_leaves_keeps_its_folder() {
    let base = tempfile::tempdir().expect("a folder");
    let lock = RunLock::take_in(base.path(), ["edge"]).expect("a free name");
    fs::write(base.path().join("edge/links"), "tap0\n").expect("a note");
    drop(lock);
    assert!(base.path().join("edge/links").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let base = tempfile::NamedTempFile::new().expect("a file");
    let error = RunLock::take_in(base.path(), ["edge"]).expect_err("a file is no folder");
    assert!(format!("{error:#}").starts_with("cannot make "), "{error:#}");
}

#[test]
fn never_two_at_once() {
    let base = tempfile::tempdir().expect("a folder");
    let inside = std::sync::atomic::AtomicU32::new(0);
    let once = || {
        for _ in 0..200 {
            let Ok(_lock) = RunLock::take_in(base.path(), ["edge"]) else { continue };
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
    // No names: nothing is made, but the place has to be known.
    if let Err(error) = RunLock::take([]) {
        assert!(error.to_string().contains("set XDG_RUNTIME_DIR"), "{error:#}");
    }
}
