//! A data plane dies, does not come up, or does not answer.

use std::time::Duration;

use api::Request;
use link::{ToPlane, ToSupervisor};

use super::questions::ISOLATED;
use super::stage::{ONE, Scripted, Stage};
use crate::reply_deadlines::{BUSY, EXTENSION, QUICK, ROUTER};
use crate::stderr::MOST_LINES;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Kills the data plane. Returns the pause until the next one is started.
fn pause_after_death(stage: &mut Stage) -> Duration {
    stage.plane().die();
    stage.turn().expect("it goes on");
    pause(stage)
}

fn pause(stage: &mut Stage) -> Duration {
    let now = stage.now;
    stage.supervisor().lifecycle.again.expect("another one comes") - now
}

#[test]
fn one_that_dies_is_started_again_after_pauses_that_double() {
    let mut stage = Stage::up(ONE);
    for (number, wanted) in [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000].into_iter().enumerate() {
        let pause = pause_after_death(&mut stage);
        assert_eq!(pause, wanted * MS);
        stage.after(pause - MS).expect("it goes on");
        assert_eq!(stage.started(), number + 1, "it is too early");
        stage.after(MS).expect("it goes on");
        assert_eq!(stage.started(), number + 2);
        assert!(matches!(stage.plane().told(), Some(ToPlane::Start(orders)) if orders.run == "lab"));
        stage.comes_up();
    }
    assert_eq!(stage.lines("was killed by SIGSEGV; it is started again in").len(), 9);
    assert_eq!(stage.lines("a new data plane").len(), 9);
    assert_eq!(stage.supervisor().lifecycle.restarts, 9);
}

#[test]
fn one_that_ran_long_has_its_failures_forgotten() {
    let mut stage = Stage::up(ONE);
    for ran in [1, 59] {
        stage.now += ran * SECOND;
        let pause = pause_after_death(&mut stage);
        stage.after(pause).expect("it goes on");
        stage.comes_up();
    }
    stage.now += 60 * SECOND;
    assert_eq!(pause_after_death(&mut stage), 100 * MS);
}

#[test]
fn one_that_never_comes_up_is_given_up_after_five() {
    let mut stage = Stage::start(ONE);
    for started in 1..5 {
        assert_eq!(stage.started(), started);
        let pause = pause_after_death(&mut stage);
        stage.after(pause).expect("it goes on");
    }
    stage.plane().die();
    let error = stage.turn().expect_err("that is enough");
    assert_eq!(
        error.to_string(),
        "the data plane (pid 4005) was killed by SIGSEGV, for the 5th time, and never came up"
    );
}

#[test]
fn one_that_cannot_follow_its_first_orders_ends_the_run_and_a_later_one_is_tried_again() {
    let why = || ToSupervisor::Failed { why: "router edge: no memory".to_owned() };
    let mut stage = Stage::start(ONE);
    stage.plane().say(&why());
    assert_eq!(stage.turn().expect_err("it is the end").to_string(), "router edge: no memory");
    let mut stage = Stage::up(ONE);
    let pause = pause_after_death(&mut stage);
    stage.after(pause).expect("it goes on");
    stage.plane().say(&why());
    stage.turn().expect("the host may have lost something for a while");
    assert!(stage.plane().was_killed());
    assert_eq!(stage.lines("cannot bring the run up again: router edge: no memory").len(), 1);
    assert!(stage.supervisor().lifecycle.again.is_some());
}

#[test]
fn one_that_cannot_be_started_is_tried_again() {
    let mut stage = Stage::up(ONE);
    let first = pause_after_death(&mut stage);
    stage.refuse(true);
    stage.after(first).expect("it goes on");
    assert_eq!(stage.lines("the data plane cannot be started: no process can be had").len(), 1);
    stage.refuse(false);
    let pause = pause(&mut stage);
    assert_eq!(pause, 200 * MS);
    stage.after(pause).expect("it goes on");
    assert_eq!(stage.started(), 2);
}

