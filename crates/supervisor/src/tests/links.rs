//! The kernel does not answer requests about links because another process changes interfaces: the event loop
//! does not wait.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::Request;
use link::ToPlane;
use rustix::event::{EventfdFlags, eventfd};
use uplink::{Cable, Tap};

use super::stage::Stage;
use crate::link_monitor::LinkCheckResult;

const SECOND: Duration = Duration::from_secs(1);

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"process\"\n\
                    [[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\naddress = \"192.0.2.1/24\"\n";

/// A run with a link whose check does not finish until the test says what is seen.
fn hung() -> (Stage, Sender<bool>) {
    let mut stage = Stage::up(FILE);
    let (answer, answers) = channel();
    let answers = Mutex::new(answers);
    let plan = stage.supervisor().running.plan.clone();
    let queue = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    let tap = Tap::from_descriptors("t0", vec![queue], Default::default()).expect("a TAP");
    let at = plan.nics().next().expect("a NIC");
    stage.supervisor().resources.put(at, attach::link(tap));
    stage.supervisor().link_monitor.see = Arc::new(move |look| {
        let running = answers.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap_or(false);
        let cable = Some(Cable { running, mac: None });
        let nic = look.links[0].0.clone();
        LinkCheckResult {
            cables: Some([(nic.clone(), cable)].into()),
            lost: [(nic, 7)].into(),
            state: look.state,
            ..LinkCheckResult::default()
        }
    });
    stage.after(SECOND).expect("it goes on");
    (stage, answer)
}

fn is_told(stage: &Stage) -> bool {
    let plane = stage.plane();
    std::iter::from_fn(|| plane.told())
        .any(|told| matches!(told, ToPlane::Plugged { nic } if nic == "edge.wan"))
}

fn counted(stage: &mut Stage) -> String {
    let mut client = stage.client(&Request::Counters { router: Some("edge".to_owned()) });
    stage.plane().serve(&Default::default());
    stage.turn().expect("it goes on");
    format!("{:?}", client.next_answer().expect("it is answered"))
}

#[test]
fn cables_about_which_nobody_answers_hold_nobody_up() {
    let (mut stage, _answer) = hung();
    for _ in 0..5 {
        stage.plane().serve(&Default::default());
        stage.after(SECOND).expect("it goes on");
        let answer = counted(&mut stage);
        assert!(!answer.contains("drop_full"), "{answer}");
    }
    assert!(!stage.plane().was_killed());
}

#[test]
fn what_was_seen_is_told_when_it_is_there() {
    let (mut stage, answer) = hung();
    answer.send(true).expect("it is waited for");
    stage.until(|stage| !stage.supervisor().link_monitor.lost.is_empty());
    assert!(counted(&mut stage).contains("edge.wan.tap.kernel.drop_full\": 7"));
    assert!(!is_told(&stage), "it is the first look");
    answer.send(false).expect("it is waited for");
    stage.after(SECOND).expect("it goes on");
    stage.until(|stage| is_told(stage));
}

/// The result of a check says nothing about a link that replaced the checked one.
#[test]
fn a_look_at_what_was_there_before_is_nothing() {
    let (mut stage, answer) = hung();
    let supervisor = stage.supervisor();
    let plan = supervisor.running.plan.clone();
    supervisor.resources.adopt(Default::default(), &plan, &mut supervisor.link_jobs);
    answer.send(true).expect("it is waited for");
    stage.until(|stage| stage.supervisor().link_monitor.watched().is_none());
    assert!(stage.supervisor().link_monitor.lost.is_empty());
}
