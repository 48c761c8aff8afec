//! Routers that fail are taken down individually, reported, and restarted or not; no other router is
//! affected.

use std::time::{Duration, Instant};

use engine::{Event, Instance, Plugs, State};
use telemetry::Kind;

use crate::traffic::{PATIENCE, Stream, alone, kvm, plan, router, set, start};

/// The owner of an instance, with a clock that stands still unless it is advanced: pauses are over at once,
/// or never.
struct Owner {
    instance: Instance,
    now: Instant,
    /// Events so far.
    events: Vec<Event>,
}

impl Owner {
    fn of(instance: Instance) -> Self {
        Self { instance, now: Instant::now(), events: Vec::new() }
    }

    /// Looks after it until a condition holds.
    #[track_caller]
    fn until(&mut self, what: &str, done: impl Fn(&Instance, &[Event]) -> bool) {
        let start = Instant::now();
        while !done(&self.instance, &self.events) {
            let status = self.instance.status();
            assert!(start.elapsed() < PATIENCE, "waited in vain for {what}: {:?} {status:?}", self.events);
            self.events.extend(self.instance.look_after(self.now));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Advances the clock and looks once; returns the events.
    fn after(&mut self, time: Duration) -> Vec<Event> {
        self.now += time;
        let news = self.instance.look_after(self.now);
        self.events.extend(news.iter().cloned());
        news
    }
}

/// Longer than any back-off pause.
const MINUTE: Duration = Duration::from_secs(60);

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
    let instance = start(&(router("one", 1, "") + &router("bad", 2, FAULTS)), plugs);
    stream.flows(100);
    let threads = instance.status()[0].threads.clone();
    let mut owner = Owner::of(instance);
    for (round, pause) in [100, 200].into_iter().enumerate() {
        let pause = Duration::from_millis(pause);
        owner.until("a failure", |_, events| count(events, Kind::Restarting) > round);
        let told = owner.events.last().expect("an event").message.clone();
        assert_eq!(told, format!("in {:.1} s", pause.as_secs_f64()));
        let early = Duration::from_millis(1);
        assert_eq!(owner.after(pause - early), []);
        assert_eq!(owner.instance.status()[1].state, State::Waiting);
        owner.after(early);
        owner.until("a new start", |_, events| count(events, Kind::Restarted) > round);
    }
    owner.until("a failure", |_, events| count(events, Kind::Restarting) > 2);
    let Owner { instance, events, .. } = &mut owner;
    assert!(events.iter().all(|event| event.router == "bad"), "{events:?}");
    let round = [Kind::Failed, Kind::Restarting, Kind::Restarted];
    assert_eq!(kinds(events)[..6], [round, round].concat()[..], "{events:?}");
    assert!(events[0].message.contains("triple fault"), "{events:?}");
    let status = &instance.status()[1];
    assert_eq!((status.state, status.restarts, status.threads.len()), (State::Waiting, 2, 0));
    assert!(status.reason.as_ref().is_some_and(|line| line.contains("triple fault") && !line.contains('\n')));
    assert_eq!(instance.fault(), None, "the failed one has been taken down");
    // An explicit start does not wait for the pause, and clears the failures.
    instance.start_router("bad").expect("it starts");
    owner.until("another failure", |_, events| count(events, Kind::Restarting) > 3);
    assert_eq!(owner.events.last().map(|event| event.message.as_str()), Some("in 0.1 s"));
    owner.instance.stop_router("bad").expect("it stops");
    assert_eq!(kinds(&owner.after(MINUTE)), [Kind::Stopped], "who stopped it wants it stopped");
    assert_eq!(owner.after(MINUTE), []);
    assert_eq!(owner.instance.status()[1].state, State::Stopped);
    assert_eq!(owner.instance.status()[0].threads, threads);
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
    let mut owner = Owner::of(start(&text, Plugs::new()));
    let failed = |instance: &Instance, _: &[Event]| instance.status()[0].state == State::Failed;
    owner.until("its end", failed);
    assert_eq!(kinds(&owner.events), [Kind::Failed]);
    assert_eq!(owner.after(MINUTE), []);
    let change = set(&mut owner.instance, "bad", "restart", "always").expect("a policy").expect("a change");
    assert!(change.is_hitless());
    for restarts in 1..=2 {
        owner.after(MINUTE);
        owner.until("its end", |_, events| count(events, Kind::Restarting) >= restarts);
    }
    set(&mut owner.instance, "bad", "restart", "never").expect("a policy");
    assert_eq!(owner.instance.status()[0].state, State::Failed);
    let restarts = owner.instance.status()[0].restarts;
    owner.after(MINUTE);
    assert_eq!(owner.instance.status()[0].restarts, restarts);
    // The file takes precedence: the policy that was set is undone, and the failed router is replaced.
    let instance = &mut owner.instance;
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
    let mut owner = Owner::of(start(&router("bad", 2, FAULTS), Plugs::new()));
    owner.until("a failure", |_, events| count(events, Kind::Restarting) > 0);
    // No descriptor is available for another machine.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let low = rustix::process::Rlimit { current: Some(0), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, low).expect("lowered");
    owner.now += MINUTE;
    owner.until("another failure", |_, events| count(events, Kind::Restarting) > 1);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).expect("raised");
    let events = &owner.events;
    assert!(events[2].message.starts_with("cannot be started again: "), "{events:?}");
    assert_eq!(kinds(events), [Kind::Failed, Kind::Restarting].repeat(2));
    owner.after(MINUTE);
    owner.until("a new start", |_, events| count(events, Kind::Restarted) >= 1);
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
    // In real time: a healthy router needs some time to answer.
    let (start, mut events) = (Instant::now(), Vec::new());
    while instance.status()[1].state != State::Failed {
        assert!(start.elapsed() < PATIENCE, "it is not charged: {events:?}");
        events.extend(instance.look_after(Instant::now()));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(kinds(&events), [Kind::Charged]);
    assert!(events[0].message.starts_with("vCPU 0 has not answered"), "{events:?}");
    stream.flows(100);
    stream.ends_whole();
}
