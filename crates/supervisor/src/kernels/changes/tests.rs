use super::*;

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\nmtu = 1500\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\naddress = \"198.51.100.1/24\"\n\
    [[router.route]]\nto = \"203.0.113.0/24\"\nvia = \"192.0.2.2\"\n";

fn plan(text: &str) -> Plan {
    config::parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// Changes when `this` replaces `that` in the file, as text and whether packets are lost.
fn told(that: &str, this: &str) -> Vec<(String, bool)> {
    assert!(FILE.contains(that), "{that}");
    let changes = changes(&plan(FILE), &plan(&FILE.replace(that, this)));
    changes.into_iter().map(|change| (change.what, !change.hitless)).collect()
}

fn one(what: &str, costs: bool) -> Vec<(String, bool)> {
    vec![(what.to_owned(), costs)]
}

#[test]
fn nothing_is_no_change() {
    assert!(told("edge", "edge").is_empty());
}

#[test]
fn what_is_changed_is_told_and_nothing_else() {
    assert_eq!(told("mtu = 1500", "mtu = 1400"), one("router edge: mtu of wan = 1400", false));
    assert_eq!(told("mtu = 1500", "link = \"down\""), one("router edge: link of wan = down", true));
    assert_eq!(
        told("engine = \"kernel\"\n", "engine = \"kernel\"\nforwarding = false\n"),
        one("router edge: forwarding = false", true)
    );
    assert_eq!(
        told("engine = \"kernel\"\n", "engine = \"kernel\"\ndrop_reasons = true\n"),
        one("router edge: drop_reasons = true", false)
    );
    assert_eq!(
        told("engine = \"kernel\"\n", "engine = \"kernel\"\nstate = \"stopped\"\n"),
        one("router edge is stopped", true)
    );
    assert_eq!(
        told("engine = \"kernel\"\n", "engine = \"kernel\"\ncontrol = {}\n"),
        one("router edge: control plane added", false)
    );
    let turned = [
        ("router edge: route 203.0.113.0/24 via 192.0.2.2 out of wan removed".to_owned(), true),
        ("router edge: route 203.0.113.0/24 via 192.0.2.3 out of wan added".to_owned(), false),
    ];
    assert_eq!(told("via = \"192.0.2.2\"", "via = \"192.0.2.3\""), turned);
    let more = told("\"198.51.100.1/24\"", "[\"198.51.100.1/24\", \"198.51.101.1/24\"]");
    assert_eq!(more, one("router edge: address 198.51.101.1/24 of lan added", false));
    let elsewhere = [
        ("router edge: NIC lan at veth:rr-lan removed".to_owned(), true),
        ("router edge: NIC lan at veth:rr-other added".to_owned(), false),
    ];
    assert_eq!(told("veth:rr-lan", "veth:rr-other"), elsewhere);
}

#[test]
fn a_queueing_discipline_changes_in_place() {
    let with = |keys: &str| FILE.replace("\"veth:rr-wan\"\n", &format!("\"veth:rr-wan\"\n{keys}"));
    let told = |before: &str, after: &str| {
        let changes = changes(&plan(&with(before)), &plan(&with(after)));
        changes.into_iter().map(|change| (change.what, !change.hitless)).collect::<Vec<_>>()
    };
    let (pfifo, small) = ("qdisc = \"pfifo\"\n", "qdisc = \"pfifo\"\nqdisc_limit = 300\n");
    let fq = "qdisc = \"fq_codel\"\n";
    assert_eq!(told("", pfifo), one("router edge: qdisc of wan = pfifo of 1000 frames", false));
    assert_eq!(told(pfifo, small), one("router edge: qdisc of wan = pfifo of 300 frames", false));
    assert_eq!(told(small, fq), one("router edge: qdisc of wan = fq_codel of 1000 frames", true));
    assert_eq!(
        told(fq, &format!("{fq}qdisc_limit = 7\n")),
        one("router edge: qdisc of wan = fq_codel of 7 frames", true)
    );
    assert_eq!(told(small, ""), one("router edge: qdisc of wan = none", true));
    assert!(told(small, small).is_empty());
    // Its namespace comes with the interface.
    let west = [
        ("router edge: NIC wan at veth:rr-wan removed".to_owned(), true),
        ("router edge: NIC wan at veth:rr-wan (in west) added".to_owned(), false),
    ];
    assert_eq!(told(small, &format!("{small}netns = \"west\"\n")), west);
    let more = "[[router.nic]]\nname = \"dmz\"\nattach = \"veth:rr-dmz\"\n";
    let added = changes(&plan(FILE), &plan(&format!("{FILE}{more}")));
    assert!(added.iter().all(|change| !change.what.contains("qdisc")), "{added:?}");
}

#[test]
fn ipv6_and_routes_of_a_type_are_told_alike() {
    let here = "\"192.0.2.1/24\"";
    let both = "[\"192.0.2.1/24\", \"2001:db8::1/64\"]";
    assert_eq!(told(here, both), one("router edge: address 2001:db8::1/64 of wan added", false));
    let filter = "\"198.51.100.1/24\"\nrpf = \"strict\"";
    assert_eq!(told("\"198.51.100.1/24\"", filter), one("router edge: rpf of lan = strict", false));
    let tables = "[[router.route]]\nto = \"2001:db8:1::/48\"\nvia = \"2001:db8::fe\"\n\
        [[router.route]]\nto = \"10.0.0.0/8\"\ntype = \"unreachable\"\n\
        [[router.neighbour]]\naddress = \"2001:db8::fe\"\nmac = \"02:00:00:00:00:09\"\n";
    let dual = FILE.replace(here, both);
    let added = changes(&plan(&dual), &plan(&format!("{dual}{tables}")));
    let added: Vec<String> = added.into_iter().map(|change| change.what).collect();
    let expected = [
        "router edge: neighbour 2001:db8::fe at 02:00:00:00:00:09 on wan added",
        "router edge: route 2001:db8:1::/48 via 2001:db8::fe out of wan added",
        "router edge: route unreachable 10.0.0.0/8 added",
    ];
    assert_eq!(added, expected);
}

#[test]
fn vlans_and_routes_with_several_gateways_are_told_alike() {
    let vlan = "[[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 100\naddress = \"10.0.0.1/24\"\n\
        [[router.route]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.2\"\n";
    let plain = format!("{FILE}{vlan}");
    let told = |before: &str, after: &str| {
        let changes = changes(&plan(before), &plan(after));
        changes.into_iter().map(|change| change.what).collect::<Vec<_>>()
    };
    let added = [
        "router edge: mtu of guests = 1500",
        "router edge: rpf of guests = off",
        "router edge: VLAN 100 of lan as guests added",
        "router edge: address 10.0.0.1/24 of guests added",
        "router edge: route 10.1.0.0/16 via 10.0.0.2 out of guests added",
    ];
    assert_eq!(told(FILE, &plain), added);
    let moved =
        ["router edge: VLAN 100 of lan as guests removed", "router edge: VLAN 200 of lan as guests added"];
    assert_eq!(told(&plain, &plain.replace("vlan = 100", "vlan = 200")), moved);
    let two = plain.replace("vlan = 100", "vlan = 100\nouter = 200");
    let moved = [
        "router edge: VLAN 100 of lan as guests removed",
        "router edge: VLAN 200.100 of lan as guests added",
    ];
    assert_eq!(told(&plain, &two), moved);
    let filtered = plain.replace("vlan = 100", "vlan = 100\nrpf = \"strict\"");
    assert_eq!(told(&plain, &filtered), ["router edge: rpf of guests = strict"]);
    let two = "via = [\"10.0.0.2\", \"192.0.2.2\"]\nweights = [3, 1]";
    let spread = [
        "router edge: route 10.1.0.0/16 via 10.0.0.2 out of guests removed",
        "router edge: route 10.1.0.0/16 via 10.0.0.2 * 3, 192.0.2.2 out of guests, wan added",
    ];
    let several = plain.replace("via = \"10.0.0.2\"", two);
    assert_eq!(told(&plain, &several), spread);
    assert_eq!(told(&several, &several.replace("[3, 1]", "[2, 1]")).len(), 2);
}

#[test]
fn a_nic_and_a_vlan_change_their_vrfs() {
    let address = "address = \"198.51.100.1/24\"\n";
    let red = format!("{address}vrf = \"red\"\n");
    assert_eq!(told(address, &red), one("router edge: vrf of lan = red", true));
    let vlan =
        "[[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 100\naddress = \"10.0.0.1/24\"\n";
    let plain = format!("{FILE}{vlan}");
    let in_red = format!("{plain}vrf = \"red\"\n");
    let told = |before: &str, after: &str| {
        let changes = changes(&plan(before), &plan(after));
        changes.into_iter().map(|change| (change.what, !change.hitless)).collect::<Vec<_>>()
    };
    assert_eq!(told(&plain, &in_red), one("router edge: vrf of guests = red", true));
    // One that is new is not taken from another VRF.
    let added = told(FILE, &in_red);
    assert!(added.contains(&("router edge: vrf of guests = red".to_owned(), false)), "{added:?}");
    // Each VRF has routes of a type of its own.
    let route = "[[router.route]]\nto = \"10.9.0.0/16\"\ntype = \"blackhole\"\n";
    let both = format!("{in_red}{route}{route}vrf = \"red\"\n");
    let added = told(&in_red, &both);
    let expected = ["route blackhole 10.9.0.0/16", "route blackhole 10.9.0.0/16 in VRF red"];
    assert_eq!(added, expected.map(|what| (format!("router edge: {what} added"), false)));
}

#[test]
fn what_is_advertised_changes_without_loss() {
    let told = |before: &str, after: &str| {
        let changes = changes(&plan(before), &plan(after));
        changes.into_iter().map(|change| (change.what, !change.hitless)).collect::<Vec<_>>()
    };
    let plain = FILE.replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"2001:db8::1/64\"]");
    let quiet = format!(
        "{plain}[[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 100\naddress = \"2001:db8:1::1/64\"\n"
    );
    let at_nic =
        plain.replace("mtu = 1500\n", "mtu = 1500\nra = { lifetime = 900, prefix = \"2001:db8::/64\" }\n");
    let line = "interval 600 lifetime 900 hop_limit 64 mtu prefix 2001:db8::/64 valid 86400 preferred 14400";
    assert_eq!(told(&plain, &at_nic), one(&format!("router edge: ra of wan = {line}"), false));
    assert_eq!(told(&at_nic, &plain), one("router edge: ra of wan = none", false));
    let at_vlan = told(&quiet, &format!("{quiet}ra = {{ lifetime = 900 }}\n"));
    assert_eq!(
        at_vlan,
        one(&format!("router edge: ra of guests = {}", line.replace("db8::", "db8:1::")), false)
    );
}

#[test]
fn routers_come_and_go() {
    let renamed = [("router edge removed".to_owned(), true), ("router core added".to_owned(), false)];
    assert_eq!(told("name = \"edge\"", "name = \"core\""), renamed);
    let machine = "[[router]]\nname = \"kvm\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n";
    let both = changes(&plan(FILE), &plan(&format!("{FILE}{machine}")));
    assert!(both.is_empty(), "of machines others tell");
}
