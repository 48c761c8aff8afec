//! Routers that fail: they are taken down alone, told of, and started again or not; nobody else notices.

use std::time::{Duration, Instant};

use engine::{Event, Instance, Plugs, State};
use telemetry::Kind;

use crate::traffic::{PATIENCE, Stream, alone, kvm, plan, router, start};

/// Looks after an instance, as its owner would, until something is so; returns what happened.
#[track_caller]
fn look_until(instance: &mut Instance, what: &str, done: impl Fn(&Instance, &[Event]) -> bool) -> Vec<Event> {
    let (start, mut events) = (Instant::now(), Vec::new());
    while !done(instance, &events) {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}: {events:?} {:?}", instance.status());
        events.extend(instance.look_after());
        std::thread::sleep(Duration::from_millis(20));
    }
    events
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

fn count(events: &[Event], kind: Kind) -> usize {
    events.iter().filter(|event| event.kind == kind).count()
}

const FAULTS: &str = "role = 'hostile'\nmisdeed = 'triple-fault'";

#[test]
fn a_router_that_fails_again_and_again_is_started_again_later_and_later() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let mut instance = start(&(router("one", 1, "") + &router("bad", 2, FAULTS)), plugs);
    stream.flows(100);
    let threads = instance.status()[0].threads.clone();
    let began = Instant::now();
    let events = look_until(&mut instance, "four failures", |_, events| count(events, Kind::Failed) >= 4);
    assert!(events.iter().all(|event| event.router == "bad"), "{events:?}");
    let told: Vec<&Event> = events.iter().collect();
    let round = [Kind::Failed, Kind::Restarting, Kind::Restarted];
    assert_eq!(kinds(&events)[..9], [round, round, round].concat()[..], "{told:?}");
    let pauses: Vec<&str> = events
        .iter()
        .filter(|event| event.kind == Kind::Restarting)
        .map(|event| event.message.as_str())
        .collect();
    assert_eq!(pauses[..3], ["in 0.1 s", "in 0.2 s", "in 0.4 s"]);
    assert!(began.elapsed() >= Duration::from_millis(700));
    assert!(events[0].message.contains("triple fault"), "{told:?}");
    let status = &instance.status()[1];
    assert_eq!((status.state, status.restarts, status.threads.len()), (State::Waiting, 3, 0));
    assert!(status.reason.as_ref().is_some_and(|line| line.contains("triple fault") && !line.contains('\n')));
    assert_eq!(instance.fault(), None, "the failed one has been taken down");
    // Whoever asks for it does not have to wait for the pause, and begins with a clean sheet.
    instance.start_router("bad").expect("it starts");
    let events =
        look_until(&mut instance, "another failure", |_, events| count(events, Kind::Restarting) >= 1);
    assert_eq!(events.last().map(|event| event.message.as_str()), Some("in 0.1 s"));
    instance.stop_router("bad").expect("it stops");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(kinds(&instance.look_after()), [Kind::Stopped], "who stopped it wants it stopped");
    assert_eq!(instance.status()[1].state, State::Stopped);
    assert_eq!(instance.status()[0].threads, threads);
    stream.flows(100);
    stream.ends_whole();
}

#[test]
fn a_policy_decides_and_can_be_changed_while_it_has_failed() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let text = router("bad", 2, &format!("{FAULTS}\nrestart = 'never'"));
    let mut instance = start(&text, Plugs::new());
    let failed = |instance: &Instance, _: &[Event]| instance.status()[0].state == State::Failed;
    let events = look_until(&mut instance, "its end", failed);
    assert_eq!(kinds(&events), [Kind::Failed]);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(instance.look_after(), []);
    let change = instance.set("bad", "restart", "always").expect("a policy");
    assert!(change.is_hitless());
    look_until(&mut instance, "new starts", |instance, _| instance.status()[0].restarts >= 2);
    instance.set("bad", "restart", "never").expect("a policy");
    look_until(&mut instance, "its end", failed);
    let restarts = instance.status()[0].restarts;
    std::thread::sleep(Duration::from_millis(300));
    instance.look_after();
    assert_eq!(instance.status()[0].restarts, restarts);
    // What the file says now is what runs: the policy that was set is undone, and the failed one replaced.
    let changes = instance.apply(&plan(&router("bad", 2, "")), Plugs::new()).expect("it is applied");
    assert_eq!(changes.len(), 1);
    assert_eq!(instance.status()[0].state, State::Running);
}

#[test]
fn a_router_that_cannot_be_built_again_waits_too() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut instance = start(&router("bad", 2, FAULTS), Plugs::new());
    look_until(&mut instance, "a failure", |_, events| count(events, Kind::Failed) >= 1);
    // No descriptor is left for another machine.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let low = rustix::process::Rlimit { current: Some(0), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, low).expect("lowered");
    let events = look_until(&mut instance, "a refusal", |_, events| {
        events.iter().any(|event| event.message.starts_with("cannot be started again: "))
    });
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("raised");
    assert!(events.iter().any(|event| event.kind == Kind::Restarting), "{events:?}");
    let events = look_until(&mut instance, "a new start", |_, events| count(events, Kind::Restarted) >= 1);
    assert!(!events.is_empty());
}

#[test]
fn what_breaks_rules_is_charged() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let bad = router("bad", 2, "role = 'hostile'\nmisdeed = 'spin'\nrestart = 'never'");
    let mut instance = start(&(router("one", 1, "") + &bad), plugs);
    stream.flows(100);
    let failed = |instance: &Instance, _: &[Event]| instance.status()[1].state == State::Failed;
    let events = look_until(&mut instance, "a charge", failed);
    assert_eq!(kinds(&events), [Kind::Charged]);
    assert!(events[0].message.starts_with("vCPU 0 has not answered"), "{events:?}");
    stream.flows(100);
    stream.ends_whole();
}
