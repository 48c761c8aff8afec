use proptest::prelude::*;

use super::*;
use Daemon::{Bgp, Static, Zebra};

const ALL: [Daemon; 3] = [Zebra, Static, Bgp];

/// A control plane that came up at time 0.
fn up() -> Supervision {
    let mut plane = Supervision::new(ALL);
    assert_eq!(plane.turn(0), [Act::Start(Zebra)]);
    assert_eq!(plane.turn(10), [], "the others wait for zebra");
    plane.take(News::Answers(Zebra), 20);
    assert_eq!(plane.turn(20), [Act::Start(Static), Act::Start(Bgp)]);
    plane.take(News::Answers(Bgp), 30);
    assert_eq!((plane.turn(30), plane.health()), (vec![], Health::Starting));
    plane.take(News::Answers(Static), 40);
    assert_eq!(plane.turn(40), [Act::Load(None)]);
    plane.take(News::Loaded { well: true }, 50);
    assert_eq!((plane.turn(50), plane.health()), (vec![], Health::Settling));
    plane
}

#[test]
fn what_is_stale_is_given_up_once_all_has_settled() {
    let mut plane = up();
    assert_eq!(plane.due(), Some(50 + SETTLING));
    assert_eq!(plane.turn(49 + SETTLING), []);
    assert_eq!((plane.turn(50 + SETTLING), plane.health()), (vec![Act::Settled], Health::Well));
    assert_eq!((plane.turn(60 + SETTLING), plane.due()), (vec![], None));
}

#[test]
fn nothing_is_given_up_that_a_daemon_may_still_ask_for_again() {
    let mut plane = up();
    let end = 40 + SETTLING;
    plane.take(News::Ended(Bgp), end);
    assert_eq!(plane.turn(end + 100), [Act::Start(Bgp)], "it would have settled by now");
    plane.take(News::Answers(Bgp), end + 120);
    assert_eq!(plane.turn(end + 120), [Act::Load(Some(Bgp))]);
    plane.take(News::Loaded { well: true }, end + 130);
    assert_eq!(plane.turn(end + 129 + SETTLING), []);
    assert_eq!(plane.turn(end + 130 + SETTLING), [Act::Settled]);
}

#[test]
fn a_daemon_that_cannot_be_started_any_more_is_not_waited_for_for_ever() {
    let mut plane = up();
    let end = 40 + SETTLING;
    plane.take(News::Ended(Bgp), end);
    let (mut now, mut has_settled) = (end, false);
    while !has_settled {
        now = plane.due().expect("a start");
        assert!(now <= end + SETTLING, "it waits for ever");
        for act in plane.turn(now) {
            match act {
                Act::Start(daemon) => plane.take(News::Ended(daemon), now),
                act => has_settled |= act == Act::Settled,
            }
        }
    }
    assert_eq!(now, end + SETTLING);
}

#[test]
fn one_that_ends_is_started_after_a_pause_and_loaded_alone() {
    let mut plane = up();
    plane.take(News::Ended(Bgp), 1000);
    assert_eq!((plane.turn(1099), plane.health(), plane.due()), (vec![], Health::Broken(Bgp), Some(1100)));
    assert_eq!(plane.turn(1100), [Act::Start(Bgp)]);
    plane.take(News::Answers(Bgp), 1200);
    assert_eq!(plane.turn(1200), [Act::Load(Some(Bgp))]);
    assert_eq!(plane.turn(1300), [], "one load at a time");
    plane.take(News::Loaded { well: true }, 1300);
    assert_eq!((plane.turn(1300), plane.health(), plane.restarts(Bgp)), (vec![], Health::Settling, 1));
    assert_eq!(plane.due(), Some(1300 + SETTLING), "the wait begins again");
}

#[test]
fn one_that_is_started_again_during_a_load_is_loaded_after_it() {
    let mut plane = up();
    plane.reload();
    assert_eq!(plane.turn(100), [Act::Load(None)]);
    plane.take(News::Ended(Bgp), 200);
    assert_eq!(plane.turn(300), [Act::Start(Bgp)]);
    plane.take(News::Answers(Bgp), 400);
    assert_eq!(plane.turn(400), [], "one load at a time");
    plane.take(News::Loaded { well: true }, 500);
    assert_eq!(plane.turn(500), [Act::Load(Some(Bgp))]);
}

