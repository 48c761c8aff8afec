//! `apply`: differences are applied, and what is the same is not disturbed.

use std::net::IpAddr;
use std::time::Instant;

use config::Plan;
use engine::{Change, HostServices, Instance, Plugs, State};
use fib::NextHop;

use crate::traffic::{Stream, alone, counters, kvm, plan, router, start, wait_for};

/// Applies a file, and returns the changes.
fn apply(instance: &mut Instance, text: &str) -> Vec<Change> {
    instance.apply(&plan(text), HostServices::default()).expect("it is applied")
}

fn whats(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.what.as_str()).collect()
}

/// A router with a stream that must lose nothing, and the rest of the file.
struct Bench {
    instance: Instance,
    stream: Stream,
    rest: String,
}

impl Bench {
    fn new(rest: &str) -> Self {
        let (mut plugs, rest) = (Plugs::new(), rest.to_owned());
        let stream = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
        let instance = start(&(router("one", 1, "") + &rest), plugs);
        stream.flows(50);
        Self { instance, stream, rest }
    }

    /// Applies another rest of the file; the router of the stream must not be disturbed.
    #[track_caller]
    fn apply(&mut self, rest: &str) -> Vec<Change> {
        let threads = self.instance.status()[0].threads.clone();
        let forwarded = counters(&self.instance)["one.vcpu0.forwarded"];
        let changes = apply(&mut self.instance, &(router("one", 1, "") + rest));
        self.stream.flows(50);
        assert_eq!(self.instance.status()[0].threads, threads);
        assert!(counters(&self.instance)["one.vcpu0.forwarded"] > forwarded);
        self.rest = rest.to_owned();
        changes
    }

    #[track_caller]
    fn ends_whole(self) {
        self.stream.ends_whole();
        drop(self.instance);
    }
}

#[test]
fn routers_and_switches_come_change_and_go() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let two = router("two", 2, "");
    let mut bench = Bench::new(&two);
    assert_eq!(bench.apply(&two), [], "nothing differs");

    let three = "[switch.lan]\n".to_owned()
        + &router("three", 3, "").replace("attach = 'null'", "attach = 'switch:lan'");
    // A file may list switches anywhere.
    let both = two.clone() + &three;
    let changes = bench.apply(&both);
    assert_eq!(whats(&changes), ["switch lan added", "router three added"]);
    assert!(changes.iter().all(Change::is_hitless));
    assert_eq!(bench.instance.status()[2].state, State::Running);
    assert!(counters(&bench.instance).contains_key("switch.lan.three.in.in_frames"));

    let changes = bench.apply(&both.replace("[switch.lan]\n", "[switch.lan]\nageing = 7\n"));
    assert_eq!(whats(&changes), ["switch lan: ageing = 7"]);

    let changes = bench.apply(
        &both
            .replace("name = 'two'\n", "name = 'two'\nmemory = '64M'\n")
            .replace("[switch.lan]\n", "[switch.lan]\nageing = 7\n"),
    );
    assert_eq!(
        changes,
        [Change {
            what: "router two replaced".to_owned(),
            why: Some("it cannot change this while it runs: memory 32M -> 64M".to_owned())
        }]
    );
    assert_eq!(bench.instance.router("two").expect("it runs").router.machine().ram().len(), 64 << 20);

    let changes = bench.apply("");
    assert_eq!(whats(&changes), ["router two removed", "router three removed", "switch lan removed"]);
    assert_eq!(bench.instance.status().len(), 1);
    assert!(bench.instance.switches().is_empty());
    bench.ends_whole();
}

#[test]
fn nics_come_change_and_go_with_their_router_and_plugs_stay() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let one = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let other = Stream::through("two", 2, [10, 2, 1, 2], &mut plugs);
    let two = router("two", 2, "");
    let file = |rest: &str| router("one", 1, "") + &two + rest;
    let mut instance = start(&file(""), plugs);
    one.flows(50);
    other.flows(50);
    let nic = "[[router.nic]]\nname = 'more'\nattach = 'null'\naddress = '10.2.2.1/24'\n";
    for (rest, why) in [
        (nic.to_owned(), "NIC more added"),
        (nic.replace("address", "mtu = 1400\naddress"), "NIC more mtu 1500 -> 1400"),
        (String::new(), "NIC more removed"),
    ] {
        let changes = apply(&mut instance, &file(&rest));
        assert_eq!(whats(&changes), ["router two replaced"]);
        let expected = format!("it cannot change this while it runs: {why}");
        assert_eq!(changes[0].why.as_deref(), Some(expected.as_str()));
        let stands = other.tally().arrived();
        wait_for("the new one to forward", || other.tally().arrived() > stands + 50);
        one.flows(20);
    }
    assert_eq!(instance.status()[1].restarts, 3);
    one.ends_whole();
}

