//! The controller on a simulated core: weights, noise, a delay of one tick, and neighbours that come and go.

use std::time::Duration;

use super::*;

/// Tick of the controller, in seconds.
const TICK: f64 = 0.1;
/// Ticks within which everything has to settle.
const SETTLED: usize = 10;

/// True state of a router, whatever the model assumes.
struct Plant {
    name: String,
    /// Cycles that a packet takes.
    cycles: f64,
    offered: f64,
    /// Share set by the controller; `None`: no promise, and this weight.
    share: Option<f64>,
    weight: f64,
    delivered: f64,
    dropped: f64,
}

/// A core and the routers that share it by weight.
struct World {
    plants: Vec<Plant>,
    controller: Controller,
    ticks: u32,
    /// Relative random variation of a tick's work.
    noise: f64,
    seed: u64,
    rest: f64,
    said: Vec<Adjustment>,
}

impl World {
    fn new(noise: f64) -> Self {
        let (plants, said, controller) = (Vec::new(), Vec::new(), Controller::new(vec![core(1)]));
        Self { plants, controller, ticks: 0, noise, seed: 7, rest: 1.0, said }
    }

    /// Adds a router with a promised rate; a packet costs `cycles`, and the model assumes `thought`.
    fn promised(&mut self, name: &str, pps: f64, (cycles, thought): (f64, f64)) {
        self.controller.promise(promise(name, pps, thought)).expect("it fits");
        self.add(name, cycles, pps);
        self.plants.last_mut().expect("it is there").share = Some(0.0);
    }

    fn add(&mut self, name: &str, cycles: f64, offered: f64) {
        let name = name.to_owned();
        self.plants.push(Plant {
            name,
            cycles,
            offered,
            share: None,
            weight: 1024.0,
            delivered: 0.0,
            dropped: 0.0,
        });
    }

    fn of(&mut self, name: &str) -> &mut Plant {
        self.plants.iter_mut().find(|plant| plant.name == name).expect("it is there")
    }

    /// Random number from -1 to 1.
    fn random(&mut self) -> f64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as f64 / f64::from(1_u32 << 30) - 1.0
    }

    /// Core time of each router: by weight, and never more than it can use.
    fn split(&self) -> Vec<f64> {
        let others: f64 =
            self.plants.iter().filter(|plant| plant.share.is_none()).map(|plant| plant.weight).sum();
        let weight = |plant: &Plant| {
            plant.share.map_or(plant.weight, |share| share * others.max(1.0) / self.rest.max(0.01))
        };
        let wants: Vec<f64> = self.plants.iter().map(|plant| plant.offered * plant.cycles / 2.6e9).collect();
        let mut got = vec![0.0; wants.len()];
        let mut left = 1.0;
        let mut hungry: Vec<usize> = (0..wants.len()).collect();
        while left > 1e-9 && !hungry.is_empty() {
            let sum: f64 = hungry.iter().map(|n| weight(&self.plants[*n])).sum();
            let share = |n: usize| left * weight(&self.plants[n]) / sum;
            let full: Vec<usize> =
                hungry.iter().copied().filter(|n| wants[*n] <= share(*n) + 1e-12).collect();
            if full.is_empty() {
                hungry.iter().for_each(|n| got[*n] = share(*n));
                break;
            }
            full.iter().for_each(|n| got[*n] = wants[*n]);
            left -= full.iter().map(|n| wants[*n]).sum::<f64>();
            hungry.retain(|n| !full.contains(n));
        }
        got
    }

    /// Simulates a tick with the shares set before; measurements are reported at its end.
    fn tick(&mut self) -> Vec<f64> {
        let got = self.split();
        let contended = got.iter().sum::<f64>() > 0.98;
        let mut rates = Vec::new();
        for (n, share) in got.into_iter().enumerate() {
            let more = 1.0 + self.noise * self.random();
            let plant = &mut self.plants[n];
            let rate = (share * 2.6e9 / plant.cycles * more).min(plant.offered);
            plant.delivered += rate * TICK;
            plant.dropped += (plant.offered - rate) * TICK;
            rates.push(rate);
        }
        self.ticks += 1;
        let measured: Vec<Measured<'_>> = self
            .plants
            .iter()
            .map(|plant| Measured {
                router: &plant.name,
                delivered: plant.delivered as u64,
                dropped: plant.dropped as u64,
                contended,
            })
            .collect();
        let now = Duration::from_secs_f64(f64::from(self.ticks) * TICK);
        // New shares take effect one tick later.
        for set in std::mem::replace(&mut self.said, self.controller.tick(now, &measured)) {
            let plant = self.plants.iter_mut().find(|plant| plant.name == set.router).expect("it is there");
            (plant.share, self.rest) = (Some(set.share), set.rest);
        }
        rates
    }

    /// A router's rate in each of some ticks, once all has settled.
    fn ticks_of(&mut self, name: &str) -> Vec<f64> {
        let n = self.plants.iter().position(|plant| plant.name == name).expect("it is there");
        (0..SETTLED).for_each(|_| drop(self.tick()));
        (0..50).map(|_| self.tick()[n]).collect()
    }

    /// A router's average rate, once all has settled.
    fn settled(&mut self, name: &str) -> f64 {
        self.ticks_of(name).iter().sum::<f64>() / 50.0
    }

    /// Checks the average rate, and without noise that of each tick.
    #[track_caller]
    fn keeps(&mut self, name: &str, pps: f64) {
        let ticks = self.ticks_of(name);
        let good = |rate: f64| (rate / pps - 1.0).abs() <= 0.05;
        let rate = ticks.iter().sum::<f64>() / 50.0;
        assert!(good(rate), "{name}: {rate:.0} of {pps:.0}");
        let steady = self.noise > 0.0 || ticks.iter().all(|rate| good(*rate));
        assert!(steady, "{name} of {pps:.0}: {ticks:.0?}");
    }
}

