//! Spare members of groups: they wake without waiting for anything to be opened, and are followed by others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::bail;
use api::{Answer, Client, Request};
use config::Plan;
use link::ToSupervisor;

use super::stage::Stage;

const FILE: &str = "[switch.lan]\n[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nspare = 1\n\
                    engine = \"process\"\n\
                    [[group.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"198.51.100.1/24\"\n";
/// More than a member that has woken is left alone for.
const SOON: Duration = Duration::from_millis(200);
/// More than there is between two attempts.
const LATER: Duration = Duration::from_secs(11);

/// Members in all, and how many of them are parked.
fn numbers(plan: &Plan) -> (u32, u32) {
    (plan.groups[0].members, plan.groups[0].parked)
}

fn set(stage: &mut Stage, key: &str, value: &str) -> Client {
    let [router, key, value] = ["core", key, value].map(str::to_owned);
    stage.client(&Request::Set { router, key, value })
}

/// The data plane follows the next change. Returns the numbers of its plan.
fn followed(stage: &mut Stage) -> (u32, u32) {
    let plan = stage.plane().follows().expect("it is to follow");
    stage.turn().expect("it goes on");
    numbers(&plan)
}

/// What a change needs is opened.
fn is_opened(stage: &mut Stage) {
    assert!(stage.supervisor().changes.is_prepared());
    stage.until(|stage| !stage.supervisor().changes.is_prepared());
}

/// The data plane answers all that it was asked.
fn answers(stage: &mut Stage) {
    stage.plane().serve(&BTreeMap::new());
    stage.plane().say(&ToSupervisor::Pong);
    stage.turn().expect("it goes on");
}

#[test]
fn a_spare_member_wakes_at_once_and_another_one_is_started_in_its_place() {
    let mut stage = Stage::up(FILE);
    stage.supervisor().changes.file_opener.open = Arc::new(|_, _| Ok(Default::default()));
    assert_eq!(numbers(stage.plan()), (3, 1));
    let mut client = set(&mut stage, "members", "3");
    assert!(!stage.supervisor().changes.is_prepared(), "nothing has to be opened");
    assert_eq!(followed(&mut stage), (3, 0));
    assert!(matches!(client.next_answer(), Ok(Answer::Done { .. })));
    assert!(stage.supervisor().changes.is_idle(), "the one that has woken is left alone for a moment");
    assert!(stage.supervisor().spares_due().is_some());
    stage.after(SOON).expect("it goes on");
    is_opened(&mut stage);
    assert_eq!(followed(&mut stage), (4, 1));
    assert_eq!(numbers(stage.plan()), (4, 1));
    assert!(stage.supervisor().lock.has("core_3"));
    stage.turn().expect("it goes on");
    assert!(stage.supervisor().changes.is_idle() && stage.supervisor().spares_due().is_none());
    let mut client = set(&mut stage, "spare", "0");
    is_opened(&mut stage);
    assert_eq!(followed(&mut stage), (3, 0));
    assert!(matches!(client.next_answer(), Ok(Answer::Done { .. })));
    assert!(stage.supervisor().spares_due().is_none() && !stage.supervisor().lock.has("core_3"));
}

#[test]
fn a_spare_member_that_cannot_be_had_is_reported_once_and_tried_again() {
    let mut stage = Stage::up(FILE);
    let is_refused = Arc::new(AtomicBool::new(true));
    let refuses = is_refused.clone();
    stage.supervisor().changes.file_opener.open = Arc::new(move |_, _| {
        if refuses.load(Ordering::Relaxed) {
            bail!("no memory");
        }
        Ok(Default::default())
    });
    let _client = set(&mut stage, "members", "3");
    assert_eq!(followed(&mut stage), (3, 0));
    for pause in [SOON, LATER] {
        answers(&mut stage);
        stage.after(pause).expect("it goes on");
        is_opened(&mut stage);
        assert_eq!((stage.lines("no spare member can be started").len(), numbers(stage.plan())), (1, (3, 0)));
        assert!(stage.supervisor().changes.is_idle(), "not at once");
    }
    is_refused.store(false, Ordering::Relaxed);
    answers(&mut stage);
    stage.after(LATER).expect("it goes on");
    is_opened(&mut stage);
    assert_eq!(followed(&mut stage), (4, 1));
    assert_eq!(numbers(stage.plan()), (4, 1));
}
