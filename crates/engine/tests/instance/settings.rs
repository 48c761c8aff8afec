//! Settings that can be changed while a router runs.

use std::collections::BTreeMap;

use api::CpuSharing;
use engine::{Instance, Plugs, State};

use crate::traffic::{Stream, alone, counters, kvm, plan, router, set, start, wait_for};

#[test]
fn settings_change_while_frames_flow() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let mut instance = start(&router("one", 1, ""), plugs);
    stream.flows(50);
    let threads = instance.status()[0].threads.clone();
    for value in ["0us", "1000us", "always", "50us"] {
        let change = set(&mut instance, "one", "spin", value).expect("a time").expect("a change");
        assert_eq!(change.what, format!("router one: spin = {value}"));
        assert!(change.why.is_some_and(|why| why.contains("its firmware is told when it boots")));
        stream.flows(50);
    }
    let change = set(&mut instance, "one", "restart", "never").expect("a policy").expect("a change");
    assert_eq!((change.what.as_str(), change.why), ("router one is not started again when it fails", None));
    assert_eq!(instance.status()[0].threads, threads);
    stream.ends_whole();
    set(&mut instance, "one", "state", "stopped").expect("a state");
    assert_eq!(instance.status()[0].state, State::Stopped);
    let change = set(&mut instance, "one", "spin", "2ms").expect("a time").expect("a change");
    assert_eq!(change.why, None, "nothing runs that would have to be told");
    set(&mut instance, "one", "state", "running").expect("a state");
    assert_eq!(instance.status()[0].state, State::Running);
    // A file that agrees with the settings changes nothing; one that differs does.
    let same = plan(&router("one", 1, "spin = '2ms'\nrestart = 'never'"));
    assert_eq!(instance.apply(&same, Plugs::new()).expect("it is applied"), []);
    assert_eq!(instance.changes_to(&plan(&router("one", 1, "spin = '2ms'"))).len(), 1);
}

#[test]
fn a_router_that_is_stopped_or_unplugged_by_its_plan_begins_so() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let text = router("one", 1, "state = 'stopped'").replacen(
        "attach = 'null'\naddress",
        "attach = 'null'\nlink = 'down'\naddress",
        1,
    );
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let mut instance = start(&text, plugs);
    assert_eq!(instance.status()[0].state, State::Stopped);
    set(&mut instance, "one", "state", "running").expect("a state");
    assert_eq!(instance.status()[0].state, State::Running);
    stream.begins();
    let comes = |instance: &Instance| counters(instance)["one.in.rx.frames"] > 50;
    let leaves = |instance: &Instance| counters(instance)["one.out.tx.frames"];
    wait_for("frames", || comes(&instance));
    // A restart returns it to its plan.
    instance.restart_router("one").expect("it starts");
    wait_for("frames", || comes(&instance));
    assert_eq!(leaves(&instance), 0);
    set(&mut instance, "one", "out.link", "up").expect("a cable");
    stream.flows(50);
}

#[test]
fn who_shares_a_cpu_sleeps_as_soon_as_there_is_nothing_to_do() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let mut instance = start(&router("one", 1, "spin = 'always'"), plugs);
    let slept =
        |instance: &Instance| ["one.vcpu0.sleeps", "one/vhost.sleeps"].map(|name| counters(instance)[name]);
    stream.flows(50);
    assert_eq!(slept(&instance), [0, 0], "they never sleep");
    instance.share(["one/vcpu0", "one/vhost"].map(|name| (name.to_owned(), CpuSharing::WithOwnVcpu)).into());
    wait_for("sleep", || slept(&instance).iter().all(|times| *times > 0));
    stream.flows(50);
    // Also after a restart: a firmware begins to count at zero.
    instance.restart_router("one").expect("it starts");
    wait_for("sleep", || slept(&instance).iter().all(|times| *times > 0));
    instance.share(BTreeMap::new());
    // A frame wakes the vCPU.
    stream.flows(50);
    let before = slept(&instance);
    stream.flows(50);
    assert_eq!(slept(&instance), before, "they never sleep again");
}

/// Returns how often the firmware was told that the cables of its two NICs were pulled out or plugged in.
fn plugged(instance: &Instance) -> [u32; 2] {
    let running = instance.router("one").expect("it runs");
    let words = &running.router.machine().shared().plugged;
    [0, 1].map(|nic| words[nic].0.load(std::sync::atomic::Ordering::Acquire))
}

#[test]
fn a_router_is_told_of_each_change_of_a_cable_and_of_no_other() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut instance = start(&router("one", 1, ""), Plugs::new());
    assert_eq!(plugged(&instance), [0, 0]);
    for (link, expected) in [("up", 0), ("down", 1), ("down", 1), ("up", 2), ("up", 2)] {
        set(&mut instance, "one", "out.link", link).expect("a cable");
        instance.look_after(std::time::Instant::now());
        assert_eq!(plugged(&instance), [0, expected], "{link}");
    }
    // As the supervisor reports for an interface.
    instance.cable_changed("one.in");
    ["one.none", "two.in", "one", ""].iter().for_each(|nobody| instance.cable_changed(nobody));
    assert_eq!(plugged(&instance), [1, 2]);
    instance.stop_router("one").expect("it stops");
    instance.cable_changed("one.in");
}
