//! Killed processes that the kernel does not tear down: the event loop does not wait for them.

use std::cell::Cell;
use std::time::Duration;

use api::folder::LOCK;
use link::ToSupervisor;

use super::stage::{ONE, Scripted, Stage, body};
use crate::killed_processes::{LONG, MOST};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A run whose data plane has broken the rules and does not die of being killed.
fn stuck() -> (Stage, Scripted) {
    let mut stage = Stage::up(ONE);
    let plane = stage.plane();
    break_the_rules(&mut stage);
    (stage, plane)
}

fn break_the_rules(stage: &mut Stage) {
    let plane = stage.plane();
    plane.holds_on();
    plane.say(&ToSupervisor::Failed { why: "no memory".to_owned() });
    stage.turn().expect("it goes on");
    assert!(plane.was_killed());
}

#[test]
fn the_next_data_plane_does_not_wait_for_one_that_does_not_die_and_that_is_named() {
    let (mut stage, plane) = stuck();
    let since = stage.now;
    stage.after(100 * MS).expect("it goes on");
    assert_eq!(stage.started(), 2);
    stage.comes_up();
    let next = stage.plane();
    for _ in 0..14 {
        next.serve(&Default::default());
        stage.after(SECOND).expect("it goes on");
    }
    assert_eq!(stage.lines("has not ended").len(), 0);
    assert_eq!(stage.supervisor().killed.due(), Some(since + LONG), "the loop wakes up for it");
    stage.now = since + LONG;
    for _ in 0..3 {
        next.serve(&Default::default());
        stage.after(SECOND).expect("it goes on");
    }
    let line = "the data plane (pid 4001) was killed 15 s ago and has not ended";
    assert_eq!(stage.lines(line).len(), 1);
    assert_eq!(stage.supervisor().killed.watched().count(), 1);
    plane.die();
    stage.turn().expect("it goes on");
    assert_eq!(stage.supervisor().killed.watched().count(), 0, "it is looked after no more");
    assert!(!next.was_killed());
}

#[test]
fn they_do_not_grow_without_bound() {
    let (mut stage, first) = stuck();
    for number in 1..MOST {
        while stage.started() == number {
            stage.after(SECOND).expect("it goes on");
        }
        stage.comes_up();
        break_the_rules(&mut stage);
    }
    for _ in 0..30 {
        stage.after(SECOND).expect("it goes on");
    }
    assert_eq!(stage.started(), MOST);
    assert!(!stage.lines("too many of its kind were killed and have not ended").is_empty());
    first.die();
    for _ in 0..11 {
        stage.after(SECOND).expect("it goes on");
    }
    assert_eq!(stage.started(), MOST + 1);
}

/// Ends the run by a clock that advances by a second at each reading.
fn end(stage: &mut Stage) {
    let clock = Cell::new(stage.now);
    stage.finish_by(|| {
        clock.set(clock.get() + SECOND);
        clock.get()
    });
}

#[test]
fn the_end_of_a_run_waits_for_none_for_ever_and_names_what_is_left() {
    let (mut stage, _plane) = stuck();
    end(&mut stage);
    let told = stage.stderr().join("\n");
    let line = "killed and left behind, because the kernel has not ended it: the data plane (pid 4001)";
    assert!(told.contains(line), "{told}");
    assert!(stage.socket.with_file_name(LOCK).exists(), "the cleaner removes it");
}

#[test]
fn one_that_does_not_end_when_the_run_does_is_left_behind() {
    let mut stage = Stage::up(ONE);
    let plane = stage.plane();
    plane.holds_on();
    end(&mut stage);
    assert!(plane.was_killed());
    let told = stage.stderr().join("\n");
    assert!(told.contains("has not ended it: the data plane (pid 4001)"), "{told}");
}

#[test]
fn a_child_that_does_not_die_is_named_and_waited_for_by_nobody() {
    let mut stage = Stage::up(ONE);
    let (child, process) = body();
    child.holds_on();
    stage.supervisor().children.add("edge", process);
    let kill = ToSupervisor::Kill { router: "edge".to_owned(), pid: 5000 };
    stage.plane().say(&kill);
    stage.turn().expect("it goes on");
    assert!(child.was_killed());
    assert_eq!(stage.supervisor().children.processes().count(), 0, "the router has none");
    assert_eq!(stage.supervisor().children.watched().count(), 1);
    for _ in 0..15 {
        stage.plane().serve(&Default::default());
        stage.after(SECOND).expect("it goes on");
    }
    let line = "the process of router edge (pid 5000) was killed 15 s ago and has not ended";
    assert_eq!(stage.lines(line).len(), 1);
    child.die();
    stage.turn().expect("it goes on");
    assert_eq!(stage.supervisor().children.watched().count(), 0);
    assert_eq!(stage.lines("its process 5000").len(), 0);
}
