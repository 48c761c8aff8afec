use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use super::*;

fn own() -> tempfile::TempDir {
    let mode = Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a folder of its own")
}

#[test]
fn one_at_a_time_has_it_and_who_waits_long_enough_is_told() {
    let folder = own();
    let held = lock(folder.path()).expect("free");
    let mut looks = 0;
    let refused = lock_while(folder.path(), &mut || {
        looks += 1;
        looks < 3
    });
    assert!(refused.expect("it can be opened").is_none());
    assert_eq!(looks, 3);
    let mut shared = SharedLock::new(folder.path());
    assert!(!shared.try_lock().expect("it can be opened"));
    assert_eq!(shared.to_lock(), Some(folder.path()));
    assert!(shared.is_held().to_string().contains("cannot be had: another run of yours holds it; "));
    // The lock is released during a wait.
    let mut held = Some(held);
    let free = lock_while(folder.path(), &mut || held.take().is_some());
    drop(free.expect("it can be opened").expect("it was let go of"));
    assert!(shared.try_lock().expect("it can be opened") && shared.to_lock().is_none());
    assert!(shared.try_lock().expect("it has it already"));
    shared.unlock();
    lock(folder.path()).expect("free");
}

#[test]
fn a_folder_that_others_may_open_is_no_place_for_it() {
    let folder = own();
    for mode in [0o755, 0o750, 0o704, 0o701] {
        fs::set_permissions(folder.path(), Permissions::from_mode(mode)).expect("changed");
        let error = lock(folder.path()).expect_err("not ours alone").to_string();
        assert!(
            error.contains("it must be yours alone, mode 0700")
                && error.contains(&format!("mode {mode:04o}")),
            "{error}"
        );
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).expect("a link");
    for path in [&link, &folder.path().join("nothing"), Path::new("/proc/self/status")] {
        let error = lock(path).expect_err("no folder");
        assert_eq!((error.kind(), error.to_string().lines().count()), (io::ErrorKind::Other, 1), "{error}");
    }
}
