//! All other routers are looked after while a caller waits for a router to come up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Instance, Plugs, State};
use rustix::process::{Pid, Signal, kill_process};
use telemetry::Kind;

use crate::known::Known;
use crate::traffic::{PATIENCE, alone, router, wait_for};

/// Two routers in processes, of which the second does not run; `None` if this host cannot run such processes.
fn two() -> Option<(Instance, Arc<Known>)> {
    let known = Known::new()?;
    let mut instance = known.start(&(router("up", 1, "") + &router("slow", 2, "")), Plugs::new());
    instance.stop_router("slow").expect("it is there");
    Some((instance, known))
}

/// Returns true if the process has entered its seccomp filter: then it has its memory, and its firmware runs.
fn is_confined(process: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    status.is_ok_and(|status| status.lines().any(|line| line == "Seccomp:\t2"))
}

/// Stops the next process of `slow` while its firmware boots, kills that of `up`, and continues `slow` when
/// `up` has another one, or the wait is over. Returns whether `up` had one first; `None`: `slow` was too
/// fast.
fn play(known: &Known, is_over: &AtomicBool) -> Option<bool> {
    let (slow, up) = (known.of("slow").len(), known.of("up"));
    let over = || is_over.load(Ordering::Acquire);
    while !known.of("slow").get(slow).is_some_and(|process| is_confined(*process)) {
        if over() {
            return None;
        }
    }
    let slow = known.of("slow")[slow];
    kill_process(slow, Signal::STOP).expect("it is there");
    kill_process(up[up.len() - 1], Signal::KILL).expect("it is there");
    wait_for("another process, or nobody waits", || known.of("up").len() > up.len() || over());
    let others_lived = !over();
    // It was killed if the wait was given up.
    let _ = kill_process(slow, Signal::CONT);
    Some(others_lived)
}

#[test]
fn a_router_that_fails_meanwhile_is_started_again() {
    let _turn = alone();
    let Some((mut instance, known)) = two() else { return };
    let start = Instant::now();
    // It may have come up before it was stopped: then try again.
    loop {
        assert!(start.elapsed() < PATIENCE, "it always comes up too fast");
        let is_over = AtomicBool::new(false);
        let (started, others_lived) = std::thread::scope(|scope| {
            let player = scope.spawn(|| play(&known, &is_over));
            let started = instance.start_router("slow");
            is_over.store(true, Ordering::Release);
            (started, player.join().expect("no panic"))
        });
        started.expect("it comes up when it goes on");
        match others_lived {
            Some(true) => break,
            Some(false) => drop(until_it_is_back(&mut instance)),
            None => {}
        }
        instance.stop_router("slow").expect("it is there");
    }
    let told = until_it_is_back(&mut instance);
    assert!(told.contains(&("up".to_owned(), Kind::Restarting)), "{told:?}");
    assert!(told.contains(&("slow".to_owned(), Kind::Started)), "{told:?}");
    assert!(instance.status().iter().all(|router| router.state == State::Running));
}

/// Looks after it until the first router is back; returns the events.
fn until_it_is_back(instance: &mut Instance) -> Vec<(String, Kind)> {
    let mut told = Vec::new();
    wait_for("the router", || {
        let news = instance.look_after(Instant::now());
        told.extend(news.into_iter().map(|event| (event.router, event.kind)));
        std::thread::sleep(Duration::from_millis(1));
        told.contains(&("up".to_owned(), Kind::Restarted))
    });
    told
}
