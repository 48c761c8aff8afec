//! Steps of changes of VRFs and of their ports.

use netlink::RouteKind;

use super::orders::{one_interface, running, told};
use super::plans::{empty, v4, v6};
use crate::{Interface, MAIN, Origin, RouterConfig, TypedRoute, check, interface_sysctl};

const RED: u32 = 1001;
const BLUE: u32 = 1002;
/// Metric of the last route of a VRF.
const LAST: u32 = 4_278_198_272;

fn vrf(name: &str, table: u32) -> Interface {
    Interface::new(name, Origin::Vrf { table })
}

/// A router with these VRFs after its NIC, which is a port of the one with this table.
fn with_vrfs(vrfs: &[(&str, u32)], port_of: Option<u32>) -> RouterConfig {
    let mut wanted = one_interface(|wan| wan.vrf = port_of);
    wanted.routes[0].table = port_of.unwrap_or(MAIN);
    wanted.interfaces.extend(vrfs.iter().map(|(name, table)| vrf(name, *table)));
    let last = |(_, table): &(&str, u32)| {
        let (to, kind) = (v4([0; 4], 0), RouteKind::Unreachable);
        TypedRoute { to, kind, metric: LAST, table: *table }
    };
    wanted.typed = vrfs.iter().map(last).collect();
    with_sysctls(wanted)
}

fn with_sysctls(mut wanted: RouterConfig) -> RouterConfig {
    wanted.sysctls = RouterConfig::new("edge", wanted.interfaces.clone()).sysctls;
    wanted
}

#[test]
fn vrfs_are_made_before_their_ports() {
    let wanted = with_vrfs(&[("red", RED)], Some(RED));
    assert_eq!(check(&wanted), Ok(()));
    let all = told(&wanted, &empty(&[&wanted]));
    let expected = [
        "add the rule of table local for IPv4 behind those of VRFs",
        "red: add a VRF of table 1001",
        "red: down becomes up",
        "wan: add a pair with `x` on the host",
        "wan: in no VRF becomes a port of the VRF of table 1001",
        "wan: down becomes up",
        "wan: add the address 192.0.2.1/24",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1001",
        "add the route unreachable 0.0.0.0/0 table 1001 metric 4278198272",
    ];
    let parameters = all.iter().take_while(|step| step.starts_with("net/")).count();
    assert_eq!(all[parameters..], expected);
    assert_eq!(told(&wanted, &running(&wanted)), [""; 0]);
}

#[test]
fn a_vrf_has_its_parameters_before_it_is_up() {
    let mut wanted = with_vrfs(&[("red", RED)], Some(RED));
    for (key, value) in [("rp_filter", "2"), ("proxy_arp", "0")] {
        wanted.sysctls.insert(interface_sysctl("red", key), value.to_owned());
    }
    assert_eq!(check(&wanted), Ok(()));
    let all = told(&wanted, &empty(&[&wanted]));
    let made = all.iter().skip_while(|step| *step != "red: add a VRF of table 1001").take(4);
    let expected = [
        "red: add a VRF of table 1001",
        "net/ipv4/conf/red/proxy_arp: 0",
        "net/ipv4/conf/red/rp_filter: 2",
        "red: down becomes up",
    ];
    assert_eq!(made.collect::<Vec<_>>(), expected);
    // One that somebody deletes has those of the host when it is made again.
    let mut seen = running(&wanted);
    seen.interfaces.remove("red");
    seen.sysctls.retain(|key, _| !key.contains("/red/"));
    let again = told(&wanted, &seen);
    assert!(expected.iter().all(|step| again.iter().any(|again| again == step)), "{again:?}");
}

#[test]
fn an_interface_changes_its_vrf_while_it_is_down() {
    let both = [("red", RED), ("blue", BLUE)];
    let [red, blue] = [RED, BLUE].map(|table| with_vrfs(&both, Some(table)));
    let expected = [
        "wan: remove the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1001",
        "wan: up becomes down",
        "wan: a port of the VRF of table 1001 becomes in no VRF",
        "wan: in no VRF becomes a port of the VRF of table 1002",
        "wan: down becomes up",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1002",
    ];
    assert_eq!(told(&blue, &running(&red)), expected);
}

#[test]
fn the_last_vrf_goes_after_its_ports_and_then_the_rule() {
    let (before, after) = (with_vrfs(&[("red", RED)], Some(RED)), with_vrfs(&[], None));
    let expected = [
        "wan: remove the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1001",
        "remove the route unreachable 0.0.0.0/0 table 1001 metric 4278198272",
        "wan: up becomes down",
        "wan: a port of the VRF of table 1001 becomes in no VRF",
        "red: up becomes down",
        "red: remove a VRF of table 1001",
        "remove the rule of table local for IPv4 behind those of VRFs",
        "wan: down becomes up",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan",
    ];
    assert_eq!(told(&after, &running(&before)), expected);
}

