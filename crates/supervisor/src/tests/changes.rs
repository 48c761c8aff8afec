//! A change of the plan is made as a whole or not at all, whichever process refuses it or dies meanwhile.

mod in_any_order;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use api::{Answer, Client, Request};
use config::Plan;
use link::{ToPlane, ToSupervisor};
use sched::{ApplyError, Outline, Thread};

use super::questions::{ISOLATED, isolated};
use super::stage::{ONE, Scripted, Stage};
use crate::thread_placement::OutlineApplier;

const SECOND: Duration = Duration::from_secs(1);

fn set(router: &str, key: &str, value: &str) -> Request {
    let [router, key, value] = [router, key, value].map(str::to_owned);
    Request::Set { router, key, value }
}

fn done(client: &mut Client) -> String {
    match client.next_answer() {
        Ok(Answer::Done { message }) => message,
        other => panic!("{other:?}"),
    }
}

/// First plan that a data plane is told to run.
fn begins_with(plane: &Scripted) -> Plan {
    let told = std::iter::from_fn(|| plane.told()).find_map(|told| match told {
        ToPlane::Start(orders) => Some(orders.plan),
        _ => None,
    });
    told.expect("it is told")
}

/// Kills the data plane and starts the next one. Returns the plan that it is told.
fn dies(stage: &mut Stage) -> Plan {
    stage.plane().die();
    stage.turn().expect("it goes on");
    stage.after(SECOND).expect("it goes on");
    let plan = begins_with(&stage.plane());
    stage.comes_up();
    plan
}

#[test]
fn what_was_set_is_what_the_next_data_plane_is_told_and_what_was_refused_is_not() {
    let mut stage = Stage::up(ONE);
    for (value, is_taken) in [("1us", true), ("2us", false)] {
        let mut client = stage.client(&set("edge", "spin", value));
        let (id, plan) = stage.plane().is_to_become().expect("it is to follow");
        assert_eq!(
            plan,
            stage.supervisor().running.plan.with("edge", "spin", value).expect("a time").of_data_plane()
        );
        let followed = Ok(Answer::Applied { changes: Vec::new(), dry_run: false });
        stage.plane().answer(id, if is_taken { followed } else { Err(api::Error::new("not now")) });
        stage.turn().expect("it goes on");
        assert_eq!(client.next_answer().is_ok(), is_taken);
    }
    let next = dies(&mut stage);
    assert_eq!(next, stage.supervisor().running.plan.of_data_plane());
    assert_eq!(next.routers[0].spin, config::Spin::For(Duration::from_micros(1)));
}

#[test]
fn one_that_was_stopped_and_unplugged_stays_so_until_somebody_says_otherwise() {
    let mut stage = Stage::up(ONE);
    for request in [Request::Stop { name: "edge".to_owned() }, set("edge", "lan.link", "down")] {
        let mut client = stage.client(&request);
        stage.plane().follows().expect("it is to follow");
        stage.turn().expect("it goes on");
        done(&mut client);
    }
    let next = dies(&mut stage);
    assert!(next.routers[0].is_stopped() && next.routers[0].nics[0].is_pulled());
    let mut client = stage.client(&Request::Start { router: "edge".to_owned() });
    let plan = stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert_eq!(done(&mut client), "router edge runs");
    assert!(!plan.routers[0].is_stopped() && plan.routers[0].nics[0].is_pulled());
    // It may have failed or turned itself off: then it is started, whatever the plan says.
    let start = Request::Start { router: "edge".to_owned() };
    let _client = stage.client(&start);
    assert!(stage.plane().asked(|request| *request == start).is_some());
}

#[test]
fn one_that_is_started_while_it_is_being_stopped_runs_in_the_end() {
    let mut stage = Stage::up(ONE);
    let mut stopper = stage.client(&Request::Stop { name: "edge".to_owned() });
    let mut starter = stage.client(&Request::Start { router: "edge".to_owned() });
    assert!(stage.plane().follows().expect("it is to stop").routers[0].is_stopped());
    stage.turn().expect("it goes on");
    assert!(!stage.plane().follows().expect("it is to run").routers[0].is_stopped());
    stage.turn().expect("it goes on");
    assert_eq!([done(&mut stopper), done(&mut starter)], ["router edge is stopped", "router edge runs"]);
    assert!(!stage.plan().routers[0].is_stopped());
}

#[test]
fn what_the_process_of_a_router_refuses_the_data_plane_takes_back() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&set("edge", "limit", "5kpps"));
    let limited = main.follows().expect("it is to follow");
    assert!(own.is_to_become().is_none(), "one after the other");
    stage.turn().expect("it goes on");
    let (id, plan) = own.is_to_become().expect("it is to follow");
    assert_eq!(plan.routers[0].limit, limited.routers[0].limit);
    own.answer(id, Err(api::Error::new("no room")));
    stage.turn().expect("it goes on");
    let back = main.follows().expect("it is to go back");
    assert_eq!(back, stage.supervisor().running.plan.of_data_plane());
    assert_eq!(back.routers[0].limit, None);
    stage.turn().expect("it goes on");
    assert_eq!(client.next_answer().expect_err("it is refused").to_string(), "no room");
}