#[test]
fn one_that_cannot_be_started_before_any_came_up_is_given_up_after_five() {
    let mut stage = Stage::start(ONE);
    let mut left = pause_after_death(&mut stage);
    stage.refuse(true);
    for _ in 2..5 {
        stage.after(left).expect("it goes on");
        left = pause(&mut stage);
    }
    let error = stage.after(left).expect_err("that is enough").to_string();
    let wanted = "the data plane cannot be started: no process can be had; 5 starts have failed";
    assert_eq!(error, wanted);
}

#[test]
fn the_process_of_a_router_that_cannot_be_started_at_first_is_given_up_after_five() {
    let mut stage = Stage::start(ISOLATED);
    stage.refuse(true);
    stage.plane().say(&ToSupervisor::Started { at_ns: 0 });
    stage.turn().expect("it goes on");
    for _ in 2..5 {
        stage.after(SECOND).expect("it goes on");
    }
    let error = stage.after(SECOND).expect_err("that is enough").to_string();
    let wanted = "router edge: its process cannot be started: no process can be had; 5 starts have failed";
    assert_eq!(error, wanted);
}

#[test]
fn one_that_does_not_come_up_in_time_is_killed() {
    let mut stage = Stage::start(ONE);
    stage.after(BUSY + ROUTER - MS).expect("it goes on");
    assert!(!stage.plane().was_killed());
    stage.after(MS).expect("it goes on");
    assert!(!stage.plane().was_killed(), "the supervisor itself may have had no CPU");
    stage.after(EXTENSION).expect("it goes on");
    assert!(stage.plane().was_killed());
    assert_eq!(stage.lines("did not answer in time and was killed").len(), 1);
}

/// Plays the thread of the data plane that only reports counters.
fn tell_counters(plane: &Scripted) {
    while let Some(message) = plane.told() {
        if let ToPlane::Ask { id, request: Request::Counters { .. } } = message {
            plane.answer(id, Ok(api::Answer::Counters(api::Counters::default())));
        }
    }
}

#[test]
fn one_that_does_not_answer_is_late_then_killed_then_started_again() {
    let mut stage = Stage::up(ONE);
    let since = stage.now;
    let mut client = stage.client(&Request::Show { router: "edge".to_owned() });
    stage.after(SECOND + MS).expect("it goes on");
    let mut early = stage.client(&Request::Ps {});
    let shown = format!("{:?}", early.next_answer().expect("it is answered for it"));
    assert!(shown.contains("the data plane is busy or does not answer any more"), "{shown}");
    while stage.now < since + QUICK - SECOND {
        stage.after(SECOND).expect("it goes on");
        tell_counters(&stage.plane());
    }
    stage.now = since + QUICK - MS;
    stage.turn().expect("it goes on");
    assert!(!stage.plane().was_killed());
    let silent = stage.plane();
    stage.after(MS).expect("it goes on");
    stage.after(EXTENSION).expect("it goes on");
    assert!(silent.was_killed());
    let error = client.next_answer().expect_err("nobody answers").to_string();
    assert!(error.contains("the data plane died before it answered"), "{error}");
    let pause = pause(&mut stage);
    assert_eq!(pause, 100 * MS);
    stage.after(pause).expect("it goes on");
    assert_eq!(stage.started(), 2);
}

/// Counters are reported by a thread of their own, so they are no sign of life of the others.
#[test]
fn one_that_only_tells_its_counters_is_killed() {
    let mut stage = Stage::up(ONE);
    for _ in 0..2 * QUICK.as_secs() {
        let plane = stage.plane();
        tell_counters(&plane);
        stage.after(SECOND).expect("it goes on");
        if plane.was_killed() {
            return;
        }
    }
    panic!("it is left alone");
}

#[test]
fn one_that_answers_is_left_alone() {
    let mut stage = Stage::up(ONE);
    for _ in 0..80 {
        stage.plane().serve(&Default::default());
        stage.after(SECOND).expect("it goes on");
    }
    assert!(!stage.plane().was_killed());
    assert_eq!((stage.started(), stage.lines("data plane (pid").len()), (1, 0));
}

/// The run as a whole was paused: the deadline has passed, but the data plane had no time to answer.
#[test]
fn one_that_did_not_run_because_nothing_ran_is_left_alone() {
    let mut stage = Stage::up(ONE);
    let _client = stage.client(&Request::Show { router: "edge".to_owned() });
    stage.after(100 * SECOND).expect("it goes on");
    assert!(!stage.plane().was_killed());
    stage.plane().serve(&Default::default());
    for _ in 0..3 {
        stage.after(EXTENSION).expect("it goes on");
    }
    assert!(!stage.plane().was_killed());
    assert_eq!(stage.started(), 1);
}

