use crate::parse;
use crate::tests::errors_of;

/// A file with two NICs, and these tables after them.
fn file(tables: &str) -> String {
    format!(
        "[[router]]\nname = 'a'\nneighbours = 8192\n\
         [[router.nic]]\nname = 'x'\nattach = 'null'\naddress = ['192.0.2.1/24', '2001:db8:0:1::1/64']\n\
         [[router.nic]]\nname = 'y'\nattach = 'null'\naddress = '2001:db8:0:2::1/64'\n{tables}"
    )
}

#[test]
fn routes_and_neighbours_of_both_families() {
    let text = file(
        "[[router.route]]\nto = '2001:db8:9::/48'\nvia = '2001:db8:0:2::9'\n\
         [[router.route]]\nto = '::/0'\nvia = 'fe80::9'\nnic = 'x'\n\
         [[router.route]]\nto = '198.51.100.0/24'\nvia = '2001:db8:0:1::9'\n\
         [[router.route]]\nto = '203.0.113.0/24'\nvia = '192.0.2.9'\n\
         [[router.route]]\nto = '2001:db8:8::/48'\nnic = 'y'\n\
         [[router.neighbour]]\naddress = '2001:db8:0:2::9'\nmac = '02:00:00:00:00:09'\n\
         [[router.neighbour]]\naddress = '192.0.2.9'\nmac = '02:00:00:00:00:08'\n",
    );
    let plan = parse(&text, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    assert_eq!((router.routes.len(), router.neighbours.len()), (1, 1));
    let shown: Vec<_> =
        router.forwarding.routes6.iter().map(|route| (route.to.to_string(), route.nic)).collect();
    let expected = [("2001:db8:9::/48", 1), ("::/0", 0), ("198.51.100.0/24", 0), ("2001:db8:8::/48", 1)];
    assert_eq!(shown, expected.map(|(to, nic)| (to.to_owned(), nic)));
    assert_eq!((router.forwarding.neighbours6[0].nic, router.forwarding.neighbours), (1, 8192));
    assert_eq!(router.forwarding.routes6[3].via, None);
}

#[test]
fn wrong_routes_and_neighbours() {
    let route = |to: &str, more: &str| format!("[[router.route]]\nto = '{to}'\n{more}\n");
    let cases = [
        (route("2001:db8::1/48", "nic = 'x'"), "has bits behind its prefix; write \"2001:db8::/48\""),
        (route("ff00::/8", "nic = 'x'"), "is multicast, which no router forwards"),
        (route("fe80::/64", "nic = 'x'"), "is link-local, which no router forwards"),
        (route("2001:db8:9::/48", "via = 'fe80::1'"), "may be behind any NIC; add nic"),
        (route("2001:db8:9::/48", "via = '2001:db8:7::1'"), "is in none of the router's IPv6 networks"),
        (route("2001:db8:9::/48", "via = '2001:db8:0:1::1'"), "is the router's own address"),
        (route("2001:db8:9::/48", "via = '2001:db8:0:1::9'\nnic = 'y'"), "is behind NIC \"x\", not \"y\""),
        (route("2001:db8:9::/48", ""), "router.route.via: missing"),
        (route("2001:db8:0:1::/64", "nic = 'x'"), "is the network of NIC \"x\""),
        (route("2001:db8:0:1::1/128", "nic = 'x'"), "is the router's own address, which needs no route"),
        (route("2001:db8:9::/48", "nic = 'z'"), "the router has no NIC \"z\""),
        (route("2001:db8:9::/48", "nic = 'x'").repeat(2), "is routed in line"),
        (
            ["192.0.2.9", "2001:db8:0:1::9"]
                .map(|via| route("198.51.100.0/24", &format!("via = '{via}'")))
                .concat(),
            "f.toml:16: router.route.to: 198.51.100.0/24 is routed in line 13 already; write several gateways",
        ),
    ];
    for (tables, expected) in cases {
        let errors = errors_of(&file(&tables));
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn a_vlan_is_an_interface_of_a_nic() {
    let text = file(
        "[[router.interface]]\nname = 'guests'\nnic = 'x'\nvlan = 100\naddress = ['10.0.0.1/24', '2001:db8:0:3::1/64']\n\
         [[router.interface]]\nname = 'far'\nnic = 'x'\nvlan = 100\nouter = 200\nmtu = 1400\n",
    );
    let plan = parse(&text, "f.toml").expect("a good file");
    let offloads = plan.routers[0].nics.iter().map(|nic| nic.offload);
    assert!(offloads.eq([true, true]), "large frames get tags, too");
    let [guests, far] = plan.routers[0].forwarding.interfaces.as_slice() else { panic!("two interfaces") };
    assert_eq!((guests.tags.to_string(), guests.nic, guests.mtu), ("100".to_owned(), 0, 1500));
    assert_eq!((guests.addresses.len(), guests.six.addresses.len()), (1, 1));
    assert_eq!((far.tags.to_string(), far.mtu), ("200.100".to_owned(), 1400));
}

#[test]
fn wrong_interfaces() {
    let interface =
        |name: &str, more: &str| format!("[[router.interface]]\nname = '{name}'\nnic = 'x'\n{more}\n");
    let cases = [
        (interface("g", ""), "router.interface.vlan: missing"),
        (interface("g", "vlan = 0"), "0 is out of range; write 1 to 4094"),
        (interface("x", "vlan = 5"), "\"x\" is taken already"),
        (interface("g", "vlan = 5\nmtu = 9000"), "9000 is out of range"),
        (
            [interface("g", "vlan = 5"), interface("h", "vlan = 5")].concat(),
            "VLAN 5 of NIC \"x\" is \"g\" already",
        ),
        (
            interface("g", "vlan = 5\naddress = '192.0.2.129/25'"),
            "router.interface.address: 192.0.2.129/25 overlaps 192.0.2.0/24 of \"x\"",
        ),
        (
            interface("g", "vlan = 5\naddress = '2001:db8:0:2::9/48'"),
            "2001:db8:0:2::9/48 overlaps 2001:db8:0:1::/64 of \"x\"",
        ),
    ];
    for (tables, expected) in cases {
        let errors = errors_of(&file(&tables));
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn the_neighbour_table_has_a_size() {
    let text =
        |size: &str| format!("[[router]]\nname = 'a'\n{size}[[router.nic]]\nname = 'x'\nattach = 'null'\n");
    let plan = parse(&text(""), "f.toml").expect("a good file");
    assert_eq!((plan.routers[0].forwarding.neighbours, plan.routers[0].forwarding.redirects), (4096, false));
    let errors = errors_of(&text("neighbours = 63\n"));
    assert!(errors.contains("router.neighbours: 63 is out of range; write 64 to 65536"), "{errors}");
}

#[test]
fn the_route_table_has_room_for_long_prefixes() {
    let text = |more: &str, nic: &str| {
        format!(
            "[[router]]\nname = 'a'\n{more}[[router.nic]]\nname = 'x'\nattach = 'null'\n{nic}\
             [[router.nic]]\nname = 'y'\nattach = 'null'\n"
        )
    };
    let room = |text: &str| parse(text, "f.toml").expect("a good file").routers[0].long_routes();
    assert_eq!([room(&text("", "")), room(&text("control = {}\n", ""))], [4096, 32_768]);
    let said = [0, 1_048_576].map(|long| room(&text(&format!("long_routes = {long}\n"), "")));
    assert_eq!(said, [0, 1_048_576]);
    let errors = errors_of(&text("long_routes = 1048577\n", ""));
    assert!(errors.contains("router.long_routes: 1048577 is out of range; write 0 to 1048576"), "{errors}");
    let errors = errors_of(&text("long_routes = 600000\n", "vrf = 'red'\n"));
    let what = "router.long_routes: 600000 for each of 2 route tables are too many; write at most 524288";
    assert_eq!(errors.trim(), format!("f.toml:3: {what}"));
    let member = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 1\n\
                  [[group.nic]]\nname = 'x'\nattach = 'tap:t'\n";
    assert_eq!(room(member), 32_768);
}

#[test]
fn networks_and_addresses_of_ipv6_are_used_once() {
    let file = |attach: &str, one: &str, other: &str| {
        let nic = |name: &str, address: &str| {
            format!("[[router.nic]]\nname = '{name}'\nattach = '{attach}'\naddress = '{address}'\n")
        };
        format!("[switch.s]\n[[router]]\nname = 'a'\n{}{}", nic("x", one), nic("y", other))
    };
    let errors = errors_of(&file("null", "2001:db8:1::1/48", "2001:db8:1:2::1/64"));
    let expected = "2001:db8:1:2::1/64 overlaps 2001:db8:1::/48 of NIC \"x\"; use a network of its own";
    assert!(errors.contains(expected), "{errors}");
    for (one, other) in [("2001:db8:1::1/64", "2001:db8:2::1/64"), ("fe80::1/64", "fe80::1/64")] {
        assert!(parse(&file("null", one, other), "f.toml").is_ok(), "{one} {other}");
    }
    let second =
        "[[router]]\nname = 'b'\n[[router.nic]]\nname = 'z'\nattach = 'switch:s'\naddress = 'fe80::1/64'\n";
    let first = file("switch:s", "fe80::1/64", "2001:db8:2::1/64");
    let errors = errors_of(&format!("{first}{second}"));
    assert!(errors.contains("fe80::1 is the address of a.x on \"switch:s\" already"), "{errors}");
}

#[test]
fn routes_by_which_nothing_is_forwarded() {
    let route = |to: &str, kind: &str| format!("[[router.route]]\nto = '{to}'\ntype = '{kind}'\n");
    let tables = [route("203.0.113.0/24", "blackhole"), route("2001:db8:dead::/48", "prohibit")].concat();
    let plan = parse(&file(&tables), "f.toml").expect("a good file");
    let refused = &plan.routers[0].forwarding.refused;
    let shown: Vec<_> = refused.iter().map(|route| (route.to.to_string(), route.kind.name())).collect();
    let expected = [("203.0.113.0/24", "blackhole"), ("2001:db8:dead::/48", "prohibit")];
    assert_eq!(shown, expected.map(|(to, kind)| (to.to_owned(), kind)));
    let cases = [
        (route("203.0.113.0/24", "hole"), "is no type of route; types: blackhole, unreachable, prohibit"),
        (route("203.0.113.1/24", "blackhole"), "has bits behind its prefix"),
        (route("203.0.113.0/24", "blackhole") + "nic = 'x'\n", "router.route.nic: unknown key"),
        (route("203.0.113.0/24", "blackhole").repeat(2), "203.0.113.0/24 is routed in line"),
        (
            route("203.0.113.0/24", "prohibit") + "[[router.route]]\nto = '203.0.113.0/24'\nnic = 'x'\n",
            "203.0.113.0/24 is routed in line",
        ),
    ];
    for (tables, expected) in cases {
        let errors = errors_of(&file(&tables));
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn a_route_may_lead_by_an_interface() {
    let text = file(
        "[[router.interface]]\nname = 'guests'\nnic = 'x'\nvlan = 100\naddress = ['10.0.0.1/24', '2001:db8:0:3::1/64']\n\
         [[router.route]]\nto = '198.51.100.0/24'\nvia = '10.0.0.9'\n\
         [[router.route]]\nto = '::/0'\nvia = 'fe80::1'\nnic = 'guests'\n\
         [[router.neighbour]]\naddress = '2001:db8:0:3::9'\nmac = '02:00:00:00:00:09'\n",
    );
    let plan = parse(&text, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    let numbers =
        (router.routes[0].nic, router.forwarding.routes6[0].nic, router.forwarding.neighbours6[0].nic);
    assert_eq!(numbers, (2, 2, 2), "after the two NICs");
    assert_eq!([0, 1, 2, 3].map(|n| router.link_name(n)), [Some("x"), Some("y"), Some("guests"), None]);
}

#[test]
fn a_route_has_several_gateways_with_weights() {
    let text = file(
        "[[router.route]]\nto = '0.0.0.0/0'\nvia = ['192.0.2.2', '2001:db8:0:2::9', '192.0.2.3']\nweights = [3, 1, 255]\n\
         [[router.route]]\nto = '::/0'\nvia = ['fe80::9', 'fe80::9']\nnic = ['x', 'y']\n\
         [[router.route]]\nto = '2001:db8:8::/48'\nvia = ['fe80::7', 'fe80::8']\nnic = 'y'\n",
    );
    let plan = parse(&text, "f.toml").expect("a good file");
    let router = &plan.routers[0];
    assert!(router.routes.is_empty() && router.forwarding.routes6.is_empty());
    let told = |at: usize| {
        let route = &router.forwarding.spread[at];
        (route.to.to_string(), route.gateways(), route.ways.iter().map(|way| way.nic).collect::<Vec<_>>())
    };
    let gateways = "192.0.2.2 * 3, 2001:db8:0:2::9, 192.0.2.3 * 255".to_owned();
    assert_eq!(told(0), ("0.0.0.0/0".to_owned(), gateways, vec![0, 1, 0]));
    assert_eq!(told(1), ("::/0".to_owned(), "fe80::9, fe80::9".to_owned(), vec![0, 1]));
    assert_eq!(told(2).2, [1, 1]);
    assert_eq!([0, 1, 2].map(|at| router.forwarding.spread[at].links()), [vec![0, 1], vec![0, 1], vec![1]]);
}

#[test]
fn wrong_routes_with_several_gateways() {
    let route = |to: &str, more: &str| format!("[[router.route]]\nto = '{to}'\n{more}\n");
    let two = "via = ['192.0.2.2', '192.0.2.3']";
    let many = (2..100).map(|last| format!("'192.0.2.{last}'")).collect::<Vec<_>>().join(", ");
    let cases = [
        (route("0.0.0.0/0", "via = []"), "router.route.via: 0 gateways; write 1 to 64"),
        (route("0.0.0.0/0", &format!("via = [{many}]")), "router.route.via: 98 gateways; write 1 to 64"),
        (
            route("0.0.0.0/0", "via = ['192.0.2.2', '192.0.2.2']"),
            "192.0.2.2 is there twice; give it a greater",
        ),
        (
            route("0.0.0.0/0", "via = ['192.0.2.2', '203.0.113.1']"),
            "203.0.113.1 is in none of the router's networks",
        ),
        (route("0.0.0.0/0", "via = ['192.0.2.2', 7]"), "an integer where a string such as"),
        (route("2001:db8:9::/48", two), "192.0.2.2 is no IPv6 gateway, and 2001:db8:9::/48 needs one"),
        (route("2001:db8:9::/48", "via = ['fe80::1', 'fe80::2']"), "may be behind any NIC; add nic"),
        (
            route("0.0.0.0/0", &format!("{two}\nweights = [1]")),
            "1 weights for 2 gateways; write one for each",
        ),
        (route("0.0.0.0/0", &format!("{two}\nweights = [1, 256]")), "256 is out of range; write 1 to 255"),
        (route("0.0.0.0/0", &format!("{two}\nweights = 3")), "an array of whole numbers from 1 to 255"),
        (
            route("0.0.0.0/0", &format!("{two}\nnic = ['x', 'x', 'y']")),
            "3 NICs for 2 gateways; write one for all",
        ),
        (route("0.0.0.0/0", &format!("{two}\nnic = 'y'")), "192.0.2.2 is behind NIC \"x\", not \"y\""),
        (route("192.0.2.0/24", two), "is the network of NIC \"x\", which needs no route"),
        (route("0.0.0.0/0", two).repeat(2), "0.0.0.0/0 is routed in line"),
        (route("0.0.0.0/0", two) + &route("0.0.0.0/0", "via = '192.0.2.9'"), "0.0.0.0/0 is routed in line"),
        (route("0.0.0.0/0", "via = '192.0.2.9'\nweights = [1]"), "unknown key"),
    ];
    for (tables, expected) in cases {
        let errors = errors_of(&file(&tables));
        assert!(errors.contains(expected), "{errors}");
    }
}
