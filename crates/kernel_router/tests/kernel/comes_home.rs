//! The host's interfaces are returned, and the published name is removed, however a router ends.

use kernel_router::{Interface, Leftover, Origin, Router, RouterConfig};
use netlink::{Generic, Link, Settings};
use netns::Namespace;

use crate::host::{Host, has, interface, name};

fn edge(published: &str) -> RouterConfig {
    let origin = Origin::Moved { link: "eth5".to_owned() };
    let mut wan = interface("wan", origin, [192, 0, 2, 1]);
    (wan.mac, wan.mtu) = (Some([2, 0, 0, 0, 0, 7]), Some(1300));
    RouterConfig { published: Some(published.to_owned()), ..RouterConfig::new("edge", vec![wan]) }
}

/// Asserts that the interface was moved, and has the configured properties.
fn assert_moved(host: &Host, router: &Router) {
    assert!(!has(&host.kernel(), "eth5"));
    let wan = router.namespace().netlink().expect("a socket").link("wan").expect("a link");
    assert_eq!((wan.mac, wan.mtu, wan.up), (Some([2, 0, 0, 0, 0, 7]), 1300, true));
}

/// Asserts that the interface is on the host as it was before, except for its index.
fn assert_home(host: &Host, before: &Link) {
    let after = host.kernel().link("eth5").expect("it is at home");
    let (index, running) = (before.index, before.running);
    assert_eq!(Link { index, running, ..after }, *before);
}

#[test]
fn when_it_ends() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    let router = host.start(edge(&name("ends"))).expect("started");
    assert_moved(&host, &router);
    assert!(Namespace::open_named(&name("ends")).is_ok());
    let told = host.told.last().expect("somebody was told");
    assert_eq!(told, &router.leftover());
    assert_eq!((told.kept.len(), told.kept[0].link.as_str(), told.kept[0].up), (1, "eth5", true));
    router.end().expect("ended");
    assert_home(&host, &before);
    assert!(Namespace::open_named(&name("ends")).is_err());
}

#[test]
fn with_the_alias_that_it_had() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    host.pair("eth5", "far");
    // For the second one there is no room in the alias that it has in the router.
    for alias in ["rack 7".to_owned(), "x".repeat(255)] {
        host.kernel().set_link("eth5", &Settings::default().alias(&alias)).expect("set");
        let before = host.kernel().link("eth5").expect("a link");
        let router = host.start(edge(&name("alias"))).expect("started");
        assert_moved(&host, &router);
        router.end().expect("ended");
        assert_eq!(before.alias, alias);
        assert_home(&host, &before);
    }
}

#[test]
fn without_the_threads_that_it_had_in_the_router() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    // With GRO a veth has a NAPI instance.
    let generic = host.home.within(Generic::open).expect("inside").expect("a socket");
    generic.set_features(before.index, &[("rx-gro", true)]).expect("set");
    let mut wanted = edge(&name("threads"));
    wanted.interfaces[0].threaded = true;
    let mut router = host.start(wanted.clone()).expect("started");
    let inside = router.namespace().sysfs().expect("a sysfs");
    assert_eq!(inside.read("class/net/wan/threaded").expect("read"), "1");
    let threads = |host: &Host| {
        let sysfs = host.home.sysfs().expect("a sysfs");
        sysfs.read("class/net/eth5/threaded").expect("read")
    };
    let without =
        RouterConfig { published: wanted.published.clone(), ..RouterConfig::new("edge", Vec::new()) };
    host.apply(&mut router, &without).expect("applied");
    assert_eq!(threads(&host), "0");
    host.apply(&mut router, &wanted).expect("applied");
    let told = router.leftover();
    assert!(!told.kept[0].threaded);
    // Imitates a SIGKILL.
    told.remove(&host.home).expect("taken away");
    assert_eq!(threads(&host), "0");
    drop(router);
}

#[test]
fn when_it_is_not_wanted_any_more_or_the_change_is_refused() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    let without = RouterConfig { published: Some(name("change")), ..RouterConfig::new("edge", Vec::new()) };
    let mut router = host.start(without.clone()).expect("started");
    for _ in 0..2 {
        host.apply(&mut router, &edge(&name("change"))).expect("applied");
        assert_moved(&host, &router);
        host.apply(&mut router, &without).expect("applied");
        assert_home(&host, &before);
    }
    let mut refused = edge(&name("change"));
    refused.interfaces.push(Interface::new("lan", Origin::External));
    host.apply(&mut router, &refused).expect_err("nobody gives it");
    assert_home(&host, &before);
    refused.interfaces[1].origin = Origin::Moved { link: "eth6".to_owned() };
    host.apply(&mut router, &refused).expect_err("there is none");
    assert_home(&host, &before);
    assert!(router.leftover().kept.is_empty());
}

#[test]
fn when_somebody_cleans_up_after_it() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    // As after a SIGKILL: the router is not ended, and its name keeps the namespace alive.
    let router = std::mem::ManuallyDrop::new(host.start(edge(&name("killed"))).expect("started"));
    assert_moved(&host, &router);
    let told = host.told.last().expect("somebody was told").clone();
    assert_eq!(Leftover::find(&name("killed"), &host.home).expect("found"), Some(told.clone()));
    told.remove(&host.home).expect("taken away");
    assert_home(&host, &before);
    assert!(Namespace::open_named(&name("killed")).is_err());
    told.remove(&host.home).expect("nothing is left");
}

#[test]
fn when_it_is_started_again_and_nobody_has_cleaned_up() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    let killed = std::mem::ManuallyDrop::new(host.start(edge(&name("again"))).expect("started"));
    assert_moved(&host, &killed);
    let again = RouterConfig { published: Some(name("again")), ..RouterConfig::new("edge", Vec::new()) };
    let router = host.start(again).expect("started");
    assert_home(&host, &before);
    let found = Namespace::open_named(&name("again")).expect("named").id().expect("an id");
    assert_eq!(found, router.namespace().id().expect("an id"));
}

#[test]
fn when_another_router_has_wanted_it_meanwhile() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    let router = host.start(edge(&name("first"))).expect("started");
    let refused = host.start(edge(&name("second"))).expect_err("the other one has it").to_string();
    let why = "the host has no interface `eth5`, or another router has taken it";
    assert_eq!(refused, format!("router `edge`: looking at `eth5` of the host: {why}"));
    assert!(Namespace::open_named(&name("second")).is_err());
    assert_moved(&host, &router);
    router.end().expect("ended");
    assert_home(&host, &before);
}

#[test]
fn under_another_name_if_somebody_has_its_own() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    host.pair("eth5", "far");
    let router = host.start(edge(&name("taken"))).expect("started");
    let kernel = host.kernel();
    let theirs = Settings::default().name("eth5");
    kernel.make_veth(&theirs, &Settings::default().name("too"), None).expect("a pair");
    let refused = router.end().expect_err("its name is taken").to_string();
    assert!(refused.contains("returning `eth5` to the host"), "{refused}");
    assert!(has(&kernel, "wan"), "it is at home all the same");
}
