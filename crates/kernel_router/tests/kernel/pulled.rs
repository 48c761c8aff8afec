//! Interfaces that somebody pulls out of a router, its name that somebody removes, and threads that an interface cannot have.

use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

use kernel_router::{Error, Leftover, Mode, Origin, PeerNamespace, Router, RouterConfig, Surroundings};
use netlink::{Kind, Link, Settings};
use netns::{Namespace, unpublish};

use crate::host::{Host, has, interface, name, veth};

const OWN: [u8; 4] = [192, 0, 2, 1];

fn edge(origin: Origin, of: &str) -> RouterConfig {
    let wan = interface("wan", origin, OWN);
    RouterConfig { published: Some(name(of)), ..RouterConfig::new("edge", vec![wan]) }
}

/// Pulls the router's interface out of its namespace.
fn pull(router: &Router, to: &Namespace) {
    let kernel = router.namespace().netlink().expect("a socket");
    kernel.move_link("wan", to.as_fd(), &Settings::default()).expect("moved");
    assert!(!router.health().expect("looks")[0].1.is_there);
}

fn repair(host: &Host, router: &mut Router) -> Result<usize, Error> {
    let site = Surroundings { home: &host.home, others: &host.others };
    router.repair(&site, &mut |_| {}).map(|steps| steps.len())
}

#[test]
fn an_interface_of_the_host_is_moved_in_again_and_comes_home() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let before = host.pair("eth5", "far");
    let mut wanted = edge(Origin::Moved { link: "eth5".to_owned() }, "pulled");
    (wanted.interfaces[0].mac, wanted.interfaces[0].mtu) = (Some([2, 0, 0, 0, 0, 7]), Some(1300));
    let mut router = host.start(wanted).expect("started");
    pull(&router, &host.home);
    assert!(has(&host.kernel(), "wan") && !has(&host.kernel(), "eth5"));
    assert!(host.repair(&mut router) > 0);
    assert!(!has(&host.kernel(), "wan") && router.health().expect("looks")[0].1.is_there);
    assert!(router.plan(router.wanted()).expect("a plan").is_empty());
    pull(&router, &host.home);
    router.end().expect("ended");
    let after = host.kernel().link("eth5").expect("it is at home");
    let (index, running) = (before.index, before.running);
    assert_eq!(Link { index, running, ..after }, before);
}

#[test]
fn a_pair_is_made_again_and_the_old_one_does_not_stay() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let elsewhere = Namespace::new().expect("a namespace");
    let theirs = elsewhere.netlink().expect("a socket");
    let mut router = host.start(edge(veth("outside", PeerNamespace::Home), "pair")).expect("started");
    let old = host.kernel().link("outside").expect("a link").index;
    pull(&router, &elsewhere);
    assert!(host.repair(&mut router) > 0);
    assert_ne!(host.kernel().link("outside").expect("a link").index, old);
    assert!(!has(&theirs, "wan") && router.health().expect("looks")[0].1.is_there);
    // Also if it is behind another router namespace by now, and when the router ends.
    host.restart(&mut router);
    pull(&router, &elsewhere);
    router.end().expect("ended");
    assert!(!has(&host.kernel(), "outside") && !has(&theirs, "wan"));
}

