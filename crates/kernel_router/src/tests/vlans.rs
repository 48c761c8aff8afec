//! Steps of changes of VLANs, and of the interfaces below them.

use super::orders::{one_interface, running, told};
use super::plans::v4;
use crate::{Interface, Origin, PeerNamespace, RouterConfig, check};

#[test]
fn a_vlan_goes_before_the_interface_below_it_and_comes_after_it() {
    let vlan = |lower: &str| {
        let origin = Origin::Vlan { lower: lower.to_owned(), id: 7 };
        Interface { addresses: vec![v4([10, 7, 0, 1], 24)], ..Interface::new("a-guests", origin) }
    };
    let mut wanted = one_interface(|_| {});
    wanted.interfaces.push(vlan("wan"));
    wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
    let before = running(&wanted);
    // Another pair: the VLAN of the former one goes as well.
    let mut other = wanted.clone();
    other.interfaces[0].origin = Origin::Veth { peer: "y".to_owned(), at: PeerNamespace::Home, bridge: None };
    let moves = ["a pair", "VLAN 7", "up becomes down", "down becomes up"];
    let all: Vec<String> = told(&other, &before);
    let all: Vec<&String> =
        all.iter().filter(|step| moves.iter().any(|words| step.contains(words))).collect();
    let expected = [
        "a-guests: up becomes down",
        "a-guests: remove VLAN 7 of `wan`",
        "wan: up becomes down",
        "wan: remove a pair with `x` on the host",
        "wan: add a pair with `y` on the host",
        "wan: down becomes up",
        "a-guests: add VLAN 7 of `wan`",
        "a-guests: down becomes up",
    ];
    assert_eq!(all, expected);
    // A cable that is pulled takes the VLAN down, and keeps it.
    let mut pulled = wanted.clone();
    pulled.interfaces[0].up = false;
    let all = told(&pulled, &before);
    assert!(
        all.contains(&"a-guests: up becomes down".to_owned())
            && !all.iter().any(|step| step.contains("VLAN"))
    );
    // The interface below exists, and no VLAN is twice.
    let mut wrong = wanted.clone();
    wrong.interfaces.push(Interface { name: "more".to_owned(), addresses: Vec::new(), ..vlan("wan") });
    assert!(check(&wrong).is_err());
    wrong.interfaces[2] = Interface { name: "more".to_owned(), addresses: Vec::new(), ..vlan("dmz") };
    assert!(check(&wrong).is_err());
    assert_eq!(check(&wanted), Ok(()));
}

#[test]
fn a_vlan_has_at_no_time_a_larger_mtu_than_the_interface_below_it() {
    let sized = |mtu: u32| {
        let origin = Origin::Vlan { lower: "wan".to_owned(), id: 7 };
        let mut wanted = one_interface(|wan| wan.mtu = Some(mtu));
        wanted.interfaces.push(Interface { mtu: Some(mtu), ..Interface::new("guests", origin) });
        wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
        wanted
    };
    let (large, small) = (sized(1500), sized(1300));
    let lowered = ["guests: MTU 1500 becomes MTU 1300", "wan: MTU 1500 becomes MTU 1300"];
    assert_eq!(told(&small, &running(&large)), lowered);
    let raised = ["wan: MTU 1300 becomes MTU 1500", "guests: MTU 1300 becomes MTU 1500"];
    assert_eq!(told(&large, &running(&small)), raised);
}

/// A router with a VLAN of two tags, and these MTUs.
fn with_two_tags(mtu: u32) -> RouterConfig {
    let service = Origin::ServiceVlan { lower: "wan".to_owned(), id: 200 };
    let customers = Origin::Vlan { lower: "s200".to_owned(), id: 7 };
    let mut wanted = one_interface(|wan| wan.mtu = Some(mtu));
    let addresses = vec![v4([10, 7, 0, 1], 24)];
    wanted.interfaces.push(Interface { mtu: Some(mtu), ..Interface::new("s200", service) });
    wanted.interfaces.push(Interface {
        mtu: Some(mtu),
        addresses,
        ..Interface::new("a-customers", customers)
    });
    wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
    wanted
}

