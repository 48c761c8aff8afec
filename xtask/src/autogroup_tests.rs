use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::*;

/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Environment variable of a process that is to switch a setting off: the path of the setting.
const HELD: &str = "RINGROAD_TEST_AUTOGROUP";

fn read(setting: &Path) -> String {
    fs::read_to_string(setting).expect("the setting").trim().to_owned()
}

#[test]
fn autogroups_are_on_again_afterwards_only_if_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let setting = folder.path().join("sched_autogroup_enabled");
    assert!(AutogroupsOff::at(&setting).is_none(), "this kernel has none");

    fs::write(&setting, "1\n").expect("a setting");
    let off = AutogroupsOff::at(&setting).expect("they were on");
    assert_eq!(read(&setting), "0");
    assert!(AutogroupsOff::at(&setting).is_none(), "somebody else switches them back");
    assert_eq!(read(&setting), "0");
    drop(off);
    assert_eq!(read(&setting), "1");
}

/// Another process of this program, in a process group of its own, that has this setting off until its input ends.
fn holder(setting: &Path) -> Child {
    let this_test =
        "autogroup::tests::autogroups_are_on_again_after_a_signal_has_ended_who_switched_them_off";
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", this_test]).env(HELD, setting).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts")
}

fn wait_until(setting: &Path, wanted: &str) {
    let end = Instant::now() + PATIENCE;
    while read(setting) != wanted {
        assert!(Instant::now() < end, "it stays {}", read(setting));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn autogroups_are_on_again_after_a_signal_has_ended_who_switched_them_off() {
    if let Some(setting) = std::env::var_os(HELD) {
        let _off = AutogroupsOff::at(Path::new(&setting)).expect("they are on");
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let setting = folder.path().join("sched_autogroup_enabled");
    for signal in [Signal::TERM, Signal::KILL] {
        fs::write(&setting, "1\n").expect("a setting");
        let mut holder = holder(&setting);
        wait_until(&setting, "0");
        kill_process_group(Pid::from_child(&holder), signal).expect("it is our child");
        let ended = holder.wait().expect("it is our child");
        assert!(!ended.success(), "the signal has ended it, and not the end of its input");
        wait_until(&setting, "1");
    }
}