#[test]
fn a_promise_is_kept_while_a_neighbour_floods_in_steps() {
    for noise in [0.0, 0.08] {
        let mut world = World::new(noise);
        world.promised("edge", 300e3, (5500.0, 5500.0));
        world.add("flood", 5500.0, 0.0);
        for flood in [0.0, 100e3, 400e3, 2e6, 50e3, 2e6, 0.0] {
            world.of("flood").offered = flood;
            world.keeps("edge", 300e3);
        }
    }
}

#[test]
fn a_model_that_is_wrong_is_made_up_for_within_a_second() {
    for (thought, noise) in [(3500.0, 0.0), (4200.0, 0.05), (7500.0, 0.0), (7500.0, 0.05)] {
        let mut world = World::new(noise);
        world.promised("edge", 300e3, (5000.0, thought));
        world.of("edge").offered = 600e3;
        world.add("flood", 5500.0, 2e6);
        world.keeps("edge", 300e3);
        // Caches are shared, or a core is farther away: packets cost more from now on.
        world.of("edge").cycles = 6200.0;
        world.keeps("edge", 300e3);
    }
}

#[test]
fn three_and_eight_routers_are_promised_at_once() {
    for routers in [3, 8] {
        let (pps, each) = (130e3, 0.8 / routers as f64 * 2.6e9 / 130e3);
        let mut world = World::new(0.05);
        for n in 0..routers {
            // Some of them cost less than assumed, some more.
            let off = [1.0, 1.05, 0.9][n % 3];
            world.promised(&format!("r{n}"), pps, (each * off, each));
            world.of(&format!("r{n}")).offered = pps * [1.0, 3.0][n % 2];
        }
        world.add("flood", 4000.0, 3e6);
        for n in 0..routers {
            let rate = world.settled(&format!("r{n}"));
            assert!(rate >= 0.95 * pps, "r{n} of {routers}: {rate:.0}");
        }
    }
}

