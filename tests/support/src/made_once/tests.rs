use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::made_once;

#[test]
fn one_makes_it_and_all_find_it_whole() {
    let common = tempfile::tempdir().expect("a folder");
    let (times, start) = (AtomicU32::new(0), Barrier::new(8));
    let make = |folder: &Path| {
        times.fetch_add(1, Ordering::Relaxed);
        fs::write(folder.join("first"), "1").expect("written");
        fs::write(folder.join("second"), "2").expect("written");
    };
    let look = || {
        start.wait();
        let made = made_once(common.path(), "thing", make).expect("made");
        ["first", "second"].map(|name| fs::read_to_string(made.join(name)).expect("a part"))
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
        all.into_iter().for_each(|one| assert_eq!(one.join().expect("no panic"), ["1", "2"]));
    });
    assert_eq!(times.load(Ordering::Relaxed), 1);
    made_once(common.path(), "other", make).expect("made");
    assert_eq!(times.load(Ordering::Relaxed), 2, "what has another name is made");
}

#[test]
fn who_fails_leaves_it_to_the_next_one() {
    let common = tempfile::tempdir().expect("a folder");
    let fails = || {
        made_once(common.path(), "thing", |folder| {
            fs::write(folder.join("first"), "1").expect("written");
            panic!("it fails");
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
    assert!(!common.path().join("thing").exists(), "half of it is nothing");
    let make = |folder: &Path| fs::write(folder.join("second"), "2").expect("written");
    let made = made_once(common.path(), "thing", make).expect("made");
    assert!(made.join("second").exists() && !made.join("first").exists());
}
