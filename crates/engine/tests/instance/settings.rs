//! What can be set while a router runs.

use std::collections::BTreeMap;

use api::Sharing;
use engine::{Instance, Plugs, State};

use crate::traffic::{Stream, alone, counters, kvm, plan, router, start, wait_for};

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
    for value in ["0us", "1ms", "always", "50us"] {
        let change = instance.set("one", "spin", value).expect("a time");
        assert_eq!(change.what, format!("router one: spin = {value}"));
        assert!(change.why.is_some_and(|why| why.contains("its firmware is told when it boots")));
        stream.flows(50);
    }
    let change = instance.set("one", "restart", "never").expect("a policy");
    assert_eq!((change.what.as_str(), change.why), ("router one is not started again when it fails", None));
    assert_eq!(instance.status()[0].threads, threads);
    stream.ends_whole();
    instance.set("one", "state", "stopped").expect("a state");
    assert_eq!(instance.status()[0].state, State::Stopped);
    let change = instance.set("one", "spin", "2ms").expect("a time");
    assert_eq!(change.why, None, "nothing runs that would have to be told");
    instance.set("one", "state", "running").expect("a state");
    assert_eq!(instance.status()[0].state, State::Running);
    // A file that says the same as what was set has nothing to change, and one that does not has.
    let same = plan(&router("one", 1, "spin = '2ms'\nrestart = 'never'"));
    assert_eq!(instance.apply(&same, Plugs::new()).expect("it is applied"), []);
    assert_eq!(instance.changes_to(&plan(&router("one", 1, "spin = '2ms'"))).len(), 1);
}

#[test]
fn what_is_no_setting_is_one_line_and_changes_nothing() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut instance = start(&router("one", 1, ""), Plugs::new());
    let before = instance.plan().clone();
    for (key, value, line) in [
        ("memory", "64M", "\"memory\" cannot be set while a router runs; keys: guarantee, "),
        ("", "", "\"\" cannot be set while a router runs; keys: guarantee, "),
        (
            "pin.vcpu",
            "x",
            "router one: pin.vcpu: \"x\" is not a list of CPUs; write e.g. \"1\" or \"0-1,3\", or any",
        ),
        ("pin.vhost", "0", "router one: pin.vhost is set by whoever places its threads"),
        (
            "limit",
            "fast",
            "router one: limit: \"fast\" is no rate; write e.g. \"400kpps\" or \"1.2Mpps\", or none",
        ),
        ("wan.link", "up", "router one: wan.link: there is no NIC \"wan\"; NICs: in, out"),
        ("restart", "maybe", "router one: restart: \"maybe\" is no restart policy; policies: always, never"),
        (
            "spin",
            "-1",
            "router one: spin: \"-1\" is not a time; write e.g. \"50us\", or \"always\" to never sleep",
        ),
        ("state", "failed", "router one: state: \"failed\" is no state; write running or stopped"),
    ] {
        let error = format!("{:#}", instance.set("one", key, value).expect_err("refused"));
        assert!(error.starts_with(line) && !error.contains('\n'), "{error}");
        assert_eq!(*instance.plan(), before);
    }
    assert_eq!(instance.status()[0].state, State::Running);
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
    instance.share(["one/vcpu0", "one/vhost"].map(|name| (name.to_owned(), Sharing::Guest)).into());
    wait_for("sleep", || slept(&instance).iter().all(|times| *times > 0));
    stream.flows(50);
    // Also when it is started anew: a firmware begins to count at zero.
    instance.restart_router("one").expect("it starts");
    wait_for("sleep", || slept(&instance).iter().all(|times| *times > 0));
    instance.share(BTreeMap::new());
    // A frame wakes the vCPU.
    stream.flows(50);
    let before = slept(&instance);
    stream.flows(50);
    assert_eq!(slept(&instance), before, "they never sleep again");
}

/// How often the firmware was told that the cables of its two NICs were plugged anew.
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
        instance.set("one", "out.link", link).expect("a cable");
        instance.look_after(std::time::Instant::now());
        assert_eq!(plugged(&instance), [0, expected], "{link}");
    }
    // What the supervisor sees at an interface.
    instance.plugged("one.in");
    ["one.none", "two.in", "one", ""].iter().for_each(|nobody| instance.plugged(nobody));
    assert_eq!(plugged(&instance), [1, 2]);
    instance.stop_router("one").expect("it stops");
    instance.plugged("one.in");
}
