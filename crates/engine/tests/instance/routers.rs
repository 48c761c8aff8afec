//! One of two routers is stopped, started and restarted; the other one forwards undisturbed.

use std::time::Instant;

use engine::{Instance, Plugs, State};
use telemetry::Kind;

use crate::traffic::{Stream, alone, counters, kvm, plan, router, start, wait_for};

fn two() -> String {
    router("one", 1, "vhost = 'split'") + &router("two", 2, "restart = 'never'")
}

#[test]
fn a_router_stops_and_starts_and_the_other_one_loses_nothing() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let one = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let two_stream = Stream::through("two", 2, [10, 2, 1, 2], &mut plugs);
    let mut instance = start(&two(), plugs);
    one.flows(100);
    two_stream.flows(100);
    let before = instance.status();
    assert!(before.iter().all(|status| status.state == State::Running && status.restarts == 0));
    let names: Vec<&str> = before[0].threads.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["one/vcpu0", "one/in-rx", "one/in-tx", "one/out-rx", "one/out-tx"]);
    for round in 1..=5 {
        let forwarded = counters(&instance)["one.vcpu0.forwarded"];
        instance.stop_router("two").expect("it stops");
        let status = &instance.status()[1];
        assert_eq!((status.state, status.threads.len(), status.pid), (State::Stopped, 0, None));
        assert!(!counters(&instance).contains_key("two.vcpu0.forwarded"), "its counters are gone");
        one.flows(100);
        let stands = two_stream.tally().arrived();
        instance.start_router("two").expect("it starts");
        assert_eq!(instance.status()[1].state, State::Running);
        assert!(counters(&instance)["one.vcpu0.forwarded"] >= forwarded + 100, "its counters go on");
        wait_for("the other one to forward again", || two_stream.tally().arrived() > stands + 100);
        // Restarts are counted only where the router had failed or been stopped.
        assert_eq!(instance.status()[1].restarts, round);
    }
    instance.restart_router("two").expect("it starts again");
    instance.start_router("two").expect("it runs already, and that is no error");
    let after = instance.status();
    assert_eq!(before[0].threads, after[0].threads, "the same threads serve it all the time");
    assert_eq!(before[0].since, after[0].since);
    one.ends_whole();
    let kinds: Vec<Kind> = instance.look_after(Instant::now()).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::Stopped, Kind::Started].repeat(6));
    assert_eq!(instance.look_after(Instant::now()), [], "what was told is told once");
}

/// Routers as processes, which do not need KVM.
#[test]
fn a_process_stops_and_starts_and_the_other_one_loses_nothing() {
    let _turn = alone();
    let mut plugs = Plugs::new();
    let one = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let other = Stream::through("two", 2, [10, 2, 1, 2], &mut plugs);
    let process = "engine = 'process'";
    let text = router("one", 1, process) + &router("two", 2, process);
    let mut instance = match Instance::start(&plan(&text), plugs) {
        Ok(instance) => instance,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    one.flows(100);
    other.flows(100);
    for _ in 0..3 {
        let pid = instance.status()[1].pid.expect("a process");
        instance.restart_router("two").expect("it starts again");
        assert_ne!(instance.status()[1].pid, Some(pid));
        one.flows(100);
        let stands = other.tally().arrived();
        wait_for("the other one to forward again", || other.tally().arrived() > stands + 50);
    }
    // Killed from outside: this is noticed, reported, and the router is restarted.
    let victim = instance.status()[1].pid.and_then(rustix::process::Pid::from_raw).expect("a process");
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("it was there");
    let mut events = Vec::new();
    wait_for("a new process", || {
        events.extend(instance.look_after(Instant::now()).into_iter().map(|event| event.kind));
        events.contains(&Kind::Restarted)
    });
    let expected = [Kind::Failed, Kind::Restarting, Kind::Restarted];
    assert_eq!(events[events.len() - 3..], expected);
    let stands = other.tally().arrived();
    wait_for("the other one to forward again", || other.tally().arrived() > stands + 50);
    one.ends_whole();
}

#[test]
fn who_is_not_there_is_one_line() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut instance = start(&two(), Plugs::new());
    let expected = "there is no router \"three\"; routers: one, two";
    for error in [
        instance.stop_router("three").expect_err("none"),
        instance.start_router("three").expect_err("none"),
        instance.restart_router("three").expect_err("none"),
    ] {
        assert_eq!(format!("{error:#}"), expected);
    }
    instance.stop_router("one").expect("it stops");
    instance.stop_router("one").expect("it is stopped, and that is no error");
    assert_eq!(instance.look_after(Instant::now()).len(), 1);
    assert!(instance.router("one").is_none() && instance.router("two").is_some());
    assert_eq!(instance.routers().count(), 1);
}

#[test]
fn routers_on_one_switch_come_and_go() {
    for deliver in ["queued", "direct"] {
        if kvm() {
            let _turn = alone();
            on_one_switch(deliver);
        }
    }
}

fn on_one_switch(deliver: &str) {
    // Routers one and two forward to the same station behind a switch, by router three.
    let on_switch = |name: &str, n: u8| {
        router(name, n, "")
            .replace(
                &format!("name = 'out'\nattach = 'null'\naddress = '10.{n}.1.1/24'"),
                &format!(
                    "name = 'out'\nattach = 'switch:lan'\ndeliver = '{deliver}'\naddress = '10.9.0.{n}/24'"
                ),
            )
            .replace(&format!("10.{n}.1.2"), "10.9.0.3")
            .replace(&format!("02:00:00:00:{n:02}:09"), "02:00:00:00:03:00")
            .replace(&format!("10.{n}.1.3"), &format!("10.9.0.{}", 10 + n))
    };
    let three = router("three", 3, "").replace(
        "attach = 'null'\nmac = '02:00:00:00:03:00'\naddress = '10.3.0.1/24'",
        &format!(
            "attach = 'switch:lan'\ndeliver = '{deliver}'\nmac = '02:00:00:00:03:00'\naddress = '10.9.0.3/24'"
        ),
    );
    let text = format!("[switch.lan]\n{}{}{three}", on_switch("one", 1), on_switch("two", 2));
    let text = text + "[[router.route]]\nto = '10.7.0.0/16'\nvia = '10.3.1.2'\n";
    let text = text.replacen(
        "[[router]]\nname = 'two'",
        "[[router.route]]\nto = '10.7.0.0/16'\nvia = '10.9.0.3'\n[[router]]\nname = 'two'",
        1,
    );
    let mut plugs = Plugs::new();
    let stream = Stream::between(("one", "in"), ("three", "out"), 1, [10, 7, 0, 1], &mut plugs);
    let mut instance = start(&text, plugs);
    stream.flows(100);
    for _ in 0..5 {
        instance.restart_router("two").expect("it starts again");
        stream.flows(100);
        let names: Vec<String> =
            counters(&instance).into_keys().filter(|name| name.starts_with("switch.lan.")).collect();
        assert!(names.contains(&"switch.lan.two.out.in_frames".to_owned()), "{names:?}");
    }
    instance.stop_router("two").expect("it stops");
    assert!(!counters(&instance).contains_key("switch.lan.two.out.in_frames"), "its port is gone");
    stream.ends_whole();
}
