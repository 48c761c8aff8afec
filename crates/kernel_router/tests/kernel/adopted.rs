//! Interfaces that another program has created, as LXC does: a router adopts them, and they are its own from then on.

use std::mem::ManuallyDrop;
use std::os::fd::AsFd;

use kernel_router::{Mode, Origin, PeerNamespace, Queue, QueueKind, Router, RouterConfig, name_to_adopt};
use netlink::{Kind, Settings};
use netns::Namespace;

use crate::host::{Host, has, interface, name, veth};

const OWN: [u8; 4] = [192, 0, 2, 1];

fn edge(origin: Origin, of: &str) -> RouterConfig {
    let wan = interface("wan", origin, OWN);
    RouterConfig { published: Some(name(of)), ..RouterConfig::new("edge", vec![wan]) }
}

/// Name of the other end until it is adopted.
fn before() -> String {
    name_to_adopt("edge", "wan")
}

/// Creates the pair of the router's interface `wan` in a new namespace. Both ends are up, as LXC leaves them.
fn with_pair(host: &Host) -> Namespace {
    let namespace = Namespace::new().expect("a namespace");
    let (outer, inner) = (Settings::default().name(&before()), Settings::default().name("wan"));
    host.kernel().make_veth(&outer, &inner, Some(namespace.as_fd())).expect("a pair");
    host.kernel().set_link(before().as_str(), &Settings::default().up(true)).expect("up");
    let inside = namespace.netlink().expect("a socket");
    inside.set_link("wan", &Settings::default().up(true)).expect("up");
    namespace
}

/// Creates the macvlan of the router's interface `wan` in a new namespace. `None`: that is not possible here.
fn with_macvlan(host: &Host) -> Option<Namespace> {
    let namespace = Namespace::new().expect("a namespace");
    let kind = Kind::Macvlan { lower: host.pair("eth0", "far").index, mode: Mode::Bridge };
    let settings = Settings::default().name("wan").up(true);
    if let Err(e) = host.kernel().make_link_in(kind, &settings, namespace.as_fd()) {
        println!("SKIPPED: no macvlan can be made ({e})");
        return None;
    }
    Some(namespace)
}

/// Pulls the router's interface out of its namespace.
fn pull(router: &Router, to: &Namespace) {
    let kernel = router.namespace().netlink().expect("a socket");
    kernel.move_link("wan", to.as_fd(), &Settings::default()).expect("moved");
    assert!(!router.health().expect("looks")[0].1.is_there);
}

#[test]
fn a_pair_is_adopted_and_made_again_when_somebody_pulls_it_out() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let elsewhere = Namespace::new().expect("a namespace");
    let wanted = edge(veth("outside", PeerNamespace::Home), "adopted");
    let mut router = host.adopt(with_pair(&host), wanted).expect("started");
    let outside = host.kernel().link("outside").expect("it has its name");
    assert_eq!((outside.up, outside.alias), (true, format!("ringroad {}", name("adopted"))));
    assert!(!has(&host.kernel(), &before()));
    assert_eq!((host.told.last(), router.leftover().pairs.len()), (Some(&router.leftover()), 1));
    assert!(router.plan(router.wanted()).expect("a plan").is_empty());
    assert_eq!(host.repair(&mut router), 0);
    pull(&router, &elsewhere);
    assert!(host.repair(&mut router) > 0);
    assert_ne!(host.kernel().link("outside").expect("a link").index, outside.index);
    assert!(!has(&elsewhere.netlink().expect("a socket"), "wan"));
    host.kernel().delete_link("outside").expect("deleted");
    assert!(host.repair(&mut router) > 0);
    assert!(router.health().expect("looks")[0].1.is_there);
    router.end().expect("ended");
    assert!(!has(&host.kernel(), "outside"));
}

#[test]
fn an_adopted_pair_goes_with_its_router() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let namespace = with_pair(&host);
    let wanted = edge(veth("outside", PeerNamespace::Home), "closed");
    let mut router = host.adopt(namespace.clone(), wanted).expect("started");
    assert!(has(&host.kernel(), "outside"));
    // The namespace stays.
    router.close().expect("closed");
    assert!(!has(&host.kernel(), "outside") && Namespace::open_named(&name("closed")).is_err());
    assert!(!has(&namespace.netlink().expect("a socket"), "wan"));
    router.close().expect("closed");
    router.end().expect("ended");
}