#[test]
fn a_vlan_with_two_tags_is_on_a_service_vlan() {
    let wanted = with_two_tags(1500);
    let before = running(&wanted);
    let mut other = wanted.clone();
    other.interfaces[0].origin = Origin::Veth { peer: "y".to_owned(), at: PeerNamespace::Home, bridge: None };
    let moves = ["a pair", "VLAN", "up becomes down", "down becomes up"];
    let all: Vec<String> = told(&other, &before);
    let all: Vec<&String> =
        all.iter().filter(|step| moves.iter().any(|words| step.contains(words))).collect();
    let expected = [
        "a-customers: up becomes down",
        "a-customers: remove VLAN 7 of `s200`",
        "s200: up becomes down",
        "s200: remove service VLAN 200 of `wan`",
        "wan: up becomes down",
        "wan: remove a pair with `x` on the host",
        "wan: add a pair with `y` on the host",
        "wan: down becomes up",
        "s200: add service VLAN 200 of `wan`",
        "s200: down becomes up",
        "a-customers: add VLAN 7 of `s200`",
        "a-customers: down becomes up",
    ];
    assert_eq!(all, expected);
    // A cable that is pulled takes both down, and keeps them.
    let mut pulled = wanted.clone();
    pulled.interfaces[0].up = false;
    let all = told(&pulled, &before);
    for down in ["a-customers: up becomes down", "s200: up becomes down"] {
        assert!(all.contains(&down.to_owned()), "{all:?}");
    }
    assert!(!all.iter().any(|step| step.contains("VLAN")), "{all:?}");
}

#[test]
fn a_service_vlan_stays_closed_when_forwarding_begins() {
    let forwards = |forward: &str| {
        let mut wanted = with_two_tags(1500);
        wanted.sysctls.insert("net/ipv4/ip_forward".to_owned(), forward.to_owned());
        wanted.sysctls.insert("net/ipv4/conf/s200/forwarding".to_owned(), "0".to_owned());
        wanted
    };
    let (off, on) = (forwards("0"), forwards("1"));
    // The first step sets that of all interfaces.
    let steps = ["net/ipv4/ip_forward: 0 becomes 1", "net/ipv4/conf/s200/forwarding: 0 becomes 0"];
    assert_eq!(told(&on, &running(&off)), steps);
    assert!(told(&on, &running(&on)).is_empty());
}

#[test]
fn mtus_of_both_follow_that_of_the_nic() {
    let (large, small) = (with_two_tags(1500), with_two_tags(1300));
    let steps = |from: u32, to: u32, names: [&str; 3]| {
        names.map(|name| format!("{name}: MTU {from} becomes MTU {to}"))
    };
    assert_eq!(told(&small, &running(&large)), steps(1500, 1300, ["a-customers", "s200", "wan"]));
    assert_eq!(told(&large, &running(&small)), steps(1300, 1500, ["wan", "s200", "a-customers"]));
}

#[test]
fn what_is_below_comes_before() {
    let wanted = with_two_tags(1500);
    assert_eq!(check(&wanted), Ok(()));
    let refused = |change: fn(&mut RouterConfig)| {
        let mut wrong = wanted.clone();
        change(&mut wrong);
        check(&wrong).expect_err("it cannot be").to_string()
    };
    let line = refused(|wrong| wrong.interfaces.swap(1, 2));
    assert!(line.starts_with("the VLAN `a-customers` refers to the interface `s200`"), "{line}");
    let line = refused(|wrong| {
        let own = Origin::Vlan { lower: "own".to_owned(), id: 7 };
        wrong.interfaces.push(Interface::new("own", own));
    });
    assert!(line.starts_with("the VLAN `own` refers to the interface `own`"), "{line}");
    let line = refused(|wrong| {
        let again = Origin::ServiceVlan { lower: "wan".to_owned(), id: 200 };
        wrong.interfaces.push(Interface::new("again", again));
    });
    assert!(line.starts_with("service VLAN 200 of `wan` is used twice"), "{line}");
    let line = refused(|wrong| wrong.interfaces[1].threaded = true);
    assert!(line.contains("`s200` cannot use threaded NAPI"), "{line}");
    let mut beside = wanted.clone();
    let same = Origin::Vlan { lower: "wan".to_owned(), id: 200 };
    beside.interfaces.push(Interface::new("same", same));
    assert_eq!(check(&beside), Ok(()), "the kinds of tags have numbers of their own");
}
