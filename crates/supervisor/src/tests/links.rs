//! The kernel does not answer requests about links because another process changes interfaces: the event loop
//! does not wait.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::{Answer, Request};
use link::ToPlane;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use uplink::{Cable, Tap};

use super::stage::Stage;
use crate::link_monitor::LinkCheckResult;

const SECOND: Duration = Duration::from_secs(1);

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"process\"\n\
                    [[router.nic]]\nname = \"wan\"\nattach = \"tap:t0\"\naddress = \"192.0.2.1/24\"\n";

/// Stand-in for the TAP of the file.
fn tap() -> Tap {
    let queue = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    Tap::from_descriptors("t0", vec![queue], Default::default()).expect("a TAP")
}

/// A cable with and without carrier, and one of another MTU.
const RUNNING: Cable = Cable { running: true, mac: None, mtu: Some(1500) };
const PULLED: Cable = Cable { running: false, ..RUNNING };
const NARROW: Cable = Cable { mtu: Some(1400), ..RUNNING };

/// A run with a link whose check does not finish until the test says what is seen.
fn hung() -> (Stage, Sender<Cable>) {
    hung_with(FILE)
}

fn hung_with(file: &str) -> (Stage, Sender<Cable>) {
    let mut stage = Stage::up(file);
    let (answer, answers) = channel();
    let answers = Mutex::new(answers);
    let plan = stage.supervisor().running.plan.clone();
    let at = plan.nics().next().expect("a NIC");
    stage.supervisor().resources.put(at, attach::link(tap()));
    stage.supervisor().link_monitor.see = Arc::new(move |look| {
        let cable = answers.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
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
    answer.send(RUNNING).expect("it is waited for");
    stage.until(|stage| !stage.supervisor().link_monitor.lost.is_empty());
    assert!(counted(&mut stage).contains("edge.wan.tap.kernel.drop_full\": 7"));
    assert!(!is_told(&stage), "it is the first look");
    answer.send(PULLED).expect("it is waited for");
    stage.after(SECOND).expect("it goes on");
    stage.until(|stage| is_told(stage));
}

#[test]
fn a_control_plane_is_told_that_a_link_takes_less_than_its_nic_and_then_as_much() {
    let (mut stage, answer) = hung_with(&FILE.replace("engine", "control = {}\nengine"));
    let mut told = stage.supervisor().controls.overhear_mtus("edge");
    for (cable, mtu) in [(NARROW, Some(1400)), (RUNNING, None)] {
        answer.send(cable).expect("it is waited for");
        let narrow: BTreeMap<String, u32> = mtu.map(|mtu| ("wan".to_owned(), mtu)).into_iter().collect();
        stage.until(|_| told().as_ref() == Some(&narrow));
        stage.after(SECOND).expect("it goes on");
    }
    assert!(!is_told(&stage), "the same host is at its end");
}

/// The result of a check says nothing about a link that replaced the checked one.
#[test]
fn a_look_at_what_was_there_before_is_nothing() {
    let (mut stage, answer) = hung();
    let supervisor = stage.supervisor();
    let plan = supervisor.running.plan.clone();
    supervisor.resources.adopt(Default::default(), &plan, &mut supervisor.link_jobs);
    answer.send(RUNNING).expect("it is waited for");
    stage.until(|stage| stage.supervisor().link_monitor.watched().is_none());
    assert!(stage.supervisor().link_monitor.lost.is_empty());
}

/// During a change the data plane may follow a plan in which the NIC has another link.
#[test]
fn a_link_that_was_made_again_is_handed_over_when_a_change_is_over() {
    let mut stage = Stage::up(FILE);
    let plan = stage.plan().clone();
    stage.supervisor().resources.put(plan.nics().next().expect("a NIC"), attach::link(tap()));
    let [router, key, value] = ["edge", "limit", "5kpps"].map(str::to_owned);
    let _client = stage.client(&Request::Set { router, key, value });
    let plane = stage.plane();
    let (id, _) = plane.is_to_become().expect("it is to follow");
    let wanted = crate::resources::wanted(&plan, "edge.wan").expect("it is there");
    stage.supervisor().link_repair.has_opened(wanted, attach::link(tap()));
    is_ready(stage.supervisor().link_repair.watched().expect("it is at work"));
    stage.turn().expect("it goes on");
    let is_handed = || {
        std::iter::from_fn(|| plane.told())
            .any(|told| matches!(told, ToPlane::Replace { nic, .. } if nic == "edge.wan"))
    };
    assert!(!is_handed(), "the change is not made yet");
    plane.answer(id, Ok(Answer::Applied { changes: Vec::new(), dry_run: false }));
    stage.turn().expect("it goes on");
    assert!(is_handed());
}

/// Waits until a descriptor can be read.
fn is_ready(descriptor: BorrowedFd<'_>) {
    let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
    let mut fds = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    assert_eq!(poll(&mut fds, Some(&patience)), Ok(1));
}
