//! Numbers of functions that are changed and restored.

use std::fs;
use std::path::Path;

use support::address_of_igb;

use super::*;

fn record(base: &Path) -> CountRecord {
    CountRecord { port: address(PORT), folder: base.join("functions") }
}

/// A port that can have eight functions, and has none.
fn undivided() -> Tree {
    let tree = Tree::of_qemus_igb();
    (0..8).rev().for_each(|number| tree.remove_function_of_igb(number));
    tree
}

/// Changes the number of functions to eight. The kernel makes them.
fn divide(tree: &Tree, former: &mut FormerCount) {
    let sysfs = sysfs(tree);
    let port = sysfs.port_of("eth0").expect("a port");
    former.change(&sysfs, &port, &[8]).expect("changed");
    assert_eq!(written(tree), "8");
    (port.count()..8).for_each(|number| tree.add_function_of_igb(number));
}

/// The number that was written last.
fn written(tree: &Tree) -> String {
    let text = read_to_string(tree.at("devices/pci0000:00/0000:01:00.0/sriov_numvfs")).expect("a file");
    text.trim().to_owned()
}

#[test]
fn the_last_run_with_functions_of_a_port_restores_their_number() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    assert!(FormerCount::find(&record).expect("read").is_none());
    let mut first = FormerCount::make(&record).expect("made");
    assert_eq!(first.record(), &record);
    divide(&tree, &mut first);
    let second = FormerCount::find(&record).expect("read").expect("there is one");
    first.restore(&sysfs).expect("left to the other run");
    assert_eq!(written(&tree), "8");
    second.restore(&sysfs).expect("restored");
    assert_eq!(written(&tree), "0");
    assert!(!record.folder.exists());
}

#[test]
fn after_a_sigkill_the_cleaner_or_a_later_run_restores_the_number() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    let mut killed = FormerCount::make(&record).expect("made");
    divide(&tree, &mut killed);
    // The kernel closes its files.
    drop(killed);
    let later = FormerCount::find(&record).expect("read").expect("there is one");
    record.restore(&sysfs).expect("left to the later run");
    assert_eq!(written(&tree), "8");
    drop(later);
    let text = serde_json::to_string(&record).expect("plain words");
    let told: CountRecord = serde_json::from_str(&text).expect("its own text");
    told.restore(&sysfs).expect("restored");
    assert_eq!(written(&tree), "0");
    told.restore(&sysfs).expect("nothing is left");
    assert!(!record.folder.exists());
}

#[test]
fn a_run_counts_the_functions_of_a_port_when_it_has_the_record() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    let mut killed = FormerCount::make(&record).expect("made");
    divide(&tree, &mut killed);
    drop(killed);
    // A run that is about to begin sees eight functions, and then waits for the cleaner, which removes them.
    assert_eq!(sysfs.read(record.port).expect("a port").count(), 8);
    record.restore(&sysfs).expect("restored");
    (0..8).rev().for_each(|number| tree.remove_function_of_igb(number));
    let mut next = FormerCount::make(&record).expect("made");
    next.set(&sysfs, None, &[]).expect("nothing to do");
    assert_eq!(written(&tree), "0");
    next.set(&sysfs, Some(8), &[]).expect("changed");
    assert_eq!(written(&tree), "8");
    let line = next.set(&sysfs, Some(9), &[]).expect_err("too many").to_string();
    assert!(line.contains("at most 8 virtual functions, not 9"), "{line}");
}

#[test]
fn a_number_that_somebody_else_has_changed_stays() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    let mut former = FormerCount::make(&record).expect("made");
    divide(&tree, &mut former);
    (4..8).rev().for_each(|number| tree.remove_function_of_igb(number));
    former.restore(&sysfs).expect("nothing to do");
    assert_eq!(written(&tree), "8", "it was not written again");
    assert!(!record.folder.exists());
    // Four is the former number for a run that begins now.
    let mut former = FormerCount::make(&record).expect("made");
    let port = sysfs.port_of("eth0").expect("a port");
    former.change(&sysfs, &port, &[0, 8]).expect("changed");
    (4..8).for_each(|number| tree.add_function_of_igb(number));
    former.restore(&sysfs).expect("restored");
    assert_eq!(written(&tree), "4");
}

#[test]
fn a_function_in_use_keeps_the_number_and_the_record() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    let mut former = FormerCount::make(&record).expect("made");
    divide(&tree, &mut former);
    tree.move_away(&address_of_igb(3), "eth0v3");
    let line = former.restore(&sysfs).expect_err("it is elsewhere").to_string();
    assert!(line.contains("function 3 is in use") && line.lines().count() == 1, "{line}");
    assert_eq!(written(&tree), "8");
    // The kernel returns it from a namespace that it is destroying.
    thread::scope(|scope| {
        scope.spawn(|| tree.interface(&address_of_igb(3), "eth0v3"));
        let came_home = sysfs.await_interface(address(&address_of_igb(3)), Duration::from_secs(60));
        assert_eq!(came_home.as_deref(), Some("eth0v3"));
    });
    record.restore(&sysfs).expect("restored");
    assert_eq!(written(&tree), "0");
}

#[test]
fn a_refused_number_is_not_restored() {
    let (tree, base) = (undivided(), tempfile::tempdir().expect("a folder"));
    let (sysfs, record) = (sysfs(&tree), record(base.path()));
    let file = tree.at("devices/pci0000:00/0000:01:00.0/sriov_numvfs");
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder cannot be written to");
    let mut former = FormerCount::make(&record).expect("made");
    let port = sysfs.port_of("eth0").expect("a port");
    let line = former.change(&sysfs, &port, &[8]).expect_err("refused").to_string();
    assert!(line.starts_with("setting the number of virtual functions of `eth0` to 8"), "{line}");
    former.restore(&sysfs).expect("there is nothing to restore");
    assert!(!record.folder.exists());
}
