use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Limits, SmallDisk};
use crate::{Running, run};

const SOON: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn limits_hold_for_what_is_started() {
    let limits = Limits { descriptors: Some(17), address_space: Some(512 << 20), file: Some(4096) };
    let done = run(limits.hold(&mut shell("ulimit -n; ulimit -v; ulimit -f")), SOON).expect("it runs");
    assert_eq!(done.stdout, "17\n524288\n8");
}

#[test]
fn limits_can_come_later() {
    let mut waiting = Running::start(&mut shell("while [ $(ulimit -n) -ne 5 ]; do sleep 0.01; done; echo 5"))
        .expect("it runs");
    let limits = Limits { descriptors: Some(5), ..Limits::default() };
    limits.impose(waiting.id()).expect("imposed");
    assert_eq!(waiting.wait(SOON).expect("it ends").stdout, "5");
}

#[test]
fn a_small_disk_is_soon_full_and_leaves_nothing() {
    crate::needs!(Root);
    let disk = SmallDisk::mount(64).expect("mounted");
    let path = disk.path().to_owned();
    let full = disk.fill().expect("filled");
    let size = fs::metadata(&full).expect("a file").len();
    assert!((32 << 10..=64 << 10).contains(&size), "{size}");
    assert!(fs::write(path.join("more"), [1; 100]).is_err());
    fs::remove_file(full).expect("removed");
    fs::write(path.join("more"), [1; 100]).expect("there is room again");
    drop(disk);
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    assert!(!path.exists() && !mounts.contains(&*path.to_string_lossy()));
}