#[test]
fn routes_pins_and_policies_change_under_way() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let stream = Stream::through("one", 1, [10, 8, 7, 6], &mut plugs);
    let route = |to: &str, via: u8| format!("[[router.route]]\nto = '{to}'\nvia = '10.1.1.{via}'\n");
    let file = |more: &str, routes: String| router("one", 1, more) + &routes;
    let mut instance = start(&file("", route("10.8.0.0/16", 2)), plugs);
    stream.flows(50);
    let threads = instance.status()[0].threads.clone();
    let mut changes = |more: &str, routes: String| apply(&mut instance, &file(more, routes));

    let done = changes("", route("10.8.0.0/16", 3));
    assert_eq!(whats(&done), ["router one: route now 10.8.0.0/16 via 10.1.1.3 out of out"]);
    assert!(done[0].is_hitless());
    stream.flows(50);
    // First a longer prefix in addition, then instead.
    let done = changes("", route("10.8.0.0/16", 3) + &route("10.8.7.0/24", 2));
    assert_eq!(whats(&done), ["router one: route 10.8.7.0/24 via 10.1.1.2 out of out added"]);
    stream.flows(50);
    let done = changes("", route("10.8.7.6/32", 3));
    assert_eq!(
        whats(&done),
        [
            "router one: route 10.8.0.0/16 via 10.1.1.3 out of out removed",
            "router one: route 10.8.7.0/24 via 10.1.1.2 out of out removed",
            "router one: route 10.8.7.6/32 via 10.1.1.3 out of out added",
        ]
    );
    stream.flows(50);
    let done = changes("pin = { vcpu = '0', vhost = '0' }\nrestart = 'never'", route("10.8.7.6/32", 3));
    assert_eq!(
        whats(&done),
        ["router one is not started again when it fails"],
        "where its threads are is for whoever placed them"
    );
    stream.flows(50);
    // Back and forth, faster than a vCPU may notice.
    for round in 0..200 {
        changes("", route("10.8.0.0/16", 2 + round % 2) + &route("10.8.7.6/32", 3 - round % 2));
        changes("", route("10.8.7.0/24", 2));
    }
    stream.flows(50);
    let tally = stream.tally();
    assert!(tally.at(9) > 50 && tally.at(10) > 50, "both neighbours had some");
    assert_eq!(instance.status()[0].threads, threads);
    instance.look_after(Instant::now());
    let retired = instance.router("one").expect("it runs").router.table().routes().retired();
    assert!(retired < 10, "{retired} entries of the table wait for nobody");
    stream.ends_whole();
}

/// Observable state of an instance.
#[derive(Debug, PartialEq)]
struct Shown {
    plan: Plan,
    states: Vec<(String, State)>,
    threads: Vec<Vec<(String, i32)>>,
    switches: usize,
}

