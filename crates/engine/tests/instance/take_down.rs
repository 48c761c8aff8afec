//! While a router is taken down that does not end, all others are looked after, whoever wants it down.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::{Instance, Plugs, State};
use rustix::process::{Pid, Signal, kill_process};
use telemetry::Kind;

use crate::known::Known;
use crate::traffic::{PATIENCE, alone, plan, router, wait_for};

/// Two routers, and their time.
struct Two {
    known: Arc<Known>,
    instance: Instance,
    now: Instant,
}

fn text(slow: &str) -> String {
    router("up", 1, "") + &router("slow", 2, slow)
}

impl Two {
    /// None where this host has no such processes.
    fn start() -> Option<Self> {
        Self::of(&text(""))
    }

    fn of(text: &str) -> Option<Self> {
        let known = Known::new()?;
        let instance = known.start(text, Plugs::new());
        Some(Self { known, instance, now: Instant::now() })
    }

    fn last(&self, router: &str) -> Pid {
        *self.known.of(router).last().expect("it was started")
    }

    fn kill(&self, router: &str) {
        kill_process(self.last(router), Signal::KILL).expect("it is there");
    }

    /// Looks once, so much later; what has happened.
    fn look(&mut self, later: Duration) -> Vec<Kind> {
        self.now += later;
        self.instance.look_after(self.now).into_iter().map(|event| event.kind).collect()
    }

    /// Looks until this has happened; what else has.
    #[track_caller]
    fn until(&mut self, what: Kind) -> Vec<Kind> {
        let mut told = Vec::new();
        wait_for(what.name(), || {
            told.extend(self.look(Duration::ZERO));
            told.contains(&what)
        });
        told
    }

    fn is_running(&self, name: &str) -> bool {
        self.instance.status().iter().any(|router| router.name == name && router.state == State::Running)
    }

    /// Holds the slow one, of which `order` wants it to be down, kills the other one meanwhile, and lets go when that has another
    /// process. Whether it had one before the order was carried out.
    fn others_live_while(&mut self, order: impl FnOnce(&mut Instance)) -> bool {
        let (known, up, is_over) = (self.known.clone(), self.last("up"), AtomicBool::new(false));
        known.hold("slow");
        std::thread::scope(|scope| {
            let player = scope.spawn(|| {
                kill_process(up, Signal::KILL).expect("it is there");
                let (start, over) = (Instant::now(), || is_over.load(Ordering::Acquire));
                while known.of("up").last() == Some(&up) && !over() && start.elapsed() < PATIENCE {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let others_lived = known.of("up").last() != Some(&up) && !over();
                known.let_go();
                others_lived
            });
            order(&mut self.instance);
            is_over.store(true, Ordering::Release);
            player.join().expect("no panic")
        })
    }
}

#[test]
fn others_are_looked_after_while_one_is_stopped() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    assert!(two.others_live_while(|instance| instance.stop_router("slow").expect("it is there")));
    assert!(!two.is_running("slow"));
    assert!(two.until(Kind::Restarted).starts_with(&[Kind::Stopped, Kind::Failed]));
}

#[test]
fn others_are_looked_after_while_one_is_restarted() {
    let _turn = alone();
    let Some(mut two) = Two::start() else { return };
    let before = two.last("slow");
    assert!(two.others_live_while(|instance| instance.restart_router("slow").expect("it starts again")));
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
        assert!(two.others_live_while(apply));
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
    // Its pause is over, and another one fails and is started again.
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

/// It is alone: nobody has time to answer on this clock.
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

/// The slow one hands the rings of a NIC to a peer, which never comes.
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
    // On a busy host nobody may have had the time to start the other one again meanwhile.
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