#[test]
fn an_adopted_pair_that_was_pulled_out_is_deleted_after_a_sigkill() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let elsewhere = Namespace::new().expect("a namespace");
    let theirs = elsewhere.netlink().expect("a socket");
    let wanted = || edge(veth("outside", PeerNamespace::Home), "orphan");
    let killed = ManuallyDrop::new(host.adopt(with_pair(&host), wanted()).expect("started"));
    pull(&killed, &elsewhere);
    let told = host.told.last().expect("somebody was told").clone();
    told.remove(&host.home).expect("taken away");
    assert!(!has(&host.kernel(), "outside") && !has(&theirs, "wan"));
    // If the cleaner was killed as well, the next run of the router finds it.
    let killed = ManuallyDrop::new(host.adopt(with_pair(&host), wanted()).expect("started"));
    pull(&killed, &elsewhere);
    let router = host.adopt(with_pair(&host), wanted()).expect("started");
    assert!(!has(&theirs, "wan") && router.health().expect("looks")[0].1.is_there);
    router.end().expect("ended");
    assert!(!has(&host.kernel(), "outside"));
}

#[test]
fn the_other_end_gets_its_namespace_and_its_queue() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let there = Namespace::new().expect("a namespace");
    let _named = there.publish(&name("adopts")).expect("published");
    // The host has an interface of that name.
    host.pair("eth0", "far");
    let mut wanted = edge(veth("eth0", PeerNamespace::Named(name("adopts"))), "placed");
    let queue = Queue { kind: QueueKind::Pfifo, limit: 300 };
    wanted.interfaces[0].queue = Some(queue);
    let mut router = host.adopt(with_pair(&host), wanted).expect("started");
    let outside = there.netlink().expect("a socket");
    let other_end = outside.link("eth0").expect("it is there").index;
    assert_eq!(outside.queue(other_end).expect("told").queue, Some(queue));
    outside.delete_link("eth0").expect("deleted");
    assert!(host.repair(&mut router) > 0);
    let other_end = outside.link("eth0").expect("it is there").index;
    assert_eq!(outside.queue(other_end).expect("told").queue, Some(queue));
    router.end().expect("ended");
    assert!(!has(&outside, "eth0") && has(&host.kernel(), "eth0"));
}

#[test]
fn a_macvlan_is_adopted_and_made_again() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let Some(namespace) = with_macvlan(&host) else { return };
    let station = Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge };
    let mut router = host.adopt(namespace, edge(station, "station")).expect("started");
    assert!(router.leftover().pairs.is_empty());
    let inside = router.namespace().netlink().expect("a socket");
    inside.delete_link("wan").expect("deleted");
    assert!(host.repair(&mut router) > 0);
    assert!(router.health().expect("looks")[0].1.is_there);
    assert!(router.plan(router.wanted()).expect("a plan").is_empty());
    router.end().expect("ended");
    assert!(!has(&inside, "wan") && has(&host.kernel(), "eth0"));
}

#[test]
fn what_cannot_be_adopted_is_refused_in_one_line() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    host.pair("eth0", "far");
    let wanted = || edge(veth("eth0", PeerNamespace::Home), "unadopted");
    let refused = host.adopt(with_pair(&host), wanted()).expect_err("its name is taken").to_string();
    assert!(refused.contains("there is an interface `eth0` on the host already"), "{refused}");
    assert!(Namespace::open_named(&name("unadopted")).is_err());
    let empty = Namespace::new().expect("a namespace");
    let refused = host.adopt(empty, wanted()).expect_err("there is none").to_string();
    assert!(refused.contains("wan: ") && refused.contains("was not created in the namespace"), "{refused}");
    // Another pair has its end in the namespace.
    let other = Namespace::new().expect("a namespace");
    let (outer, inner) = (Settings::default().name("theirs"), Settings::default().name("wan"));
    host.kernel().make_veth(&outer, &inner, Some(other.as_fd())).expect("a pair");
    let refused = host.adopt(other, wanted()).expect_err("it is another").to_string();
    assert!(refused.contains(&format!("is not the interface `{}` on the host", before())), "{refused}");
    assert!(has(&host.kernel(), "theirs"), "it stays as it is");
}
