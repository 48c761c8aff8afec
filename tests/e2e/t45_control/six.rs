//! IPv6: routes of OSPFv3, and BGP between routers whose link has no IPv4 addresses.

use std::net::IpAddr;

use super::*;

/// Address behind the plain router.
pub(super) const FAR6: &str = "2001:db8:9::1";
/// Address of the plain router on its link.
const OUT: &str = "10.0.23.2";

/// Both families everywhere.
const DUAL: Way = Way {
    addresses: [
        "[\"192.0.2.1/24\", \"2001:db8:1::1/64\"]",
        "[\"10.0.12.1/30\", \"2001:db8:12::1/64\"]",
        "[\"10.0.12.2/30\", \"2001:db8:12::2/64\"]",
        "[\"10.0.23.1/30\", \"2001:db8:23::1/64\"]",
    ],
    ..USUAL
};

/// A link between the routers that has link-local addresses alone.
const UNNUMBERED: Way =
    Way { addresses: ["\"192.0.2.1/24\"", "\"fe80::1/64\"", "\"fe80::2/64\"", "\"10.0.23.1/30\""], ..USUAL };

/// OSPFv3 on these links, with the timers of [`LINK`]. All networks of a router are told.
pub(super) fn ospf6(id: u8, links: &[&str]) -> String {
    let link = |link: &&str| {
        format!(
            "interface {link}\n ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n \
             ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 10\nexit\n"
        )
    };
    let links: String = links.iter().map(link).collect();
    format!("{links}router ospf6\n ospf6 router-id 10.255.0.{id}\n redistribute connected\nexit\n")
}

/// BGP with whoever is at the other end of a link; this network is told.
fn unnumbered(own: u16, network: &str) -> String {
    format!(
        "router bgp {own}\n bgp router-id 10.255.1.{}\n no bgp ebgp-requires-policy\n \
         neighbor core interface remote-as external\n neighbor core timers connect 1\n \
         address-family ipv4 unicast\n  network {network}\n exit-address-family\nexit\n",
        own % 100
    )
}

/// Gives the hosts of a chain their IPv6 addresses; the plain router has to learn its routes.
fn settle(chain: &Chain, (west, east): (&str, &str)) {
    chain.near.add_six(west, "2001:db8:1::2/64", "2001:db8:1::1").expect("IPv6");
    chain.plain.add_six(east, "2001:db8:23::2/64", "2001:db8:23::1").expect("IPv6");
    chain.plain.ip(&["-6", "route", "delete", "default"]).expect("deleted");
    chain.plain.ip(&["address", "add", &format!("{FAR6}/128"), "dev", "lo"]).expect("added");
    chain.plain.set("net.ipv6.conf.all.forwarding", "1").expect("a parameter");
}

/// Checks that each neighbour solicitation of a host for its router has one answer. One that comes late is taken for the next one's.
fn each_solicitation_has_one_answer(host: &Namespace, (link, router): (&str, &str)) {
    let (mut asked, mut answers) = (0, 0);
    wait_for("an answer to each solicitation", || {
        let mut ndisc6 = host.command("ndisc6");
        let done = run(ndisc6.args(["-m", "-r", "1", "-w", "1000", router, link]), PATIENCE);
        let told = done.expect("it ends").stdout;
        let received = told.matches(" from ").count();
        (asked, answers) = (asked + 1, answers + received);
        assert!(answers <= asked, "{answers} answers to {asked} solicitations: {told}");
        (asked >= 3 && received == 1).then_some(())
    });
}

/// Returns true if a route leads to a link-local address on the link between the routers.
fn is_by_link_local(route: &ControlRoute) -> bool {
    let [hop] = route.hops.as_slice() else { return false };
    hop.link == "core" && matches!(hop.via, Some(IpAddr::V6(via)) if via.is_unicast_link_local())
}