#[test]
fn pauses_double_up_to_ten_seconds_and_a_long_life_forgives() {
    let mut plane = up();
    let (mut now, mut pauses) = (1000, Vec::new());
    for _ in 0..9 {
        plane.take(News::Ended(Bgp), now);
        let start = plane.due().expect("a start");
        pauses.push(start - now);
        now = start;
        assert_eq!(plane.turn(now), [Act::Start(Bgp)]);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    plane.take(News::Answers(Bgp), now);
    plane.turn(now);
    now += LONG_LIFE;
    plane.take(News::Ended(Bgp), now);
    plane.turn(now);
    assert_eq!(plane.due(), Some(now + 100));
}

#[test]
fn the_others_outlive_zebra() {
    let mut plane = up();
    plane.take(News::Ended(Zebra), 1000);
    assert_eq!(plane.turn(1100), [Act::Start(Zebra)]);
    plane.take(News::Answers(Zebra), 1150);
    assert_eq!(plane.turn(1150), [Act::Load(Some(Zebra))]);
}

#[test]
fn a_silent_daemon_is_killed_and_started_again() {
    let mut plane = Supervision::new(ALL);
    plane.turn(0);
    assert_eq!(plane.due(), Some(PATIENCE));
    assert_eq!(plane.turn(PATIENCE), [Act::Kill(Zebra)]);
    assert_eq!(plane.turn(PATIENCE + 1), []);
    plane.take(News::Ended(Zebra), PATIENCE + 2);
    assert_eq!(plane.turn(PATIENCE + 102), [Act::Start(Zebra)]);
}

#[test]
fn a_load_that_hangs_is_killed_and_one_that_fails_is_done_for_all() {
    let mut plane = up();
    plane.reload();
    assert_eq!(plane.turn(100), [Act::Load(None)]);
    assert_eq!(plane.turn(100 + LOADING), [Act::KillLoad]);
    plane.take(News::Loaded { well: false }, 101 + LOADING);
    assert_eq!(plane.turn(101 + LOADING), [], "what was accepted is in force");
    let now = 200 + LOADING;
    plane.take(News::Ended(Bgp), now);
    assert_eq!(plane.turn(now + 100), [Act::Start(Bgp)]);
    plane.take(News::Answers(Bgp), now + 100);
    assert_eq!(plane.turn(now + 100), [Act::Load(Some(Bgp))]);
    plane.take(News::Loaded { well: false }, now + 101);
    assert_eq!(plane.turn(now + 101), [Act::Load(None)]);
}

#[test]
fn zebra_ends_last_and_what_does_not_end_is_killed() {
    let mut plane = up();
    plane.stop();
    assert_eq!(
        (plane.turn(1000), plane.health()),
        (vec![Act::Terminate(Static), Act::Terminate(Bgp)], Health::Stopped)
    );
    plane.take(News::Ended(Static), 1001);
    assert_eq!(plane.turn(1001), []);
    assert_eq!(plane.turn(1000 + GRACE), [Act::Kill(Bgp)]);
    plane.take(News::Ended(Bgp), 1001 + GRACE);
    assert_eq!(plane.turn(1001 + GRACE), [Act::Terminate(Zebra)]);
    assert!(!plane.is_stopped());
    plane.take(News::Ended(Zebra), 1002 + GRACE);
    assert!(plane.is_stopped());
    assert_eq!(plane.turn(9999 + GRACE), []);
}

fn news() -> impl Strategy<Value = News> {
    let daemon = prop::sample::select(ALL.to_vec());
    prop_oneof![
        daemon.clone().prop_map(News::Answers),
        daemon.prop_map(News::Ended),
        any::<bool>().prop_map(|well| News::Loaded { well }),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_no_daemon_runs_twice_and_all_come_up_in_the_end(
        news in prop::collection::vec((news(), 0u64..40_000), 0..60), stops: bool,
    ) {
        let (mut plane, mut now, mut running) = (Supervision::new(ALL), 0, std::collections::BTreeSet::new());
        let mut loads = 0i32;
        for (news, later) in news {
            for act in plane.turn(now) {
                match act {
                    Act::Start(daemon) => prop_assert!(running.insert(daemon), "{daemon} runs already"),
                    Act::Load(_) => loads += 1,
                    Act::Kill(daemon) | Act::Terminate(daemon) => prop_assert!(running.contains(&daemon)),
                    Act::KillLoad | Act::Settled => {}
                }
            }
            prop_assert!(loads <= 1);
            now += later;
            match news {
                News::Answers(daemon) | News::Ended(daemon) if !running.contains(&daemon) => continue,
                News::Ended(daemon) => { running.remove(&daemon); }
                News::Loaded { .. } if loads == 0 => continue,
                News::Loaded { .. } => loads = 0,
                News::Answers(_) => {}
            }
            plane.take(news, now);
        }
        if stops { plane.stop(); }
        // From now on everything goes well.
        for _ in 0..60 {
            now += 11_000;
            for act in plane.turn(now) {
                match act {
                    Act::Start(daemon) => plane.take(News::Answers(daemon), now),
                    Act::Load(_) | Act::KillLoad => plane.take(News::Loaded { well: true }, now),
                    Act::Kill(daemon) | Act::Terminate(daemon) => plane.take(News::Ended(daemon), now),
                    Act::Settled => {}
                }
            }
        }
        prop_assert_eq!(plane.health(), if stops { Health::Stopped } else { Health::Well });
        prop_assert_eq!(plane.is_stopped(), stops);
    }
}
