//! Another run of the owner holds the lock on what all runs share: the event loop does not wait.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use api::{Client, Request};
use link::ToPlane;
use sched::{Applier, ApplyError, ExclusiveCpus, Outline, Thread};

use super::promises::{file, promised};
use super::stage::Stage;
use crate::pending_placement::PATIENCE;
use crate::thread_placement::OutlineApplier;

const MS: Duration = Duration::from_millis(1);

/// Applier that places no thread but takes the lock for every outline.
struct Locking(Applier);

impl Locking {
    fn new(shared: &Path) -> Self {
        Self(Applier::new("t", shared, |_| {}))
    }
}

impl OutlineApplier for Locking {
    fn make(&mut self, _: &Outline) -> Result<(), ApplyError> {
        Ok(())
    }

    fn try_lock(&mut self, _: &Outline) -> Result<bool, ApplyError> {
        let cpus = "0".parse().expect("a CPU");
        let islands = vec![ExclusiveCpus { cpus, reserved: 0.0, most: 1.0 }];
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

/// A run with a promise while another run holds the lock, and a client that wants a thread moved.
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
        // The promise is put in by hand: planning it would query this host.
        let text = file("1kpps").replace("guarantee = \"1kpps\"\n", "");
        let mut stage = Stage::start_with(&text, Box::new(Locking::new(folder.path())));
        stage.comes_up();
        let planned = promised("1kpps", None, stage.now);
        stage.supervisor().placement.promises = planned.promises;
        assert!(other.try_lock(&Outline::default()).expect("ours alone"));
        let client = stage.client(&set("core"));
        assert!(stage.supervisor().placement.pending.is_waiting());
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
    assert!(stage.supervisor().placement.pending.is_waiting());
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
    held.other.unlock();
    stage.after(10 * MS).expect("it goes on");
    assert!(answer(&mut held.client).contains("router core: pin.vcpu = any"));
    assert!(answer(&mut second).contains("router edge: pin.vcpu = any"), "each in its turn");
}

fn setting(key: &str, value: &str) -> Request {
    let [router, key, value] = ["edge", key, value].map(str::to_owned);
    Request::Set { router, key, value }
}

/// Each change is judged by the plan that those before it have made.
#[test]
fn what_is_set_meanwhile_waits_for_its_turn() {
    let mut held = Held::new();
    let stage = &mut held.stage;
    let mut limits = ["4kpps", "10kpps"].map(|limit| stage.client(&setting("limit", limit)));
    assert!(stage.plane().is_to_become().is_none(), "the first one waits for the other run");
    // The queued change gets a promise, by hand as above.
    let plan = stage.supervisor().changes.plan_mut().expect("it waits");
    plan.routers[0].set("guarantee", "5kpps").expect("a rate");
    held.other.unlock();
    let stage = &mut held.stage;
    stage.after(10 * MS).expect("it goes on");
    let refused = answer(&mut limits[0]);
    assert!(refused.contains("4kpps is less than guarantee"), "{refused}");
    let plan = stage.plane().follows().expect("it is to follow");
    assert_eq!(plan.routers[0].limit, config::Rate::from_pps(10_000));
    stage.turn().expect("it goes on");
    assert!(answer(&mut limits[1]).contains("no packet is lost"));
}

#[test]
fn so_many_wait_and_no_more() {
    let mut held = Held::new();
    let stage = &mut held.stage;
    // There are not so many client slots: these disconnect without waiting for their replies.
    (0..16).for_each(|_| drop(stage.client(&set("edge"))));
    let mut one_more = stage.client(&set("edge"));
    let told = answer(&mut one_more);
    assert!(told.contains("16 changes wait already: try again in a second"), "{told}");
    held.other.unlock();
    held.stage.after(10 * MS).expect("it goes on");
    assert!(!held.stage.supervisor().changes.is_busy(), "all were made");
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
    assert!(!held.stage.supervisor().placement.pending.is_waiting());
    let mut second = held.stage.client(&set("core"));
    held.other.unlock();
    held.stage.after(10 * MS).expect("it goes on");
    assert!(answer(&mut second).contains("router core: pin.vcpu = any"));
}
