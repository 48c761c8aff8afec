//! Promised rates, with counters that a test makes up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use config::{CpuSet, Plan, Policy};
use sched::costs::Costs;
use sched::promises::Promises;
use sched::{Class, CpuNeighbours, Outline, Placement, Schedule, Slot};

use super::stage::Stage;
use crate::costs::{hertz, machine};
use crate::thread_placement::Planned;

/// Time between two looks.
const TICK: Duration = Duration::from_millis(100);

/// Two routers, one of them with a promised rate.
pub(super) fn file(guarantee: &str) -> String {
    let router = |name: &str, promised: &str, end: u32| {
        format!(
            "[[router]]\nname = \"{name}\"\nengine = \"process\"\n{promised}\
             pin = {{ vcpu = \"0\", vhost = \"0\" }}\n\
             [[router.nic]]\nname = \"lan\"\nattach = \"switch:lan\"\naddress = \"192.0.2.{end}/24\"\n"
        )
    };
    let promised = format!("guarantee = \"{guarantee}\"\n");
    format!("[switch.lan]\n{}{}", router("edge", &promised, 1), router("core", "", 2))
}

fn outline(plan: &Plan) -> Outline {
    let cpus: CpuSet = "0".parse().expect("a CPU");
    let slot = |router: &str, class: Class, what: &str| Slot {
        router: router.to_owned(),
        class,
        name: format!("{router}/{what}"),
        schedule: Schedule {
            cpus: Some(cpus.clone()),
            placement: Placement::Pin,
            policy: Policy::Other,
            island: None,
            group: None,
        },
        neighbours: CpuNeighbours::Others,
    };
    let of = |router: &config::Router| {
        let vhost = Class::Vhost { nic: None, direction: None, pair: None };
        [slot(&router.name, Class::Vcpu(0), "vcpu0"), slot(&router.name, vhost, "vhost")]
    };
    Outline { slots: plan.routers.iter().flat_map(of).collect(), ..Outline::default() }
}

/// Promise of this rate, which replaces the one `seen`.
pub(super) fn promised(guarantee: &str, seen: Option<&Promises>, now: Instant) -> Planned {
    let plan = config::parse(&file(guarantee), "x.toml").expect("a good file");
    let outline = outline(&plan);
    let known = || (Costs::nowhere(None, machine(), now), hertz());
    let promises = Promises::make((&plan, &outline), seen, known, now).expect("it can be kept");
    Planned { outline, promises, ..Planned::default() }
}

/// A run with a promise, and the counters of its router.
struct Kept {
    stage: Stage,
    delivered: u64,
    dropped: u64,
}

impl Kept {
    fn of(guarantee: &str) -> Self {
        let mut stage = Stage::up(&file(guarantee));
        let planned = promised(guarantee, None, stage.now);
        stage.supervisor().placement.promises = planned.promises;
        Self { stage, delivered: 0, dropped: 0 }
    }

    /// Advances time; meanwhile so many packets were delivered and dropped.
    fn after(&mut self, while_: Duration, delivered: u64, dropped: u64) {
        (self.delivered, self.dropped) = (self.delivered + delivered, self.dropped + dropped);
        self.stage.after(while_).expect("it goes on");
        self.stage.plane().serve(&BTreeMap::from([
            ("edge.vcpu0.forwarded".to_owned(), self.delivered),
            ("switch.lan.edge.lan.drop_full".to_owned(), self.dropped),
        ]));
        self.stage.turn().expect("it goes on");
    }

    fn ticks(&mut self, number: u32, delivered: u64, dropped: u64) {
        (0..number).for_each(|_| self.after(TICK, delivered, dropped));
    }

    fn standing(&mut self) -> String {
        let promises = self.stage.supervisor().placement.promises.as_ref();
        promises.and_then(|promises| promises.standing("edge")).expect("it is promised")
    }

    fn counters(&mut self) -> BTreeMap<String, u64> {
        let promises = self.stage.supervisor().placement.promises.as_ref();
        promises.expect("it is promised").counters(Some("edge")).collect()
    }

    /// Promises another rate, by hand.
    fn edit(&mut self, guarantee: &str) {
        let now = self.stage.now;
        let supervisor = self.stage.supervisor();
        let planned = promised(guarantee, supervisor.placement.promises.as_ref(), now);
        supervisor.placement.pending.queue(planned, now);
        supervisor.attend_following(now);
    }

    fn told(&mut self) -> [usize; 2] {
        ["its guarantee is not kept", "its guarantee is kept again"].map(|line| self.stage.lines(line).len())
    }
}

