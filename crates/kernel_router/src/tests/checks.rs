//! Invalid configurations.

use netlink::{Prefix, RouteKind};

use crate::{
    Fault, Interface, MAIN, Mode, Neighbour, Origin, PeerNamespace, Queue, QueueKind, Route, RouterConfig,
    TypedRoute, check, interface_sysctl,
};

fn veth(peer: &str) -> Origin {
    Origin::Veth { peer: peer.to_owned(), at: PeerNamespace::Home, bridge: None }
}

fn prefix(ip: [u8; 4], len: u8) -> Prefix {
    Prefix::new(ip, len).expect("a prefix")
}

fn edge() -> RouterConfig {
    RouterConfig::new("edge", vec![Interface::new("wan", veth("x")), Interface::new("lan", veth("y"))])
}

fn refused(change: impl FnOnce(&mut RouterConfig)) -> String {
    let mut wanted = edge();
    change(&mut wanted);
    let fault: Fault = check(&wanted).expect_err("it can never be");
    let line = fault.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn what_can_be_is_not_refused() {
    let mut wanted = edge();
    wanted.published = Some("edge".to_owned());
    wanted.interfaces[0].addresses = vec![prefix([192, 0, 2, 1], 24)];
    let to = |to, interface: &str| Route {
        to,
        via: None,
        interface: interface.to_owned(),
        metric: 0,
        table: MAIN,
    };
    wanted.routes = vec![to(prefix([0; 4], 0), "wan"), to(prefix([10, 0, 0, 1], 32), "lan")];
    wanted.sysctls.insert(interface_sysctl("wan", "rp_filter"), "1".to_owned());
    wanted.interfaces.push(Interface::new("m", Origin::Moved { link: "eth1".to_owned() }));
    assert_eq!(check(&wanted), Ok(()));
}

#[test]
fn names_are_the_kernels() {
    for name in ["", "lo", "all", "default", ".", "a/b", "a:b", "a b", "%d", "abcdefghijklmnop"] {
        let line = refused(|wanted| wanted.interfaces[0].name = name.to_owned());
        assert!(line.starts_with(&format!("`{name}` cannot name an interface: ")), "{line}");
    }
    for line in [
        refused(|wanted| wanted.interfaces[0].origin = veth("a/b")),
        refused(|wanted| {
            let bridge = Some("a/b".to_owned());
            wanted.interfaces[0].origin =
                Origin::Veth { peer: "x".to_owned(), at: PeerNamespace::Home, bridge };
        }),
        refused(|wanted| {
            wanted.interfaces[0].origin = Origin::Macvlan { parent: "a/b".to_owned(), mode: Mode::Bridge };
        }),
        refused(|wanted| wanted.interfaces[0].origin = Origin::Moved { link: "a/b".to_owned() }),
    ] {
        assert!(line.starts_with("`a/b` cannot name an interface: "), "{line}");
    }
    let line = refused(|wanted| wanted.published = Some("a/b".to_owned()));
    assert!(line.contains("cannot name a network namespace"), "{line}");
}

#[test]
fn each_interface_needs_one_of_its_own() {
    let line = refused(|wanted| wanted.interfaces[1].name = "wan".to_owned());
    assert!(line.contains("the name `wan` is used twice"), "{line}");
    let line = refused(|wanted| wanted.interfaces[1].origin = veth("x"));
    assert!(line.contains("the other end `x` on the host is used twice"), "{line}");
    let line = refused(|wanted| {
        wanted.published = Some("edge".to_owned());
        for interface in &mut wanted.interfaces {
            interface.origin = Origin::Moved { link: "eth1".to_owned() };
        }
    });
    assert!(line.contains("`eth1` of the host is used twice"), "{line}");
    let line = refused(|wanted| {
        let route =
            Route { to: prefix([0; 4], 0), via: None, interface: "wan".to_owned(), metric: 0, table: MAIN };
        wanted.routes = vec![route.clone(), Route { interface: "lan".to_owned(), ..route }];
    });
    assert!(line.contains("the route to 0.0.0.0/0 is used twice"), "{line}");
    let line = refused(|wanted| {
        let to = prefix([10, 0, 0, 0], 8);
        wanted.routes = vec![Route { to, via: None, interface: "wan".to_owned(), metric: 0, table: MAIN }];
        wanted.typed = vec![TypedRoute { to, kind: RouteKind::Blackhole, metric: 0, table: MAIN }];
    });
    assert!(line.contains("the route to 10.0.0.0/8 is used twice"), "{line}");
}

#[test]
fn what_is_of_an_interface_needs_that_one() {
    let to = prefix([0; 4], 0);
    let dmz = || "dmz".to_owned();
    for line in [
        refused(|wanted| {
            wanted.routes.push(Route { to, via: None, interface: dmz(), metric: 0, table: MAIN })
        }),
        refused(|wanted| {
            let ip = [192, 0, 2, 1].into();
            wanted.neighbours.push(Neighbour { interface: dmz(), ip, mac: [2, 0, 0, 0, 0, 1] });
        }),
        refused(|wanted| {
            wanted.sysctls.insert(interface_sysctl("dmz", "rp_filter"), "1".to_owned());
        }),
    ] {
        assert!(line.ends_with("the interface `dmz`, which the router does not have"), "{line}");
    }
}

#[test]
fn numbers_have_bounds() {
    let line = refused(|wanted| {
        let to = prefix([192, 0, 2, 1], 24);
        wanted.routes.push(Route { to, via: None, interface: "wan".to_owned(), metric: 0, table: MAIN });
    });
    assert!(line.starts_with("192.0.2.1/24 is not a network"), "{line}");
    let kind = RouteKind::Prohibit;
    let line = refused(|wanted| {
        wanted.typed = vec![TypedRoute { to: prefix([192, 0, 2, 1], 24), kind, metric: 0, table: MAIN }]
    });
    assert!(line.starts_with("192.0.2.1/24 is not a network"), "{line}");
    let v6 = Prefix::new(std::net::Ipv6Addr::LOCALHOST, 128).expect("a prefix");
    let line = refused(|wanted| {
        wanted.interfaces[0].addresses = vec![v6];
        wanted.interfaces[0].mtu = Some(1279);
    });
    assert!(line.contains("an MTU of 1279: at least 1280"), "{line}");
    for mac in [[0; 6], [1, 0, 0, 0, 0, 1], [0xff; 6]] {
        let line = refused(|wanted| wanted.interfaces[0].mac = Some(mac));
        assert!(line.contains("`wan` cannot have this Ethernet address"), "{line}");
    }
}

#[test]
fn a_macvlan_has_no_threads_and_a_moved_interface_needs_a_name_to_come_home_by() {
    let line = refused(|wanted| {
        let parent = "eth0".to_owned();
        wanted.interfaces[0].origin = Origin::Macvlan { parent, mode: Mode::Bridge };
        wanted.interfaces[0].threaded = true;
    });
    assert!(line.contains("a macvlan has no NAPI of its own"), "{line}");
    for origin in [
        Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge },
        Origin::Moved { link: "eth1".to_owned() },
        Origin::External,
    ] {
        let line = refused(|wanted| {
            wanted.published = Some("edge".to_owned());
            wanted.interfaces[0].origin = origin;
            wanted.interfaces[0].queue = Some(Queue { kind: QueueKind::Pfifo, limit: 1 });
        });
        assert!(line.contains("`wan` cannot have a queue at its other end"), "{line}");
    }
    let line = refused(|wanted| wanted.interfaces[0].origin = Origin::Moved { link: "eth1".to_owned() });
    assert!(line.contains("`eth1` of the host cannot be moved"), "{line}");
}
