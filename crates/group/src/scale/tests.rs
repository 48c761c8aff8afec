use proptest::prelude::*;

use super::*;

const LOOK: Duration = Duration::from_millis(100);

fn bounds(min: usize, max: usize) -> Bounds {
    Bounds { min, max, target: 700 }
}

/// Members under a load, which is looked at ten times a second.
struct World {
    controller: Controller,
    members: usize,
    now: Duration,
    changes: Vec<(Duration, usize)>,
}

impl World {
    fn new(bounds: Bounds, members: usize) -> Self {
        let controller = Controller::new(bounds, Rules::default());
        Self { controller, members, now: Duration::ZERO, changes: Vec::new() }
    }

    /// Lets a load that needs so many thousandths last for so long. Members are never busier than they can be: what they cannot do is lost.
    fn last(&mut self, time: Duration, mut load: impl FnMut() -> u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += LOOK;
            let (offered, most) = (load(), self.members as u64 * WHOLE);
            let load = Load { busy: offered.min(most), is_losing: offered > most };
            let wanted = self.controller.wanted(self.members, load, self.now);
            if wanted != self.members {
                self.members = wanted;
                self.changes.push((self.now, wanted));
            }
        }
    }

    fn steady(&mut self, seconds: u64, load: u64) {
        self.last(Duration::from_secs(seconds), || load);
    }
}

#[test]
fn more_come_soon_and_go_late() {
    let mut world = World::new(bounds(1, 8), 1);
    world.steady(1, 600);
    assert_eq!(world.changes, []);
    // 2000 thousandths need three; the one that is there shows no more than that it is full.
    world.steady(2, 2000);
    assert_eq!(world.members, 3);
    assert!(world.changes.iter().all(|(when, _)| *when <= Duration::from_secs(2)), "{:?}", world.changes);
    world.steady(4, 300);
    assert_eq!(world.members, 3, "not yet");
    world.steady(20, 300);
    assert_eq!(world.members, 1);
}

#[test]
fn a_short_burst_changes_nothing() {
    let mut world = World::new(bounds(1, 8), 2);
    for _ in 0..50 {
        world.last(LOOK * 3, || 1900);
        world.last(LOOK, || 1200);
    }
    assert_eq!(world.changes, []);
}

#[test]
fn bounds_hold_at_once() {
    let mut world = World::new(bounds(2, 4), 1);
    world.last(LOOK, || 0);
    assert_eq!(world.members, 2);
    world.steady(60, 100_000);
    assert_eq!(world.members, 4);
    world.controller.set_bounds(bounds(1, 3));
    world.last(LOOK, || 100_000);
    assert_eq!(world.members, 3);
    world.steady(60, 0);
    assert_eq!(world.members, 1);
}

#[test]
fn losses_ask_for_more_although_nobody_seems_busy() {
    let mut controller = Controller::new(bounds(1, 3), Rules::default());
    let load = Load { busy: 100, is_losing: true };
    assert_eq!(controller.wanted(1, load, LOOK), 1);
    assert_eq!(controller.wanted(1, load, LOOK * 4), 2);
    assert_eq!(controller.wanted(3, load, LOOK * 90), 3);
    assert_eq!(controller.wanted(3, load, LOOK * 900), 3, "none goes while frames are lost");
}

#[test]
fn waves_make_it_patient() {
    let mut world = World::new(bounds(1, 2), 1);
    for _ in 0..40 {
        world.steady(4, 1200);
        world.steady(8, 200);
    }
    let goes = world.changes.iter().filter(|(_, members)| *members == 1).count();
    assert!(goes <= 3, "{:?}", world.changes);
    world.steady(700, 200);
    assert_eq!(world.members, 1, "in the end it goes");
}

fn any_bounds() -> impl Strategy<Value = Bounds> {
    (1..5_usize, 0..12_usize, 300..950_u64).prop_map(|(min, more, target)| Bounds {
        min,
        max: min + more,
        target,
    })
}

proptest! {
    #[test]
    fn a_load_that_stands_still_leads_to_a_number_that_does(
        bounds in any_bounds(), members in 1..20_usize, load in 0..20_000_u64,
    ) {
        let mut world = World::new(bounds, members);
        world.steady(200, load);
        let settled = world.changes.len();
        let reached = world.members;
        world.steady(600, load);
        prop_assert_eq!((world.changes.len(), world.members), (settled, reached));
        prop_assert!((bounds.min..=bounds.max).contains(&reached));
        let is_enough = load <= bounds.target * reached as u64 || reached == bounds.max;
        let is_needed = load * WHOLE > bounds.target * (reached as u64 - 1) * 800 || reached == bounds.min;
        prop_assert!(is_enough && is_needed, "{reached} members for {load}");
    }

    #[test]
    fn a_load_that_trembles_does_not_move_members_to_and_fro(
        load in 500..8000_u64, noise in prop::collection::vec(0..160_u64, 997),
    ) {
        let mut world = World::new(bounds(1, 16), 1);
        let mut turn = 0;
        world.last(Duration::from_secs(600), || {
            turn += 1;
            load * (920 + noise[turn % noise.len()]) / 1000
        });
        let members = world.changes.iter().map(|(_, members)| *members);
        prop_assert!(members.is_sorted(), "{:?}", world.changes);
    }

    #[test]
    fn whatever_the_load_is_the_bounds_hold(
        bounds in any_bounds(), loads in prop::collection::vec((any::<u64>(), any::<bool>(), 0..20_u32), 1..100),
    ) {
        let mut controller = Controller::new(bounds, Rules::default());
        let (mut members, mut now) = (3, Duration::ZERO);
        for (busy, is_losing, looks) in loads {
            now += LOOK * looks;
            members = controller.wanted(members, Load { busy, is_losing }, now);
            prop_assert!((bounds.min..=bounds.max).contains(&members));
        }
    }
}
