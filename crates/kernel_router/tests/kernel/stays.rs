//! Refused changes are undone, and objects of others stay.

use std::process::Command;

use kernel_router::{MAIN, Mode, Origin, PeerNamespace, Route, RouterConfig};
use netlink::{Address, Route as Entered, Settings};
use netns::Namespace;

use crate::host::{Host, default_route, has, interface, name, prefix, veth};

const OWN: [u8; 4] = [192, 0, 2, 1];

fn edge() -> RouterConfig {
    let wan = interface("wan", veth("outside", PeerNamespace::Home), OWN);
    RouterConfig {
        routes: vec![default_route([192, 0, 2, 254], "wan")],
        ..RouterConfig::new("edge", vec![wan])
    }
}

#[test]
fn a_refused_start_leaves_nothing() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut wanted = edge();
    wanted.published = Some(name("refused"));
    wanted.routes = vec![default_route([203, 0, 113, 1], "wan")];
    let refused = host.start(wanted).expect_err("no way there").to_string();
    let expected =
        "router `edge`: wan: add the route 0.0.0.0/0 via 203.0.113.1 dev wan: 203.0.113.1 lies in no network";
    assert!(refused.starts_with(expected), "{refused}");
    assert!(!has(&host.kernel(), "outside"));
    assert!(Namespace::open_named(&name("refused")).is_err());
}

#[test]
fn a_refused_change_goes_back() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut router = host.start(edge()).expect("started");
    let before = host.kernel().link("outside").expect("a link");
    let mut other = edge();
    other.interfaces[0].addresses = vec![prefix([198, 51, 100, 1], 24)];
    other.interfaces[0].mtu = Some(1400);
    other.interfaces.push(interface("lan", veth("inside", PeerNamespace::Home), [10, 0, 0, 1]));
    let refused = host.apply(&mut router, &other).expect_err("no way there").to_string();
    assert!(refused.contains("192.0.2.254 lies in no network"), "{refused}");
    assert_eq!(router.wanted(), &edge());
    assert!(router.plan(&edge()).expect("a plan").is_empty(), "all is as it was");
    assert!(!has(&host.kernel(), "inside"));
    assert_eq!(host.kernel().link("outside").expect("a link"), before);
    other.routes.clear();
    let told = host.apply(&mut router, &other).expect("applied");
    assert!(told.iter().any(|step| step == "wan: MTU 1500 becomes MTU 1400"), "{told:?}");
    assert_eq!(host.kernel().link("outside").expect("a link").mtu, 1400, "both ends have it");
    assert!(host.apply(&mut router, &other).expect("applied").is_empty());
}

#[test]
fn what_somebody_else_has_put_there_stays() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut router = host.start(edge()).expect("started");
    let kernel = router.namespace().netlink().expect("a socket");
    let index = kernel.link("wan").expect("a link").index;
    kernel.set_link("wan", &Settings::default().up(true)).expect("up");
    host.kernel().set_link("outside", &Settings::default().up(true)).expect("up");
    let (address, network) = (prefix([198, 51, 100, 7], 24), prefix([10, 0, 0, 0], 8));
    kernel.add_address(index, address).expect("an address");
    kernel.add_route(network, [192, 0, 2, 9].into()).expect("a route");
    let theirs = Settings::default().name("theirs");
    kernel.make_veth(&theirs, &Settings::default().name("too"), None).expect("a pair");
    let mut other = edge();
    other.routes.clear();
    host.apply(&mut router, &other).expect("applied");
    host.apply(&mut router, &edge()).expect("applied");
    let addresses: Vec<Address> = kernel.all().expect("a dump");
    assert!(addresses.iter().any(|found| found.prefix == address), "{addresses:?}");
    let routes: Vec<Entered> = kernel.all().expect("a dump");
    assert!(routes.iter().any(|route| route.id.to == network), "{routes:?}");
    assert!(has(&kernel, "theirs"));
    // A new interface cannot take the name of an interface of another program.
    let mut taken = edge();
    taken.interfaces.push(interface("theirs", veth("inside", PeerNamespace::Home), [10, 1, 0, 1]));
    let refused = host.apply(&mut router, &taken).expect_err("taken").to_string();
    assert!(refused.contains("another interface `theirs`, which ringroad has not created"), "{refused}");
}