#[test]
fn a_vrf_that_was_deleted_gets_its_ports_back() {
    let wanted = with_vrfs(&[("red", RED)], Some(RED));
    let mut seen = running(&wanted);
    seen.interfaces.remove("red");
    seen.interfaces.get_mut("wan").expect("an interface").vrf = None;
    seen.routes.clear();
    let expected = [
        "wan: up becomes down",
        "red: add a VRF of table 1001",
        "red: down becomes up",
        "wan: in no VRF becomes a port of the VRF of table 1001",
        "wan: down becomes up",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1001",
    ];
    assert_eq!(told(&wanted, &seen), expected);
}

#[test]
fn a_vlan_in_another_vrf_goes_down_with_its_nic_and_keeps_its_vrf() {
    let both = [("red", RED), ("blue", BLUE)];
    let with_vlan = |port_of: Option<u32>| {
        let mut wanted = with_vrfs(&both, port_of);
        let origin = Origin::Vlan { lower: "wan".to_owned(), id: 7 };
        let addresses = vec![v4([10, 7, 0, 1], 24), v6([0x2001, 0xdb8, 7, 0, 0, 0, 0, 1], 64)];
        let vlan = Interface { addresses, vrf: Some(BLUE), ..Interface::new("guests", origin) };
        wanted.interfaces.push(vlan);
        with_sysctls(wanted)
    };
    let (before, after) = (with_vlan(Some(RED)), with_vlan(None));
    assert_eq!(check(&before), Ok(()));
    let expected = [
        "wan: remove the route 0.0.0.0/0 via 192.0.2.254 dev wan table 1001",
        "guests: remove the address 2001:db8:7::1/64",
        "guests: up becomes down",
        "wan: up becomes down",
        "wan: a port of the VRF of table 1001 becomes in no VRF",
        "wan: down becomes up",
        "guests: down becomes up",
        "guests: add the address 2001:db8:7::1/64",
        "wan: add the route 0.0.0.0/0 via 192.0.2.254 dev wan",
    ];
    assert_eq!(told(&after, &running(&before)), expected);
}

#[test]
fn a_vrf_takes_part_in_ipv6_if_one_of_its_ports_does() {
    let mut wanted = with_vrfs(&[("red", RED), ("blue", BLUE)], Some(RED));
    assert!(wanted.moves_rule(true) && !wanted.moves_rule(false));
    wanted.interfaces[0].addresses.push(v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 64));
    let wanted = with_sysctls(wanted);
    let value = |vrf: &str, key: &str| wanted.sysctls.get(&format!("net/ipv6/conf/{vrf}/{key}")).cloned();
    assert_eq!(
        ["red", "blue"].map(|vrf| value(vrf, "disable_ipv6")),
        ["0", "1"].map(|is| Some(is.to_owned()))
    );
    assert_eq!(value("red", "addr_gen_mode"), Some("1".to_owned()), "it has no address");
    let all = told(&wanted, &empty(&[&wanted]));
    assert!(all.contains(&"add the rule of table local for IPv6 behind those of VRFs".to_owned()), "{all:?}");
}

#[test]
fn a_port_has_a_vrf_and_a_table_one_vrf() {
    let wanted = with_vrfs(&[("red", RED)], Some(RED));
    let refused = |change: fn(&mut RouterConfig)| {
        let mut wrong = wanted.clone();
        change(&mut wrong);
        check(&wrong).expect_err("it cannot be").to_string()
    };
    let line = refused(|wrong| wrong.interfaces[0].vrf = Some(BLUE));
    assert_eq!(line, "`wan` cannot be a port of the VRF of table 1002: the router has no such VRF");
    let line = refused(|wrong| wrong.interfaces.push(vrf("crimson", RED)));
    assert_eq!(line, "the table 1001 of a VRF is used twice: it must be unique");
    let line = refused(|wrong| wrong.interfaces[1].vrf = Some(RED));
    assert!(line.contains("`red` cannot be a port") && line.contains("only a NIC or a VLAN"), "{line}");
    let line = refused(|wrong| wrong.interfaces[1].threaded = true);
    assert!(line.contains("`red` cannot use threaded NAPI"), "{line}");
    // One network in the main table and in that of a VRF are two routes.
    let mut beside = wanted.clone();
    let plain = Origin::Veth { peer: "y".to_owned(), at: crate::PeerNamespace::Home, bridge: None };
    beside.interfaces.push(Interface::new("lan", plain));
    beside.routes.push(crate::Route { interface: "lan".to_owned(), table: MAIN, ..wanted.routes[0].clone() });
    assert_eq!(check(&beside), Ok(()));
}