#[test]
fn what_a_router_does_not_use_is_lent_and_comes_back() {
    let mut world = World::new(0.0);
    world.promised("edge", 300e3, (5200.0, 5200.0));
    world.add("flood", 5200.0, 2e6);
    world.of("edge").offered = 10e3;
    assert!(world.settled("flood") > 480e3, "the core is free but for 10 kpps");
    assert_eq!(
        world.controller.standings().next().map(|standing| &standing.kept),
        Some(&PromiseState::BelowPromise)
    );
    world.of("edge").offered = 300e3;
    world.keeps("edge", 300e3);
    // The other way round: alone, it gets what it asks for.
    world.of("flood").offered = 0.0;
    world.of("edge").offered = 450e3;
    assert!(world.settled("edge") > 445e3);
    assert_eq!(world.controller.standings().next().map(|standing| &standing.kept), Some(&PromiseState::Yes));
    // That must not give it less when the neighbour is back.
    world.of("flood").offered = 2e6;
    world.of("edge").offered = 300e3;
    world.keeps("edge", 300e3);
}

#[test]
fn more_than_was_promised_is_not_taken_from_who_wants_it() {
    let mut world = World::new(0.0);
    // A packet costs half of what was assumed.
    world.promised("edge", 200e3, (2600.0, 5200.0));
    world.of("edge").offered = 2e6;
    world.add("flood", 5200.0, 2e6);
    world.keeps("edge", 200e3);
    assert!(world.settled("flood") > 370e3, "0.8 of the core is left");
}

#[test]
fn a_promise_that_cannot_be_kept_any_more_hurts_no_other() {
    let mut world = World::new(0.02);
    world.promised("good", 200e3, (5200.0, 5200.0));
    world.promised("dear", 150e3, (5200.0, 5200.0));
    world.add("flood", 5200.0, 2e6);
    world.keeps("dear", 150e3);
    // Twice the cycles: 0.6 of the core is needed, 0.5 is there.
    world.of("dear").cycles = 10_400.0;
    let rate = world.settled("dear");
    assert!(rate > 110e3 && rate < 140e3, "{rate:.0}");
    world.keeps("good", 200e3);
    let standing = world.controller.standings().nth(1).expect("it is there");
    let PromiseState::No(why) = &standing.kept else { panic!("{:?}", standing.kept) };
    assert!(
        why.starts_with("150 kpps are promised and 1") && why.contains("were delivered, at 5200 cycles each"),
        "{why}"
    );
}

#[test]
fn what_the_model_learns_moves_shares_step_by_step() {
    let mut world = World::new(0.0);
    world.promised("edge", 200e3, (5200.0, 5200.0));
    world.add("flood", 5200.0, 2e6);
    world.keeps("edge", 200e3);
    let before = world.of("edge").share.expect("a share");
    world.controller.learn("edge", 1, seen(4000.0));
    (0..2).for_each(|_| drop(world.tick()));
    let after = world.of("edge").share.expect("a share");
    assert!((after / before - 1.0).abs() < 0.02, "{before} jumped to {after}");
    world.keeps("edge", 200e3);
}

#[test]
fn all_shares_of_a_router_are_set_together() {
    let mut controller = Controller::new(vec![core(0), core(1)]);
    let mut wide = promise("wide", 100e3, 2600.0);
    wide.needs.push(Need { cpu: 0, cost: seen(2600.0) });
    controller.promise(wide).expect("it fits");
    controller.promise(promise("near", 100e3, 2600.0)).expect("it fits");
    let set = |controller: &mut Controller| -> Vec<String> {
        let set = controller.tick(Duration::ZERO, &[]);
        set.into_iter().map(|set| format!("{} {}", set.router, set.cpu)).collect()
    };
    let all = ["wide 0", "wide 1", "near 1"];
    assert_eq!(set(&mut controller), all);
    assert_eq!(set(&mut controller), [""; 0]);
    // Only a share on CPU 1 changes, but "wide" has a weight for each class, or one for both.
    controller.promise(promise("near", 200e3, 2600.0)).expect("it fits");
    assert_eq!(set(&mut controller), all);
}