fn shown(instance: &Instance) -> Shown {
    let status = instance.status();
    Shown {
        plan: instance.plan().clone(),
        states: status.iter().map(|router| (router.name.clone(), router.state)).collect(),
        threads: status.into_iter().map(|router| router.threads).collect(),
        switches: instance.switches().len(),
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let two = router("two", 2, "");
    let mut bench = Bench::new(&two);
    let before = shown(&bench.instance);
    // Found before anything is touched: a new router, a changed one, and a file that was not opened.
    let bad = router("three", 3, "").replacen("attach = 'null'", "attach = 'pcap:x.pcap'", 1);
    let text = router("one", 1, "") + &two.replace("name = 'two'\n", "name = 'two'\nmemory = '64M'\n") + &bad;
    let error = bench.instance.apply(&plan(&text), HostServices::default()).expect_err("refused");
    assert_eq!(
        format!("{error:#}"),
        "nothing was changed: router three, NIC in: pcap:x.pcap is outside, and was not opened"
    );
    assert_eq!(shown(&bench.instance), before);
    bench.stream.flows(50);
    bench.ends_whole();
}

#[test]
fn what_fails_on_the_way_is_undone() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut plugs = Plugs::new();
    let one = Stream::through("one", 1, [10, 1, 1, 2], &mut plugs);
    let other = Stream::through("two", 2, [10, 2, 1, 2], &mut plugs);
    let gone = router("gone", 4, "");
    let mut instance = start(&(router("one", 1, "") + &router("two", 2, "") + &gone), plugs);
    one.flows(50);
    other.flows(50);
    let before = shown(&instance);
    // Only the new firmware notices that it has too little memory, after the old router has been taken down.
    let route = "[[router.route]]\nto = '10.8.0.0/16'\nvia = '10.1.1.2'\n";
    let text = "[switch.lan]\n".to_owned()
        + &router("one", 1, "restart = 'never'\npin = { vcpu = '0' }")
        + route
        + &router("two", 2, "")
        + &router("three", 3, "");
    let mut wanted = plan(&text);
    wanted.routers[1].memory = 12 << 20;
    let error = instance.apply(&wanted, HostServices::default()).expect_err("refused");
    assert_eq!(
        format!("{error:#}"),
        "nothing was changed: router two: the memory is too small for the NICs' rings and buffers: give the router \
         more"
    );
    let after = shown(&instance);
    assert_eq!((&after.plan, &after.states, after.switches), (&before.plan, &before.states, before.switches));
    assert_eq!(after.threads[0], before.threads[0], "the router that only changed its settings");
    let stands = other.tally().arrived();
    wait_for("the old one to forward again", || other.tally().arrived() > stands + 50);
    assert_eq!(apply(&mut instance, &(router("one", 1, "") + &router("two", 2, "") + &gone)), []);
    one.ends_whole();
}

#[test]
fn a_stopped_router_stays_stopped() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let mut instance = start(&router("one", 1, ""), Plugs::new());
    instance.stop_router("one").expect("it stops");
    let route = "[[router.route]]\nto = '10.8.0.0/16'\nvia = '10.1.1.2'\n";
    let text = router("one", 1, "vcpus = 2") + route;
    assert_eq!(whats(&apply(&mut instance, &text)), ["router one replaced"]);
    assert_eq!(instance.status()[0].state, State::Stopped);
    let other = text.replace("via = '10.1.1.2'", "via = '10.1.1.3'");
    assert!(!apply(&mut instance, &other).is_empty());
    instance.start_router("one").expect("it starts");
    assert_eq!(instance.status()[0].threads.len(), 3, "with what was applied meanwhile");
    assert_eq!(instance.changes_to(&plan(&other)), []);
    let last = instance.changes_to(&plan(&router("one", 1, "")));
    assert_eq!(whats(&last), ["router one replaced"], "that would be changed");
    assert_eq!(instance.status()[0].threads.len(), 3, "and was not");
}

/// Returns the next hop that the table of router `one` has for 10.8.7.6.
fn next_hop(instance: &Instance) -> Option<NextHop> {
    let running = instance.router("one").expect("it runs");
    running.router.table().choices(0, IpAddr::from([10, 8, 7, 6]), 0).first().copied()
}

#[test]
fn a_router_that_is_started_by_a_plan_has_the_routes_of_that_plan() {
    if !kvm() {
        return;
    }
    let _turn = alone();
    let route = |via: u8| format!("[[router.route]]\nto = '10.8.0.0/16'\nvia = '10.1.1.{via}'\n");
    let gateway = |via| Some(NextHop::Gateway { nic: 1, gateway: u32::from_be_bytes([10, 1, 1, via]) });
    let mut instance = start(&(router("one", 1, "state = 'stopped'") + &route(2)), Plugs::new());
    let changes = apply(&mut instance, &(router("one", 1, "") + &route(3)));
    assert_eq!(
        whats(&changes),
        ["router one: route now 10.8.0.0/16 via 10.1.1.3 out of out", "router one runs"]
    );
    assert_eq!(next_hop(&instance), gateway(3));
    // Stopped and changed by one plan, it is changed when it starts.
    apply(&mut instance, &(router("one", 1, "state = 'stopped'") + &route(2)));
    instance.start_router("one").expect("it starts");
    assert_eq!(next_hop(&instance), gateway(2));
}