#[test]
fn what_is_taken_away_is_made_again() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut router = host.start(edge()).expect("started");
    assert_eq!(host.repair(&mut router), 0);
    host.kernel().delete_link("outside").expect("deleted");
    let wan = router.health().expect("looks")[0].1;
    assert!(!wan.is_there && !wan.carrier, "{wan:?}");
    assert!(host.repair(&mut router) > 0);
    assert!(has(&host.kernel(), "outside"));
    let kernel = router.namespace().netlink().expect("a socket");
    let index = kernel.link("wan").expect("a link").index;
    kernel.delete_address(index, prefix(OWN, 24)).expect("deleted");
    assert_eq!(host.repair(&mut router), 2, "the address, and the route that went with it");
    assert!(router.plan(&edge()).expect("a plan").is_empty());
}

#[test]
fn a_router_that_is_renewed_is_behind_the_same_cables() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    host.pair("eth5", "far");
    let mut wanted = RouterConfig { published: Some(name("renewed")), ..edge() };
    let moved = Origin::Moved { link: "eth5".to_owned() };
    wanted.interfaces.push(interface("lan", moved, [10, 0, 0, 1]));
    let mut router = host.start(wanted.clone()).expect("started");
    let (outside, old) = (host.kernel().link("outside").expect("a link"), router.namespace().clone());
    let theirs = Settings::default().name("theirs");
    let kernel = old.netlink().expect("a socket");
    kernel.make_veth(&theirs, &Settings::default().name("too"), None).expect("a pair");
    host.restart(&mut router);
    assert_ne!(router.namespace().id().expect("an id"), old.id().expect("an id"));
    let named = Namespace::open_named(&name("renewed")).expect("named");
    assert_eq!(named.id().expect("an id"), router.namespace().id().expect("an id"));
    assert!(router.plan(&wanted).expect("a plan").is_empty());
    assert!(!has(&router.namespace().netlink().expect("a socket"), "theirs"));
    let after = host.kernel().link("outside").expect("a link");
    assert_eq!((after.index, after.mac), (outside.index, outside.mac));
    assert_eq!(host.told.last(), Some(&router.leftover()));
    router.end().expect("ended");
    assert!(has(&host.kernel(), "eth5") && !has(&host.kernel(), "outside"));
}

#[test]
fn a_name_that_somebody_has_is_told() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    host.pair("outside", "other");
    let refused = host.start(edge()).expect_err("taken");
    assert!(refused.is_in_use(), "{refused}");
    assert!(refused.to_string().contains("there is an interface `outside` on the host already"), "{refused}");
    let theirs = Namespace::new().expect("a namespace").publish(&name("theirs")).expect("published");
    let wanted = RouterConfig { published: Some(name("theirs")), ..RouterConfig::new("edge", Vec::new()) };
    let refused = host.start(wanted).expect_err("taken");
    assert!(refused.is_in_use(), "{refused}");
    drop(theirs);
}

#[test]
fn what_is_not_there_is_told() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let of = |origin| RouterConfig::new("edge", vec![interface("wan", origin, OWN)]);
    let mode = kernel_router::Mode::Bridge;
    let bridge = Some("br0".to_owned());
    let nowhere = PeerNamespace::Router("core".to_owned());
    for (origin, expected) in [
        (Origin::Macvlan { parent: "eth7".to_owned(), mode }, "the host has no interface `eth7`"),
        (
            Origin::Veth { peer: "p".to_owned(), at: PeerNamespace::Home, bridge },
            "there is no bridge `br0` on the host",
        ),
        (veth("p", nowhere), "there is no kernel router `core`"),
        (veth("p", PeerNamespace::Named("rr-none".to_owned())), "there is no network namespace `rr-none`"),
        (Origin::External, "the interface `wan` is not in its namespace"),
    ] {
        let refused = host.start(of(origin)).expect_err("not there").to_string();
        assert!(refused.contains(expected) && !refused.contains('\n'), "{refused}");
    }
    assert!(!has(&host.kernel(), "p"));
}