/// An edit judges a promise by the estimate again; what was learned meanwhile is learned again afterwards.
#[test]
fn an_edit_moves_no_share() {
    let share = |controller: &mut Controller| {
        controller.tick(Duration::ZERO, &[]).first().map(|adjustment| adjustment.share)
    };
    let promised = || {
        let mut controller = Controller::new(vec![core(1)]);
        controller.promise(promise("edge", 100e3, 9000.0)).expect("it fits");
        controller
    };
    let mut before = promised();
    let held = share(&mut before).expect("the first share is set");
    before.learn("edge", 1, seen(6000.0));
    assert_eq!(share(&mut before), None, "it did not change");
    let mut after = promised();
    after.resume(&before);
    let set = share(&mut after).expect("it is set again");
    assert!((set / held - 1.0).abs() < 1e-9, "{held} jumped to {set}");
    after.learn("edge", 1, seen(6000.0));
    assert_eq!(share(&mut after), None);
}

#[test]
fn what_a_router_does_not_need_is_taken_back_until_something_is_lost() {
    let mut world = World::new(0.0);
    world.promised("edge", 200e3, (5200.0, 9000.0));
    world.add("flood", 5200.0, 900e3);
    let mut before = 0.0;
    for tick in 0..600 {
        world.tick();
        before = if tick == SETTLED { world.of("edge").dropped } else { before };
        let share = world.of("edge").share.expect("a share");
        // Like a thread that is woken for few packets at a time: it uses whatever it is given.
        world.of("edge").cycles = 5200.0_f64.max(2.6e9 * share / 200e3);
    }
    let share = world.of("edge").share.expect("a share");
    assert!((0.4..0.44).contains(&share), "{share} of 0.69 are left, 0.40 are needed");
    let edge = world.of("edge");
    let lost = (edge.dropped - before) / edge.delivered;
    assert!(lost < 0.0005, "{lost} was lost while that was tried");
}

#[test]
fn counters_that_begin_anew_move_nothing() {
    let mut controller = Controller::new(vec![core(1)]);
    controller.promise(promise("edge", 100e3, 5200.0)).expect("it fits");
    let measured = |delivered, dropped| [Measured { router: "edge", delivered, dropped, contended: true }];
    let at = |n: u64| Duration::from_millis(100 * n);
    assert_eq!(controller.tick(at(0), &measured(900_000, 5)).len(), 1, "the first share is set");
    assert!(controller.tick(at(1), &measured(10, 0)).is_empty());
    assert_eq!(controller.standings().next().map(|standing| &standing.kept), Some(&PromiseState::Unknown));
    assert!(controller.tick(at(2), &measured(10_010, 0)).is_empty());
    assert_eq!(controller.standings().next().map(|standing| &standing.kept), Some(&PromiseState::Yes));
    // Two measurements at the same moment must not divide by zero, and a router without a measurement stays
    // as it was.
    assert!(controller.tick(at(2), &measured(10_010, 0)).is_empty());
    assert!(controller.tick(at(3), &[]).is_empty());
}

#[test]
fn a_promise_can_be_changed_and_taken_back() {
    let mut controller = Controller::new(vec![core(1)]);
    controller.promise(promise("a", 200e3, 5200.0)).expect("it fits");
    controller.promise(promise("b", 200e3, 5200.0)).expect("it fits");
    assert!(controller.promise(promise("b", 300e3, 5200.0)).is_err());
    assert_eq!(controller.promises().map(|promise| promise.pps).collect::<Vec<_>>(), [200e3, 200e3]);
    let at = Duration::from_secs;
    let set = controller.tick(at(0), &[]);
    assert_eq!(set.iter().map(|set| (set.share * 10.0).round()).collect::<Vec<_>>(), [4.0, 4.0]);
    controller.forget("a");
    controller.promise(promise("b", 300e3, 5200.0)).expect("now it fits");
    let set = controller.tick(at(1), &[]);
    assert_eq!(set.iter().map(|set| (set.share * 100.0).round()).collect::<Vec<_>>(), [66.0]);
    assert!((set[0].rest - 0.34).abs() < 1e-9);
}
