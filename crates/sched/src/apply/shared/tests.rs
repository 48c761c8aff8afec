use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use config::CpuSet;

use super::*;
use crate::lock::SharedLock;
use crate::outline::ExclusiveCpus;

/// Folder of all runs.
fn own() -> tempfile::TempDir {
    let mode = Permissions::from_mode(0o700);
    tempfile::Builder::new().permissions(mode).tempdir().expect("a folder of its own")
}

fn exclusive() -> Outline {
    let cpus: CpuSet = "0".parse().expect("a CPU");
    Outline { islands: vec![ExclusiveCpus { cpus, reserved: 0.0, most: 1.0 }], ..Outline::default() }
}

#[test]
fn what_another_run_has_is_not_waited_for() {
    let folder = own();
    let mut other = SharedLock::new(folder.path());
    assert!(other.try_lock().expect("ours alone"));
    let mut applier = Applier::new("t", folder.path(), |_| {});
    assert!(!applier.try_lock(&exclusive()).expect("ours alone"));
    assert!(applier.try_lock(&Outline::default()).expect("it needs none"), "nothing is shared");
    let told = applier.locked_out().to_string();
    assert!(told.contains("another run of yours holds it"), "{told}");
    other.unlock();
    assert!(applier.try_lock(&exclusive()).expect("ours alone"));
    assert!(!other.try_lock().expect("ours alone"), "it is kept");
    applier.unlock();
    assert!(other.try_lock().expect("ours alone"));
}

/// An object that is no longer needed stays, with a passing error, until the other run releases the lock.
#[test]
fn what_is_not_needed_goes_when_the_other_run_is_done() {
    let folder = own();
    let mut other = SharedLock::new(folder.path());
    assert!(other.try_lock().expect("ours alone"));
    let mut applier = Applier::new("t", folder.path(), |_| {});
    // A folder like the root cpuset of v1, without anything exclusive.
    let path = folder.path().join("ringroad-t.cpus0");
    let (base, home) = (folder.path().to_owned(), folder.path().to_owned());
    let shared = folder.path().to_owned();
    applier.undos.push(Undo::Island { version: Version::V1, base, path, home, shared });
    let errors = applier.place(&[]);
    assert!(matches!(errors.as_slice(), [error] if error.is_passing()), "{errors:?}");
    assert_eq!(applier.undos().len(), 1);
    other.unlock();
    assert!(applier.place(&[]).is_empty());
    assert!(applier.undos().is_empty());
    assert!(other.try_lock().expect("ours alone"), "it was let go of");
}

/// As with threads that the kernel has not torn down yet.
#[test]
fn what_is_in_use_goes_when_nobody_is_in_it() {
    let folder = own();
    let mut applier = Applier::new("t", folder.path(), |_| {});
    let (path, home) = (folder.path().join("ringroad-t.edge"), folder.path().to_owned());
    std::fs::create_dir_all(path.join("in use")).expect("made");
    applier.undos.push(Undo::Group { version: Version::V1, path: path.clone(), home });
    for _ in 0..2 {
        let errors = applier.place(&[]);
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert!(error.is_passing() && error.to_string().contains("ringroad-t.edge"), "{error}");
        assert!(path.exists());
    }
    std::fs::remove_dir(path.join("in use")).expect("it was there");
    assert!(applier.place(&[]).is_empty());
    assert!(!path.exists());
}

/// An object that is needed again before it could be removed.
#[test]
fn what_is_in_use_and_wanted_again_stays() {
    let folder = own();
    let mut applier = Applier::new("t", folder.path(), |_| {});
    let (path, home) = (folder.path().join("ringroad-t.edge"), folder.path().to_owned());
    std::fs::create_dir_all(path.join("in use")).expect("made");
    let undo = Undo::Group { version: Version::V1, path: path.clone(), home };
    applier.undos.push(undo.clone());
    assert_eq!(applier.place(&[]).len(), 1);
    assert!(applier.undos().is_empty(), "nobody may be put into it as it is");
    applier.record(undo);
    assert_eq!((applier.undos().len(), applier.leaving.len()), (1, 0));
    std::fs::remove_dir(path.join("in use")).expect("it was there");
}