#[test]
fn a_pair_stands_in_a_bridge_and_a_macvlan_on_an_interface() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    if !bridge(&host) {
        return;
    }
    host.pair("eth0", "far");
    let origin =
        Origin::Veth { peer: "outside".to_owned(), at: PeerNamespace::Home, bridge: Some("br0".to_owned()) };
    let station = Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge };
    let mut wan = interface("eth0", station, [10, 0, 0, 1]);
    wan.mac = Some([2, 0, 0, 0, 0, 5]);
    wan.mtu = Some(1300);
    let wanted = RouterConfig::new("edge", vec![interface("lan", origin, OWN), wan]);
    let router = host.start(wanted).expect("started");
    let (kernel, inside) = (host.kernel(), router.namespace().netlink().expect("a socket"));
    let (outside, br0) = (kernel.link("outside").expect("a link"), kernel.link("br0").expect("a link"));
    assert_eq!((outside.master, outside.up, outside.alias.as_str()), (Some(br0.index), true, "ringroad"));
    // It has the same name as its parent on the host.
    let station = inside.link("eth0").expect("a link");
    assert_eq!((station.mac, station.mtu, station.up), (Some([2, 0, 0, 0, 0, 5]), 1300, true));
    router.end().expect("ended");
    assert!(!has(&kernel, "outside") && has(&kernel, "eth0"));
}

#[test]
fn a_macvlan_has_the_mode_of_its_file() {
    support::needs!(Root, Program("ip"));
    for mode in [Mode::Private, Mode::Vepa, Mode::Bridge, Mode::Passthru] {
        let mut host = Host::new(&[]);
        let lower = host.pair("eth0", "far");
        let wanted = |name: &str, mode| {
            let origin = Origin::Macvlan { parent: "eth0".to_owned(), mode };
            RouterConfig::new(name, vec![interface("wan", origin, OWN)])
        };
        let router = host.start(wanted("edge", mode)).expect("started");
        let wan = router.namespace().netlink().expect("a socket").link("wan").expect("a link");
        assert_eq!(wan.mac == lower.mac, mode == Mode::Passthru, "{mode:?}: {wan:?}");
        let show = || Command::new("ip").args(["-d", "link", "show", "wan"]).output();
        let shown = router.namespace().within(show).expect("inside").expect("it ends");
        let (shown, word) = (String::from_utf8_lossy(&shown.stdout), format!("{mode:?}").to_lowercase());
        assert!(shown.contains(&format!("macvlan mode {word}")), "{shown}");
        // Only passthru needs the interface for itself.
        match host.start(wanted("other", Mode::Bridge)) {
            Ok(_) => assert_ne!(mode, Mode::Passthru),
            Err(refused) => {
                let line = refused.to_string();
                assert!(mode == Mode::Passthru && line.contains("has one in mode passthru"), "{line}");
            }
        }
    }
}

/// Creates the bridge `br0`. Prints a message and returns false if that is not possible.
fn bridge(host: &Host) -> bool {
    let add = || Command::new("ip").args(["link", "add", "br0", "type", "bridge"]).status();
    let made = host.home.within(add).expect("inside").is_ok_and(|status| status.success());
    if !made {
        println!("SKIPPED: no bridge can be made");
    }
    made
}

#[test]
fn routes_of_ipv6_wait_for_an_address() {
    support::needs!(Root);
    let mut host = Host::new(&[]);
    let mut wanted = edge();
    let v6 = |text: &str, len| {
        netlink::Prefix::new(text.parse::<std::net::Ipv6Addr>().expect("an address"), len).expect("a prefix")
    };
    wanted.interfaces[0].addresses.push(v6("2001:db8::1", 64));
    let via = Some("2001:db8::fe".parse().expect("an address"));
    let to = v6("2001:db8:1::", 48);
    wanted.routes.push(Route { to, via, interface: "wan".to_owned(), metric: 0, table: MAIN });
    // With an IPv6 address the default sysctls enable IPv6.
    wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
    if router_has_no_ipv6() {
        return println!("SKIPPED: this kernel has no IPv6");
    }
    let mut router = host.start(wanted.clone()).expect("started");
    assert!(router.plan(&wanted).expect("a plan").is_empty());
    let told = host.apply(&mut router, &edge()).expect("applied");
    assert!(told.iter().any(|step| step.contains("remove the address 2001:db8::1/64")), "{told:?}");
    host.apply(&mut router, &wanted).expect("applied");
    assert!(router.plan(&wanted).expect("a plan").is_empty());
}

/// Returns true if this kernel has no IPv6.
pub(crate) fn router_has_no_ipv6() -> bool {
    !std::path::Path::new("/proc/sys/net/ipv6").exists()
}
