//! All other routers are looked after while the launch of a router hangs, whatever caused the launch.

use std::time::Duration;

use engine::{Instance, Plugs, State};
use telemetry::Kind;

use crate::traffic::{alone, plan, router, set, wait_for};
use crate::two::{Two, text};

/// Maximum time that one look adds to the elapsed time of a launch.
const STEP: Duration = Duration::from_millis(250);

#[test]
fn others_are_looked_after_while_one_is_started() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    two.instance.stop_router("slow").expect("it is there");
    two.known.hold_start("slow");
    assert!(two.others_live_while(|instance| instance.start_router("slow").expect("it starts")));
    assert!(two.is_running("slow"));
}

#[test]
fn others_are_looked_after_while_one_is_added_or_replaced() {
    let _turn = alone();
    let Some(mut two) = Two::of(&router("up", 1, "")) else { return };
    for file in [text("engine = 'process'"), text("engine = 'process'\nmemory = '96M'")] {
        two.known.hold_start("slow");
        let apply = |instance: &mut Instance| {
            let changes = instance.apply(&plan(&file), Plugs::new()).expect("it is applied");
            assert_eq!(changes.len(), 1, "{changes:?}");
        };
        assert!(two.others_live_while(apply));
        assert!(two.is_running("slow"));
        wait_for("the other one", || {
            two.look(Duration::from_millis(1));
            two.is_running("up")
        });
    }
}

/// The slow router of this file fails, and is being launched again.
fn launching(text: &str) -> Option<Two> {
    let mut two = Two::of(text)?;
    two.known.hold_start("slow");
    two.kill("slow");
    assert_eq!(two.until(Kind::Restarting), [Kind::Failed, Kind::Restarting]);
    two.look(Duration::from_millis(100));
    wait_for("its launch", || {
        two.look(Duration::ZERO);
        two.known.waiting() == 1
    });
    Some(two)
}

#[test]
fn others_are_looked_after_while_one_is_started_again() {
    let _turn = alone();
    let Some(mut two) = launching(&text("")) else { return };
    two.kill("up");
    assert_eq!(two.until(Kind::Restarting), [Kind::Failed, Kind::Restarting]);
    two.look(Duration::from_millis(100));
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("up") && !two.is_running("slow"));
    two.known.let_go();
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("slow"));
}

#[test]
fn one_whose_launch_takes_too_long_is_left_behind_and_launched_again() {
    let _turn = alone();
    let Some(mut two) = launching(&router("slow", 2, "")) else { return };
    let started = two.known.of("slow").len();
    let mut told = Vec::new();
    for _ in 0..1000 {
        told.extend(two.look(STEP));
        if told.contains(&Kind::Restarting) {
            break;
        }
    }
    assert_eq!(told, [Kind::Failed, Kind::Restarting]);
    let status = two.instance.status();
    let slow = status.iter().find(|router| router.name == "slow").expect("it is there");
    let why = slow.reason.as_deref().expect("a reason");
    assert!(why.contains("its launch takes more than 30s, and is left behind"), "{why}");
    two.known.let_go();
    two.look(STEP);
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("slow"));
    // The earlier one has started as well, and was taken down.
    wait_for("both", || two.known.of("slow").len() == started + 2);
}

fn state(two: &Two) -> Option<State> {
    two.instance.status().iter().find(|router| router.name == "slow").map(|slow| slow.state)
}

#[test]
fn one_that_is_being_launched_is_stopped_and_started() {
    let _turn = alone();
    let Some(mut two) = launching(&text("")) else { return };
    let order = |instance: &mut Instance| instance.stop_router("slow").expect("it is there");
    assert!(two.others_live_while(order));
    assert_eq!(state(&two), Some(State::Stopped));
    assert_eq!(two.instance.last_start("slow"), None);
    two.instance.start_router("slow").expect("it starts");
    assert!(two.is_running("slow"));
    let told = two.instance.last_start("slow").unwrap_or_default();
    let steps: Vec<&str> = told.split(", ").filter_map(|step| step.split(' ').next()).collect();
    assert_eq!(steps, ["machine", "nics", "threads", "boot"]);
}

#[test]
fn another_restart_policy_does_not_end_a_launch() {
    let _turn = alone();
    let Some(mut two) = launching(&text("")) else { return };
    set(&mut two.instance, "slow", "restart", "never").expect("a policy");
    assert_eq!(state(&two), Some(State::Waiting));
    two.known.let_go();
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("slow"));
}
