//! Another run of the owner changes what all runs share: this one waits for nobody.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use api::{Client, Request};
use link::ToPlane;
use sched::{Applier, ApplyError, Island, Outline, Thread};

use super::promises::{file, promised};
use super::stage::Stage;
use crate::following::PATIENCE;
use crate::placing::Carry;

const MS: Duration = Duration::from_millis(1);

/// An applier that places nobody, but has the lock for whatever is planned.
struct Locking(Applier);

impl Locking {
    fn new(shared: &Path) -> Self {
        Self(Applier::new("t", shared, |_| {}))
    }
}

impl Carry for Locking {
    fn make(&mut self, _: &Outline) -> Result<(), ApplyError> {
        Ok(())
    }

    fn try_lock(&mut self, _: &Outline) -> Result<bool, ApplyError> {
        let cpus = "0".parse().expect("a CPU");
        let islands = vec![Island { cpus, reserved: 0.0, most: 1.0 }];
        self.0.try_lock(&Outline { islands, ..Outline::default() })
    }

    fn unlock(&mut self) {
        self.0.unlock();
    }

    fn locked_out(&self) -> ApplyError {
        self.0.locked_out()
    }

    fn place(&mut self, _: &[Thread]) -> Vec<ApplyError> {
        Vec::new()
    }

    fn let_go(&mut self) {}

    fn undo_all(&mut self) -> Vec<ApplyError> {
        Vec::new()
    }
}

/// A run with a promise whose lock another run has, and a client that wants a thread to be elsewhere.
struct Held {
    stage: Stage,
    other: Locking,
    client: Client,
    _folder: tempfile::TempDir,
}

impl Held {
    fn new() -> Self {
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(mode).tempdir().expect("a folder of its own");
        let mut other = Locking::new(folder.path());
        // What is promised is put in by hand: planning it would ask this host.
        let text = file("1kpps").replace("guarantee = \"1kpps\"\n", "");
        let mut stage = Stage::start_with(&text, Box::new(Locking::new(folder.path())));
        stage.comes_up();
        let planned = promised("1kpps", None, stage.now);
        stage.supervisor().placing.promises = planned.promises;
        assert!(other.try_lock(&Outline::default()).expect("ours alone"));
        let client = stage.client(&set("core"));
        assert!(stage.supervisor().placing.following.is_waiting());
        Self { stage, other, client, _folder: folder }
    }
}

fn set(router: &str) -> Request {
    let [key, value] = ["pin.vcpu", "any"].map(str::to_owned);
    Request::Set { router: router.to_owned(), key, value }
}

fn answer(client: &mut Client) -> String {
    match client.next_answer() {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_waits_for_another_run_is_done_when_that_has_finished() {
    let mut held = Held::new();
    let stage = &mut held.stage;
    stage.after(PATIENCE - MS).expect("it goes on");
    assert!(stage.supervisor().placing.following.is_waiting());
    held.other.unlock();
    stage.after(10 * MS).expect("it goes on");
    assert!(answer(&mut held.client).contains("router core: pin.vcpu = any"));
    assert!(held.other.try_lock(&Outline::default()).expect("ours alone"), "it is free again");
}

#[test]
fn clients_are_answered_and_promises_looked_after_meanwhile() {
    let mut held = Held::new();
    let stage = &mut held.stage;
    let mut asks = 0;
    for _ in 0..10 {
        stage.after(100 * MS).expect("it goes on");
        let plane = stage.plane();
        while let Some(message) = plane.told() {
            if let ToPlane::Ask { id, request: Request::Counters { .. } } = message {
                asks += 1;
                plane.answer(id, Ok(api::Answer::Counters(api::Counters::default())));
            }
        }
        stage.turn().expect("it goes on");
    }
    assert!(asks >= 10, "promises are looked after: {asks}");
    let mut curious = stage.client(&Request::Events { since: None });
    assert!(answer(&mut curious).contains("Events"));
    let mut second = stage.client(&set("edge"));
    assert!(answer(&mut second).contains("another run lets go of what all share: try again in a second"));
    assert!(stage.supervisor().placing.following.is_waiting());
}

fn setting(key: &str, value: &str) -> Request {
    let [router, key, value] = ["edge", key, value].map(str::to_owned);
    Request::Set { router, key, value }
}

/// A limit is judged with the guarantee that waits for another run, and without it.
#[test]
fn what_is_set_meanwhile_agrees_with_what_waits() {
    let mut held = Held::new();
    let stage = &mut held.stage;
    let supervisor = stage.supervisor();
    let edge = supervisor.running.plan.routers.iter_mut().find(|router| router.name == "edge");
    edge.expect("it is there").set("guarantee", "5kpps").expect("a rate");
    // By hand, as above.
    supervisor.placing.following.waits_for(setting("guarantee", "9kpps"));
    for (limit, is_taken) in [("7kpps", false), ("4kpps", false), ("10kpps", true)] {
        let mut client = stage.client(&setting("limit", limit));
        let plane = stage.plane();
        let is_limit = |request: &Request| matches!(request, Request::Set { key, .. } if key == "limit");
        let asked = plane.asked(is_limit);
        assert_eq!(asked.is_some(), is_taken, "{limit}");
        if !is_taken {
            let told = answer(&mut client);
            assert!(told.contains("guarantee"), "{told}");
        }
    }
    assert!(stage.supervisor().placing.following.is_waiting());
}

#[test]
fn who_waits_for_too_long_is_told() {
    let mut held = Held::new();
    held.stage.after(PATIENCE).expect("it goes on");
    let told = answer(&mut held.client);
    assert!(
        told.contains("router core: pin.vcpu: ") && told.contains("another run of yours holds it"),
        "{told}"
    );
    assert!(!held.stage.supervisor().placing.following.is_waiting());
    let mut second = held.stage.client(&set("core"));
    held.other.unlock();
    held.stage.after(10 * MS).expect("it goes on");
    assert!(answer(&mut second).contains("router core: pin.vcpu = any"));
}
