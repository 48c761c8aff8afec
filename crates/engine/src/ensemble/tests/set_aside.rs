//! Members that are there and get no frames, because they leave, are parked, or have a cable out: others have their queues.

use super::*;

#[test]
fn a_member_that_leaves_gives_its_queues_to_others_at_once() {
    let bench = bench();
    let (first, second) = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    assert!(bench.ensemble.core.leave(Aside::Planned, |name| name == "core_1"));
    assert!(!bench.ensemble.core.leave(Aside::Planned, |name| name == "core_1"), "it leaves already");
    assert_eq!([bench.state(0), bench.state(1)], ["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    bench.ensemble.core.stay(Aside::Planned, |name| name == "core_0");
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues");
    bench.ensemble.core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second));
}

#[test]
fn who_has_two_reasons_to_be_without_frames_waits_until_both_are_over() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let core = &bench.ensemble.core;
    core.leave(Aside::Drained, |name| name == "core_1");
    core.stay(Aside::Planned, |_| true);
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues", "another change of the plan is made meanwhile");
    core.leave(Aside::Planned, |name| name == "core_1");
    core.stay(Aside::Drained, |_| true);
    assert_eq!(bench.state(1), "leaving, 0 of 8 queues");
    core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop(members);
}

#[test]
fn a_member_gets_no_frames_until_it_knows_the_routes_of_its_control_plane() {
    let bench = bench();
    let first = bench.member(0);
    // It is set aside before it runs.
    let core = &bench.ensemble.core;
    let seats = bench.seats(1);
    core.leave(Aside::Learning, |name| name == "core_1");
    let second = bench.member(1);
    bench.becomes(&["serving, 8 of 8 queues", "leaving, 0 of 8 queues"]);
    core.stay(Aside::Learning, |name| name == "core_1");
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    drop((first, second, seats));
}

#[test]
fn a_member_with_a_cable_of_its_own_out_gets_no_frames_and_is_not_blamed() {
    let group = plan(FILE).groups.remove(0);
    let with = |of_all: bool, own: bool| {
        let mut plan = plan(FILE);
        let down = |nic: &mut Nic, is_out: bool| nic.link = is_out.then_some(config::LinkState::Down);
        plan.routers.iter_mut().for_each(|router| down(&mut router.nics[0], of_all));
        down(&mut plan.routers[1].nics[0], of_all || own);
        let mut group = group.clone();
        down(&mut group.pattern.nics[0], of_all);
        ["core_0", "core_1", "core_2"].map(|name| has_serving(&plan, &group, name))
    };
    assert_eq!(with(false, false), [true, true, false]);
    assert_eq!(with(false, true), [true, false, false]);
    assert_eq!(with(true, true), [true, true, false], "nobody can serve by it, and all can by the others");
}

#[test]
fn nothing_is_asked_of_a_cable_that_is_out() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let mut group = bench.group.clone();
    group.pattern.nics[1].link = Some(config::LinkState::Down);
    bench.ensemble.core.follow(&group);
    let told = |nic: &str| bench.counted(&format!("core.{nic}.group.told"));
    let goes_on = |nic: &str| {
        let (before, end) = (told(nic), Instant::now() + PATIENCE);
        while told(nic) < before + 10 {
            assert!(Instant::now() < end, "no probes at {nic}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    // The round that was under way is over then.
    goes_on("w");
    let before = told("e");
    goes_on("w");
    assert_eq!(told("e"), before);
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    bench.ensemble.core.follow(&bench.group);
    goes_on("e");
    drop(members);
}

#[test]
fn a_parked_member_has_no_queues_and_stands_in_for_one_that_is_away() {
    let bench = bench();
    let members = (bench.member(0), bench.member(1));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    let core = &bench.ensemble.core;
    let with_parked = |parked: u32| Group { parked, ..bench.group.clone() };
    core.follow(&with_parked(1));
    bench.becomes(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    core.leave(Aside::Planned, |name| name == "core_0");
    bench.becomes(&["leaving, 0 of 8 queues", "serving, 8 of 8 queues"]);
    core.stay(Aside::Planned, |_| true);
    bench.becomes(&["serving, 8 of 8 queues", "parked, 0 of 8 queues"]);
    core.follow(&with_parked(0));
    bench.becomes(&["serving, 4 of 8 queues", "serving, 4 of 8 queues"]);
    assert!(core.counters.parked.get() >= 2 && core.counters.woken.get() >= 2);
    drop(members);
}

#[test]
fn a_parked_member_that_does_not_wake_is_no_reason_for_the_next_one_to_sleep() {
    let bench = bench_of(&FILE.replace("members = 2", "members = 3"));
    let members = [0, 1, 2].map(|number| bench.member(number));
    let core = &bench.ensemble.core;
    core.follow(&Group { parked: 2, ..bench.group.clone() });
    bench.becomes(&["serving, 16 of 16 queues", "parked, 0 of 16 queues", "parked, 0 of 16 queues"]);
    let [first, second, third] = members;
    let seats = second.seats.clone();
    // It is there and forwards nothing.
    drop(second);
    core.leave(Aside::Planned, |name| name == "core_0");
    let end = Instant::now() + PATIENCE;
    while bench.state(2) != "serving, 16 of 16 queues" {
        assert!(Instant::now() < end, "{:?}", [0, 1, 2].map(|number| bench.state(number)));
        std::thread::sleep(Duration::from_millis(1));
    }
    core.stay(Aside::Planned, |_| true);
    let second = bench.member(1);
    bench.becomes(&["serving, 16 of 16 queues", "parked, 0 of 16 queues", "parked, 0 of 16 queues"]);
    drop((first, second, third, seats));
}