#[test]
fn one_that_does_not_go_back_is_started_anew() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&set("edge", "limit", "5kpps"));
    main.follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    let (id, _) = own.is_to_become().expect("it is to follow");
    own.answer(id, Err(api::Error::new("no room")));
    stage.turn().expect("it goes on");
    let (id, _) = main.is_to_become().expect("it is to go back");
    main.answer(id, Err(api::Error::new("nor that")));
    stage.turn().expect("it goes on");
    assert!(client.next_answer().is_err() && main.was_killed());
    assert_eq!(stage.lines("it does not become what it was: nor that").len(), 1);
    stage.after(SECOND).expect("it goes on");
    assert_eq!(begins_with(&stage.plane()), stage.supervisor().running.plan.of_data_plane());
}

#[test]
fn a_data_plane_that_dies_while_others_follow_takes_them_back() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&set("edge", "restart", "never"));
    main.follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    let (id, _) = own.is_to_become().expect("it is to follow");
    main.die();
    stage.turn().expect("it goes on");
    own.answer(id, Ok(Answer::Applied { changes: Vec::new(), dry_run: false }));
    stage.turn().expect("it goes on");
    let back = own.follows().expect("it is to go back");
    assert_eq!(back.routers[0].restart, config::Restart::Always);
    stage.turn().expect("it goes on");
    let told = client.next_answer().expect_err("nothing comes of it").to_string();
    assert!(told.contains("the data plane died of it; it is started again with what ran before"), "{told}");
}

#[test]
fn the_process_of_a_router_that_dies_of_a_change_is_started_with_what_comes_of_it() {
    let (mut stage, main, own) = isolated();
    let mut client = stage.client(&set("edge", "limit", "5kpps"));
    main.follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    own.die();
    stage.turn().expect("it goes on");
    assert!(done(&mut client).contains("router edge: limit = 5kpps (no packet is lost)"));
    stage.after(SECOND).expect("it goes on");
    let next = begins_with(&stage.plane());
    assert_eq!(next, stage.supervisor().running.plan.of_isolated("edge").expect("there is one"));
    assert!(next.routers[0].limit.is_some());
}

#[test]
fn a_process_that_is_not_started_again_is_so_as_soon_as_its_policy_is_another() {
    let (mut stage, main, own) = isolated();
    let set_restart = |stage: &mut Stage, own: Option<&Scripted>, value: &str| {
        let mut client = stage.client(&set("edge", "restart", value));
        main.follows().expect("it is to follow");
        stage.turn().expect("it goes on");
        if let Some(own) = own {
            own.follows().expect("it is to follow");
            stage.turn().expect("it goes on");
        }
        done(&mut client);
    };
    set_restart(&mut stage, Some(&own), "never");
    own.die();
    stage.turn().expect("it goes on");
    stage.after(SECOND).expect("it goes on");
    assert_eq!(stage.started(), 2);
    set_restart(&mut stage, None, "always");
    stage.turn().expect("it goes on");
    assert_eq!(stage.started(), 3);
}

/// Places no thread, and waits for another run as long as the test says.
struct Waiting(Rc<Cell<bool>>);

impl OutlineApplier for Waiting {
    fn make(&mut self, _: &Outline) -> Result<(), ApplyError> {
        Ok(())
    }

    fn try_lock(&mut self, _: &Outline) -> Result<bool, ApplyError> {
        Ok(!self.0.get())
    }

    fn unlock(&mut self) {}

    fn locked_out(&self) -> ApplyError {
        unreachable!("the test lets it go on before")
    }

    fn place(&mut self, _: &[Thread]) -> Vec<ApplyError> {
        Vec::new()
    }

    fn let_go(&mut self) {}

    fn undo_all(&mut self) -> Vec<ApplyError> {
        Vec::new()
    }
}

/// It was told the plan before, and not to follow, because it did not listen yet.
#[test]
fn a_process_that_comes_up_during_a_change_is_replaced_by_one_that_runs_what_comes_of_it() {
    let is_locked = Rc::new(Cell::new(true));
    let mut stage = Stage::start_with(ISOLATED, Box::new(Waiting(is_locked.clone())));
    let main = stage.plane();
    main.say(&ToSupervisor::Started { at_ns: 0 });
    stage.turn().expect("it goes on");
    let own = stage.plane();
    let mut client = stage.client(&set("edge", "spin", "9us"));
    main.follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    assert!(stage.supervisor().placement.pending.is_waiting(), "the threads are next");
    own.say(&ToSupervisor::Started { at_ns: 0 });
    stage.turn().expect("it goes on");
    assert!(!own.was_killed(), "nothing is changed yet");
    is_locked.set(false);
    stage.after(SECOND / 10).expect("it goes on");
    done(&mut client);
    assert!(own.was_killed());
    stage.turn().expect("it goes on");
    let next = begins_with(&stage.plane());
    assert_eq!(next, stage.plan().of_isolated("edge").expect("there is one"));
    assert_eq!(next.routers[0].spin, config::Spin::For(Duration::from_micros(9)));
}
