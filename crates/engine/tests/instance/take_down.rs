//! All other routers are looked after while the take-down of a router hangs, whatever caused it.

use std::path::Path;
use std::time::{Duration, Instant};

use engine::{Instance, Plugs};
use telemetry::Kind;

use crate::traffic::{PATIENCE, alone, plan, router, wait_for};
use crate::two::{Two, text};

#[test]
fn others_are_looked_after_while_one_is_stopped() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    assert!(two.others_live_while_it_ends(|instance| instance.stop_router("slow").expect("it is there")));
    assert!(!two.is_running("slow"));
    assert!(two.until(Kind::Restarted).starts_with(&[Kind::Stopped, Kind::Failed]));
}

#[test]
fn others_are_looked_after_while_one_is_restarted() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    let before = two.last("slow");
    assert!(
        two.others_live_while_it_ends(|instance| instance.restart_router("slow").expect("it starts again"))
    );
    assert!(two.is_running("slow") && two.last("slow") != before);
}

#[test]
fn others_are_looked_after_while_one_is_replaced_or_removed() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    for file in [text("memory = '96M'"), router("up", 1, "")] {
        let apply = |instance: &mut Instance| {
            let changes = instance.apply(&plan(&file), Plugs::new()).expect("it is applied");
            assert_eq!(changes.len(), 1, "{changes:?}");
        };
        assert!(two.others_live_while_it_ends(apply));
        wait_for("the other one", || {
            two.look(Duration::from_millis(1));
            two.is_running("up")
        });
    }
    assert_eq!(two.instance.status().len(), 1);
}

#[test]
fn one_that_has_failed_is_not_started_again_before_it_is_down() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    two.known.hold("slow");
    two.kill("slow");
    assert_eq!(two.until(Kind::Restarting), [Kind::Failed, Kind::Restarting]);
    let started = two.known.of("slow").len();
    // Its pause is over, while another router fails and is restarted.
    two.kill("up");
    assert_eq!(two.until(Kind::Restarting), [Kind::Failed, Kind::Restarting]);
    two.look(Duration::from_secs(1));
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("up") && !two.is_running("slow"));
    assert_eq!(two.known.of("slow").len(), started);
    two.known.let_go();
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    assert!(two.is_running("slow"));
}

/// Runs alone: on this clock no vCPU would have time to answer.
#[test]
fn one_that_is_never_down_is_left_behind_and_started_again() {
    let _turn = alone();
    let Some(mut two) = Two::of(&router("slow", 2, "")) else { return };
    two.known.hold("slow");
    two.kill("slow");
    two.until(Kind::Restarting);
    let started = two.known.of("slow").len();
    let mut told = Vec::new();
    // A quarter of a second is the most that one look counts.
    for _ in 0..1000 {
        assert_eq!(two.known.of("slow").len(), started);
        told.extend(two.look(Duration::from_millis(250)));
        if told.contains(&Kind::Notice) {
            break;
        }
    }
    assert_eq!(told, [Kind::Notice]);
    assert_eq!(two.until(Kind::Restarted), [Kind::Restarted]);
    two.known.let_go();
}

#[test]
fn all_go_down_at_the_same_time_at_the_end() {
    let _turn = alone();
    let Some(Two { known, instance, .. }) = Two::start() else { return };
    known.hold("up");
    known.hold("slow");
    let both = std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            let start = Instant::now();
            while known.waiting() < 2 && start.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(2));
            }
            let both = known.waiting() == 2;
            known.let_go();
            both
        });
        drop(instance);
        player.join().expect("no panic")
    });
    assert!(both, "one waits for the other");
}

/// The slow router hands the rings of a NIC to a vhost-user peer that never connects.
fn without_peer(folder: &Path) -> Option<Two> {
    let attach = format!("vhost-user-frontend:{}", folder.join("peer.sock").display());
    let slow = router("slow", 2, "").replacen(
        "attach = 'null'",
        &format!("attach = '{attach}'\nsocket = 'listen'"),
        1,
    );
    Two::of(&(router("up", 1, "") + &slow))
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn the_peer_of_one_that_is_started_again_is_not_waited_for() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut two) = without_peer(folder.path()) else { return };
    two.kill("slow");
    two.until(Kind::Restarting);
    let started = two.known.of("slow").len();
    for later in [100 * MS, 499 * MS] {
        assert_eq!(two.look(later), []);
        assert_eq!(two.known.of("slow").len(), started, "it waits for its peer");
    }
    wait_for("it to come up", || two.look(MS).contains(&Kind::Restarted));
    assert!(two.is_running("slow"));
}

#[test]
fn others_are_looked_after_while_one_waits_for_its_peer() {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let Some(mut two) = without_peer(folder.path()) else { return };
    let start = Instant::now();
    // On a busy host there may have been no time to restart the other router meanwhile.
    loop {
        assert!(start.elapsed() < PATIENCE, "nobody looked after the others");
        two.instance.stop_router("slow").expect("it is there");
        let before = two.known.order().len();
        two.kill("up");
        two.instance.start_router("slow").expect("it comes up without its peer");
        if two.known.order()[before..] == ["up", "slow"] {
            break;
        }
        wait_for("the other one", || two.look(MS).contains(&Kind::Restarted));
    }
}