#[test]
fn one_that_starts_a_router_may_take_its_time_and_tells_its_counters() {
    let mut stage = Stage::up(ONE);
    let mut client = stage.client(&Request::Restart { router: "edge".to_owned() });
    let is_restart = |request: &Request| matches!(request, Request::Restart { .. });
    let id = stage.plane().asked(is_restart).expect("it is told");
    for _ in 0..11 {
        stage.after(SECOND).expect("it goes on");
        let plane = stage.plane();
        tell_counters(&plane);
    }
    assert!(!stage.plane().was_killed());
    assert!(stage.tables() >= 10, "tables were shown meanwhile");
    stage.plane().answer(id, Ok(api::Answer::Done { message: "router edge was started anew".to_owned() }));
    stage.turn().expect("it goes on");
    assert!(format!("{:?}", client.next_answer()).contains("router edge was started anew"));
}

#[test]
fn one_that_breaks_the_rules_of_the_link_is_killed() {
    let mut stage = Stage::up(ONE);
    let flood = stage.plane();
    for _ in 0..50_001 {
        flood.say(&ToSupervisor::Pong);
        stage.turn().expect("it goes on");
        if flood.was_killed() {
            break;
        }
    }
    assert!(flood.was_killed());
    assert_eq!(stage.lines("breaks the rules of the link (more than 50000 messages a second)").len(), 1);
}

#[test]
fn one_that_tells_of_more_threads_than_there_can_be_is_killed() {
    let threads = |count: usize, name: &str| {
        let thread = |tid| api::Thread { name: name.to_owned(), tid };
        ToSupervisor::Threads { threads: (0..).take(count).map(thread).collect() }
    };
    for (count, name, line) in [
        (257, "edge/vcpu0", "breaks the rules of the link (257 threads, where 256 are the most)"),
        (1, &*"x".repeat(65), "breaks the rules of the link (a thread with a name of more than 64 octets)"),
    ] {
        let mut stage = Stage::up(ONE);
        let plane = stage.plane();
        plane.say(&threads(256, &"x".repeat(64)));
        stage.turn().expect("it goes on");
        assert!(!plane.was_killed());
        plane.say(&threads(count, name));
        stage.turn().expect("it goes on");
        assert!(plane.was_killed());
        assert_eq!(stage.lines(line).len(), 1, "{line}");
    }
}

#[test]
fn what_one_says_before_it_dies_is_told_before_its_death() {
    let mut stage = Stage::up(ONE);
    stage.plane().cry("\u{1b}[31mthread 'edge/vcpu0' panicked");
    let first = stage.plane();
    stage.turn().expect("it goes on");
    assert_eq!(stage.stderr(), Vec::<String>::new(), "the line is not whole");
    first.cry(" at guest.rs:1:\nno memory");
    first.die();
    stage.turn().expect("it goes on");
    let told = stage.stderr();
    let [panic, why, death] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!([&**panic, why], [" [31mthread 'edge/vcpu0' panicked at guest.rs:1:", "no memory"]);
    assert!(death.contains("was killed by SIGSEGV"), "{death}");
}

/// Neither blocks the other: a flood is cut short, and orders that arrive meanwhile are carried out.
#[test]
fn one_that_floods_its_standard_error_is_cut_short_and_waits_for_nobody() {
    let mut stage = Stage::up(ONE);
    let before = stage.stderr().len();
    let plane = stage.plane();
    let line = "x".repeat(99) + "\n";
    while plane.cry(&line) > 0 {}
    for _ in 0..50 {
        plane.cry(&line.repeat(40));
        plane.serve(&Default::default());
        stage.turn().expect("it goes on");
    }
    assert_eq!(stage.stderr().len() - before, MOST_LINES);
    let mut client = stage.client(&Request::Events { since: None });
    client.next_answer().expect("it is answered");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(stage.lines("lines came too fast on standard error and were lost").len(), 1);
    assert!(!plane.was_killed());
}
