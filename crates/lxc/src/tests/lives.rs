//! Life cycle of containers when LXC works, fails or hangs.

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use super::fakes::{Fakes, HANGS, KILLS, REFUSES, STAYS, TELLS};
use super::*;

/// Longer than any operation takes.
const LONG: Duration = Duration::from_secs(60);
/// Time limit for events that do not happen.
const SHORT: Duration = Duration::from_millis(50);

fn patience() -> TimeLimits {
    TimeLimits { start: LONG, asked: SHORT, killed: LONG, init_killed: LONG, monitor_killed: LONG }
}

fn start(fakes: &Fakes, patience: TimeLimits) -> Result<Running, Error> {
    Running::start(&fakes.programs(), &container(vec![]), &fakes.home(), patience)
}

/// Returns true if neither its directory nor a process is left.
fn is_gone(fakes: &Fakes) -> bool {
    let left = OrphanedContainer::new(&name_for("edge"), &fakes.home());
    !left.folder().exists() && left.monitors().is_empty()
}

#[test]
fn one_runs_and_ends_as_asked() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    let mut running = start(&fakes, patience()).expect("it runs");
    assert!(running.pid() > 0 && running.ended().expect("it can be looked at").is_none());
    assert!(running.name() == "ringroad-edge" && !running.has_own_init());
    running.network().expect("every process has one");
    assert!(fakes.home().join("ringroad-edge/config").is_file());
    assert_eq!(running.stop().expect("it ends"), StopOutcome::InTime);
    assert!(is_gone(&fakes));
}

#[test]
fn one_whose_lxc_hangs_on_stop_is_killed() {
    let fakes = Fakes::new(STAYS, TELLS, HANGS);
    let patience = TimeLimits { killed: SHORT, ..patience() };
    assert_eq!(start(&fakes, patience).expect("it runs").stop().expect("it ends"), StopOutcome::Killed);
    assert!(is_gone(&fakes));
}

/// The init exits, but its `lxc-start` does not.
#[test]
fn a_monitor_that_hangs_is_killed() {
    let init = "sleep 1000 >/dev/null 2>&1 & echo $! >\"$2/$4/pid\"; kill -STOP $$";
    let fakes = Fakes::new(init, TELLS, HANGS);
    let patience = TimeLimits { killed: SHORT, init_killed: SHORT, ..patience() };
    assert_eq!(
        start(&fakes, patience).expect("it runs").stop().expect("it ends"),
        StopOutcome::MonitorKilled
    );
    assert!(is_gone(&fakes));
}

#[test]
fn one_that_ends_by_itself_is_noticed() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    let mut running = start(&fakes, patience()).expect("it runs");
    let pid = running.pid().to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().expect("a program").success());
    while running.ended().expect("it can be looked at").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running.stop().expect("it has ended"), StopOutcome::InTime);
    assert!(is_gone(&fakes));
}

#[test]
fn a_refusal_tells_why_and_leaves_nothing() {
    let fakes = Fakes::new(REFUSES, "exit 1", "exit 1");
    let line = start(&fakes, patience()).expect_err("it refuses").to_string();
    assert_eq!(line, "LXC did not start the container `ringroad-edge`: No such device - Failed");
    assert!(is_gone(&fakes));
    let fakes = Fakes::new("exit 3", "exit 1", "exit 1");
    let line = start(&fakes, patience()).expect_err("it refuses").to_string();
    assert!(line.contains("exit status: 3") && line.contains("without an error message"), "{line}");
}

#[test]
fn one_that_does_not_come_up_is_killed() {
    let fakes = Fakes::new(STAYS, "exit 1", "exit 1");
    let late = start(&fakes, TimeLimits { start: SHORT, ..patience() }).expect_err("it never runs");
    assert!(matches!(&late, Error::Late { .. }), "{late}");
    assert!(is_gone(&fakes));
}

#[test]
fn what_cannot_be_read_of_it_ends_it() {
    let fakes = Fakes::new(STAYS, "echo State: PERPLEXED", "exit 1");
    let odd = start(&fakes, patience()).expect_err("nobody can read that");
    assert!(matches!(&odd, Error::Info { .. }), "{odd}");
    assert!(is_gone(&fakes));
}

#[test]
fn one_that_is_dropped_is_gone() {
    let fakes = Fakes::new(STAYS, TELLS, HANGS);
    drop(start(&fakes, patience()).expect("it runs"));
    assert!(is_gone(&fakes));
}

/// The cleaner's view: the process that has started the container does not know of it any more.
#[test]
fn what_is_left_behind_is_ended_and_removed() {
    for (stop, patience_of_it) in [(KILLS, LONG), ("exit 1", SHORT)] {
        let fakes = Fakes::new(STAYS, TELLS, stop);
        let left = OrphanedContainer::new(&name_for("edge"), &fakes.home());
        let mut running = start(&fakes, patience()).expect("it runs");
        left.clean_within(&fakes.programs(), patience_of_it).expect("it goes");
        assert!(is_gone(&fakes), "{stop}");
        while running.ended().expect("it can be looked at").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        left.clean(&fakes.programs()).expect("nothing is there");
    }
}

#[test]
fn what_was_started_later_is_not_killed_with_what_was_there_before() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    let left = OrphanedContainer::new(&name_for("edge"), &fakes.home());
    let before = left.monitors_now();
    let mut running = start(&fakes, patience()).expect("it runs");
    before.kill();
    assert_eq!(left.monitors().len(), 1, "it goes on");
    left.monitors_now().kill();
    while running.ended().expect("it can be looked at").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_another_run_has_taken_over_stays() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    let left = OrphanedContainer::new(&name_for("edge"), &fakes.home());
    let mut running = start(&fakes, patience()).expect("it runs");
    left.clean_unless(&fakes.programs(), || true).expect("nothing is done");
    assert_eq!(left.monitors().len(), 1, "it goes on");
    // Taken over while the old container ends.
    let was_asked = Cell::new(false);
    left.clean_unless(&fakes.programs(), || was_asked.replace(true)).expect("it ends");
    assert!(left.monitors().is_empty() && left.folder().exists());
    left.clean_unless(&fakes.programs(), || false).expect("its files go");
    assert!(is_gone(&fakes));
    while running.ended().expect("it can be looked at").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn lxc_that_is_missing_names_its_package() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    fakes.programs().look().expect("all are there");
    fakes.remove("lxc-stop");
    let line = start(&fakes, patience()).expect_err("one is missing").to_string();
    assert!(line.starts_with("`lxc-stop` is not installed: install LXC (Debian package `lxc`)"), "{line}");
    assert!(fakes.home().read_dir().expect("it is there").next().is_none());
}

#[test]
fn a_start_takes_away_what_stood_there() {
    let fakes = Fakes::new(STAYS, TELLS, KILLS);
    let folder = fakes.home().join("ringroad-edge");
    std::fs::create_dir_all(folder.join("root/usr")).expect("a folder");
    std::fs::write(folder.join("config"), "of another run").expect("a file");
    start(&fakes, patience()).expect("it runs").stop().expect("it ends");
    assert!(is_gone(&fakes));
}