#[test]
fn a_promise_is_kept_then_broken_which_is_told_once_and_kept_again() {
    let mut kept = Kept::of("10kpps");
    assert!(kept.standing().starts_with("nothing was measured yet"));
    kept.ticks(3, 1000, 500);
    assert_eq!(kept.standing(), "kept; 10000 of 15000 packets/s delivered");
    kept.ticks(10, 500, 1000);
    assert!(kept.standing().starts_with("shares are being moved"), "{}", kept.standing());
    assert_eq!(kept.told(), [0, 0]);
    kept.ticks(20, 500, 1000);
    assert!(kept.standing().starts_with("not kept: "), "{}", kept.standing());
    assert_eq!(kept.told(), [1, 0]);
    kept.ticks(20, 1000, 0);
    assert_eq!(kept.told(), [1, 1]);
    kept.ticks(3, 10, 0);
    assert_eq!(kept.standing(), "less is asked for; 100 of 100 packets/s delivered");
    let counted = kept.counters();
    // The first look has no earlier one to compare with.
    let delivered = 2 * 1000 + 30 * 500 + 20 * 1000 + 3 * 10;
    assert_eq!(counted["edge.guarantee.delivered"], delivered);
    assert_eq!(counted["edge.guarantee.promised"], 55 * 1000);
    assert_eq!(counted["edge.guarantee.broken_ms"] + counted["edge.guarantee.kept_ms"], 5500);
    assert!(counted["edge.guarantee.broken_ms"] >= 1500, "{counted:?}");
}

#[test]
fn edits_stop_neither_the_clock_nor_the_counters_of_a_promise() {
    let mut kept = Kept::of("10kpps");
    kept.ticks(1, 400, 0);
    // 25 a second.
    for number in 0..100 {
        kept.edit(if number % 2 == 0 { "11kpps" } else { "10kpps" });
        kept.after(Duration::from_millis(40), 400, 0);
    }
    let counted = kept.counters();
    let seen = counted["edge.guarantee.delivered"];
    assert!((39_000..=40_000).contains(&seen), "{seen} of 40000 were seen: {counted:?}");
    let looked = counted["edge.guarantee.kept_ms"] + counted["edge.guarantee.broken_ms"];
    assert!((3900..=4000).contains(&looked), "it was looked at for {looked} of 4000 ms");
}

#[test]
fn what_was_told_of_a_promise_is_not_told_again_after_an_edit() {
    let mut kept = Kept::of("10kpps");
    kept.ticks(20, 500, 1000);
    assert_eq!(kept.told(), [1, 0]);
    for _ in 0..3 {
        kept.edit("10kpps");
        kept.ticks(1, 500, 1000);
        assert!(kept.standing().starts_with("not kept: "), "{}", kept.standing());
    }
    assert_eq!(kept.told(), [1, 0]);
    kept.ticks(20, 1000, 0);
    assert_eq!(kept.told(), [1, 1]);
}

/// A file is applied while the data plane answers: what is counted until then is not forgotten.
#[test]
fn an_edit_that_takes_its_time_forgets_nothing() {
    let mut kept = Kept::of("10kpps");
    kept.ticks(5, 1000, 0);
    let now = kept.stage.now;
    let seen = kept.stage.supervisor().placement.promises.clone();
    let staged = promised("11kpps", seen.as_ref(), now);
    kept.ticks(30, 1000, 0);
    let before = kept.counters();
    let now = kept.stage.now;
    let supervisor = kept.stage.supervisor();
    supervisor.placement.pending.queue(staged, now);
    supervisor.attend_following(now);
    assert_eq!(kept.counters(), before);
    kept.ticks(1, 1000, 0);
    assert_eq!(kept.counters()["edge.guarantee.delivered"], before["edge.guarantee.delivered"] + 1000);
}

#[test]
fn a_router_that_is_started_for_long_stalls_no_promise() {
    let mut kept = Kept::of("10kpps");
    kept.ticks(2, 1000, 0);
    let _client = kept.stage.client(&api::Request::Restart { router: "core".to_owned() });
    // The restart is never answered; the other router's counters arrive all the same.
    let is_restart = |request: &api::Request| matches!(request, api::Request::Restart { .. });
    kept.stage.plane().asked(is_restart).expect("it is told");
    let before = kept.counters()["edge.guarantee.delivered"];
    kept.ticks(50, 1000, 0);
    assert_eq!(kept.counters()["edge.guarantee.delivered"], before + 50_000);
}