#[test]
fn a_pair_that_was_pulled_out_is_deleted_after_a_sigkill() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let elsewhere = Namespace::new().expect("a namespace");
    let there = Namespace::new().expect("a namespace");
    let _named = there.publish(&name("there")).expect("published");
    let theirs = elsewhere.netlink().expect("a socket");
    for (at, outside) in
        [(PeerNamespace::Home, &host.home.clone()), (PeerNamespace::Named(name("there")), &there)]
    {
        let outside = outside.netlink().expect("a socket");
        let wanted = || edge(veth("outside", at.clone()), "lost");
        // The router is not ended, and its name keeps the namespace alive.
        let killed = ManuallyDrop::new(host.start(wanted()).expect("started"));
        pull(&killed, &elsewhere);
        let told = host.told.last().expect("somebody was told").clone();
        assert_eq!((&told, told.pairs.len()), (&killed.leftover(), 1));
        told.remove(&host.home).expect("taken away");
        assert!(!has(&outside, "outside") && !has(&theirs, "wan"));
        // If the cleaner was killed as well, the next run of the router finds it.
        let killed = ManuallyDrop::new(host.start(wanted()).expect("started"));
        pull(&killed, &elsewhere);
        let told = host.told.last().expect("somebody was told").clone();
        let found = Leftover::find(&name("lost"), &host.home).expect("found").expect("it is left");
        let is_on_host = at == PeerNamespace::Home;
        assert_eq!(found.pairs, if is_on_host { told.pairs.clone() } else { Vec::new() });
        let router = host.start(wanted()).expect("started");
        assert!(has(&outside, "outside") && !has(&theirs, "wan"));
        // A cleaner that is late leaves the pair of that run alone.
        told.remove(&host.home).expect("nothing is left");
        assert!(has(&outside, "outside") && router.health().expect("looks")[0].1.is_there);
        router.end().expect("ended");
        assert!(!has(&outside, "outside"));
    }
}

#[test]
fn what_took_the_place_of_its_other_end_stays() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut router = host.start(edge(veth("outside", PeerNamespace::Home), "place")).expect("started");
    host.kernel().delete_link("outside").expect("deleted");
    host.pair("outside", "far");
    let refused = repair(&host, &mut router).expect_err("its name is taken").to_string();
    assert!(refused.contains("there is an interface `outside` on the host already"), "{refused}");
    host.kernel().delete_link("outside").expect("deleted");
    assert!(host.repair(&mut router) > 0);
    host.kernel().delete_link("outside").expect("deleted");
    host.pair("outside", "far");
    router.end().expect("ended");
    assert!(has(&host.kernel(), "outside"), "it is somebody else's");
}

#[test]
fn a_name_that_is_removed_is_given_again() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut router = host.start(edge(veth("outside", PeerNamespace::Home), "nameless")).expect("started");
    let id = router.namespace().id().expect("an id");
    assert!(router.is_named());
    // As `ip netns delete` does.
    assert!(unpublish(&name("nameless"), id).expect("removed"));
    assert!(!router.is_named());
    assert_eq!(host.repair(&mut router), 0);
    assert!(router.is_named());
    unpublish(&name("nameless"), id).expect("removed");
    let theirs = Namespace::new().expect("a namespace").publish(&name("nameless")).expect("published");
    let refused = repair(&host, &mut router).expect_err("somebody has its name");
    assert!(refused.is_in_use() && !router.is_named(), "{refused}");
    drop(theirs);
    assert_eq!(host.repair(&mut router), 0);
    assert!(router.is_named());
    // What a killed router of this name has left is removed; its own pair, which has the same alias, stays.
    unpublish(&name("nameless"), id).expect("removed");
    let left = Namespace::new().expect("a namespace");
    left.netlink().expect("a socket").set_link("lo", &Settings::default().alias("ringroad")).expect("set");
    left.publish(&name("nameless")).expect("published").keep();
    assert_eq!(host.repair(&mut router), 0);
    assert!(router.is_named() && has(&host.kernel(), "outside"));
    router.end().expect("ended");
    assert!(Namespace::open_named(&name("nameless")).is_err());
}

#[test]
fn threads_that_an_interface_cannot_have_are_refused() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let lower = host.pair("eth0", "far").index;
    let kind = Kind::Macvlan { lower, mode: Mode::Bridge };
    if let Err(e) = host.kernel().make_link(kind, &Settings::default().name("eth5")) {
        return println!("SKIPPED: no macvlan can be made ({e})");
    }
    let mut wanted = edge(Origin::Moved { link: "eth5".to_owned() }, "threadless");
    wanted.interfaces[0].threaded = true;
    let refused = host.start(wanted.clone()).expect_err("it has no NAPI").to_string();
    assert!(refused.contains("threaded NAPI is not possible: it has no NAPI of its own"), "{refused}");
    assert!(has(&host.kernel(), "eth5"), "it is at home again");
    wanted.interfaces[0].threaded = false;
    host.start(wanted).expect("started");
}