fn all_find_their_way_by_ospf_for_ipv6(way: &Way, (west, east): (&str, &str)) {
    let (first, second) = (ospf6(1, &["core"]), ospf6(2, &["core", "out"]));
    let chain = Chain::start_as(way, (west, &first), (east, &second));
    settle(&chain, (west, east));
    let plain = Plain::start(&chain.plain, &ospf6(3, &[east]));
    let mut client = chain.client();
    // The kernel has one number for the routes of both versions of OSPF.
    let found = wait_for_route(&mut client, west, (FAR6, "ospf"));
    assert!(is_by_link_local(&found), "{found:?}");
    wait_for("the plain router's way back", || {
        let routes = chain.plain.ip(&["-6", "route", "show"]).expect("routes");
        routes.contains("2001:db8:1::/64").then_some(())
    });
    wait_for_answer(&chain.near, FAR6);
    ping(chain.near.command("busybox"), 5, &["-6", FAR6]).expect("answered");
    each_solicitation_has_one_answer(&chain.near, (west, "2001:db8:1::1"));
    let full = wait_for("adjacencies", || {
        let all = adjacencies(&mut client, east);
        (all.len() == 2 && all.iter().all(|one| one.up)).then_some(all)
    });
    assert!(full.iter().all(|one| one.protocol == "ospf6"), "{full:?}");
    assert_eq!([west, east].map(forwarded_by_kernel), [0, 0]);
    let counters = chain.stage.wait_for_counters(|_| true).expect("counters");
    assert!(counters.get(&format!("{west}.core.punt.routing")) > 0);
    sorted_adds_up(&counters, &format!("{west}.core"));
    drop(plain);
    [&chain.near, &chain.plain].iter().for_each(|host| host.silence_six().expect("it is silent"));
    let counters = chain.stage.finish(vec![chain.near, chain.plain]).expect("nothing is left");
    assert_eq!([west, east].map(|router| counters.faults(router)), [Vec::<String>::new(), Vec::new()]);
}

fn routes_come_by_bgp_without_ipv4_addresses(way: &Way, (west, east): (&str, &str)) {
    let (first, second) = (unnumbered(65001, "192.0.2.0/24"), unnumbered(65002, "10.0.23.0/30"));
    let chain = Chain::start_as(way, (west, &first), (east, &second));
    // It runs no protocol here.
    chain.plain.ip(&["route", "add", "default", "via", "10.0.23.1"]).expect("a route");
    let mut client = chain.client();
    for (router, to) in [(west, OUT), (east, "192.0.2.2")] {
        let found = wait_for_route(&mut client, router, (to, "bgp"));
        assert!(is_by_link_local(&found), "{router}: {found:?}");
    }
    wait_for_answer(&chain.near, OUT);
    let said = ping(chain.near.command("busybox"), 5, &[OUT]).expect("answered");
    assert_eq!(said.matches("ttl=62").count(), 5, "{said}");
    let peers = adjacencies(&mut client, east);
    assert!(peers.iter().any(|one| one.protocol == "bgp" && one.up), "{peers:?}");
    assert_eq!([west, east].map(forwarded_by_kernel), [0, 0]);
    let counters = chain.stage.finish(vec![chain.near, chain.plain]).expect("nothing is left");
    assert_eq!([west, east].map(|router| counters.faults(router)), [Vec::<String>::new(), Vec::new()]);
}

mod all {
    use super::*;

    #[test]
    fn two_routers_and_a_plain_one_find_their_way_by_ospf_for_ipv6() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"), Program("ndisc6"));
        all_find_their_way_by_ospf_for_ipv6(&DUAL, ("t45-w10", "t45-e10"));
    }

    #[test]
    fn ospf_for_ipv6_by_virtual_machines_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"), Program("ndisc6"));
        let way = Way { engine: "kvm", model: "e1000", ..DUAL };
        all_find_their_way_by_ospf_for_ipv6(&way, ("t45-w13", "t45-e13"));
    }

    #[test]
    fn bgp_needs_no_ipv4_addresses_between_routers() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        routes_come_by_bgp_without_ipv4_addresses(&UNNUMBERED, ("t45-w11", "t45-e11"));
    }

    #[test]
    fn nor_between_virtual_machines_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        let way = Way { engine: "kvm", model: "e1000", ..UNNUMBERED };
        routes_come_by_bgp_without_ipv4_addresses(&way, ("t45-w14", "t45-e14"));
    }
}
