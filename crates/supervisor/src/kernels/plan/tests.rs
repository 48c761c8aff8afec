use kernel_router::{PeerNamespace, Queue, QueueKind};

use super::*;

const FILE: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\nrp_filter = \"strict\"\nthreaded = true\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = [\"192.0.2.1/24\", \"192.0.2.9/24\"]\nmtu = 1400\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"macvlan:eth0\"\nmacvlan_mode = \"private\"\naddress = \"198.51.100.1/24\"\nlink = \"down\"\n\
    [[router.nic]]\nname = \"far\"\nattach = \"link:eth1\"\n\
    [[router.nic]]\nname = \"west\"\nattach = \"veth:eth0\"\nnetns = \"west\"\n\
    [[router.nic]]\nname = \"br\"\nattach = \"bridge:br0\"\n\
    [[router.route]]\nto = \"0.0.0.0/0\"\nvia = \"192.0.2.254\"\n\
    [[router.route]]\nto = \"203.0.113.0/24\"\nnic = \"far\"\n\
    [[router.neighbour]]\naddress = \"192.0.2.254\"\nmac = \"02:00:00:00:00:99\"\n\
    [[router]]\nname = \"core\"\nengine = \"kernel\"\nstate = \"stopped\"\n[[router.nic]]\nname = \"wan\"\nattach = \"tap:rr-core\"\n\
    [[router]]\nname = \"kvm\"\n[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n";

fn specs(text: &str) -> Vec<Spec> {
    all(&config::parse(text, "x.toml").unwrap_or_else(|errors| panic!("{errors}"))).expect("a good plan")
}

fn wanted() -> Vec<RouterConfig> {
    specs(FILE).into_iter().map(|spec| spec.wanted).collect()
}

#[test]
fn each_that_runs_is_told_and_no_other() {
    let names: Vec<String> = wanted().into_iter().map(|wanted| wanted.name).collect();
    assert_eq!(names, ["edge"]);
}

#[test]
fn an_interface_comes_from_where_its_nic_is_plugged_in() {
    let edge = &wanted()[0];
    assert_eq!(edge.published.as_deref(), Some("edge"));
    let pair = |peer: &str, at, bridge: Option<&str>| Origin::Veth {
        peer: peer.to_owned(),
        at,
        bridge: bridge.map(str::to_owned),
    };
    let origins: Vec<_> = edge.interfaces.iter().map(|interface| interface.origin.clone()).collect();
    let expected = [
        pair("rr-wan", PeerNamespace::Home, None),
        Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Private },
        Origin::Moved { link: "eth1".to_owned() },
        pair("eth0", PeerNamespace::Named("west".to_owned()), None),
        pair("edge.br", PeerNamespace::Home, Some("br0")),
    ];
    assert_eq!(origins, expected);
}

#[test]
fn on_a_switch_it_has_an_interface_of_ours_with_the_address_of_its_nic() {
    let keys = "engine = \"kernel\"\nthreaded = true";
    for attach in ["switch:a", "ovs:br0"] {
        let text = format!(
            "[switch.a]\n[[router]]\nname = \"edge\"\n{keys}\n[[router.nic]]\nname = \"lan\"\nattach = \"{attach}\"\n"
        );
        let interface = specs(&text)[0].wanted.interfaces[0].clone();
        assert_eq!(interface.origin, Origin::Moved { link: "edge.lan".to_owned() });
        assert_eq!((interface.mac, interface.threaded), (Some(Mac::derived("edge", "lan").0), false));
    }
}

#[test]
fn addresses_and_what_else_its_file_says_are_there() {
    let edge = &wanted()[0];
    let wan = &edge.interfaces[0];
    assert_eq!((wan.mtu, wan.up, wan.threaded), (Some(1400), true, true));
    assert_eq!(wan.mac, Some(Mac::derived("edge", "wan").0));
    let shown: Vec<String> = wan.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["192.0.2.1/24", "192.0.2.9/24"]);
    let (lan, far) = (&edge.interfaces[1], &edge.interfaces[2]);
    assert!(!lan.up && !lan.threaded, "a macvlan has no thread");
    assert_eq!(far.mac, None, "an interface of the host keeps its own");
    let routes: Vec<_> =
        edge.routes.iter().map(|route| (route.to.to_string(), route.via, route.interface.as_str())).collect();
    let gateway: IpAddr = [192, 0, 2, 254].into();
    assert_eq!(
        routes,
        [("0.0.0.0/0".to_owned(), Some(gateway), "wan"), ("203.0.113.0/24".to_owned(), None, "far")]
    );
    let neighbour = &edge.neighbours[0];
    assert_eq!(
        (neighbour.interface.as_str(), neighbour.ip, neighbour.mac),
        ("wan", gateway, [2, 0, 0, 0, 0, 0x99])
    );
}

#[test]
fn it_forwards_as_its_file_says_whatever_the_host_does() {
    let edge = &wanted()[0];
    let get = |key: &str| edge.sysctls.get(key).map(String::as_str);
    assert_eq!(get("net/ipv4/ip_forward"), Some("1"));
    assert_eq!(get("net/ipv4/conf/wan/rp_filter"), Some("1"));
    assert_eq!(get("net/ipv4/conf/all/rp_filter"), Some("0"));
    assert_eq!(get("net/ipv4/conf/lan/proxy_arp"), Some("0"));
}

/// A router whose NIC `wan` has addresses of both families, with routes and neighbours of IPv6.
const DUAL: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\nrp_filter = \"loose\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\naddress = \"198.51.100.1/24\"\nrpf = \"strict\"\n\
    [[router.route]]\nto = \"::/0\"\nvia = \"2001:db8::fe\"\n\
    [[router.route]]\nto = \"10.0.0.0/8\"\nvia = \"fe80::1\"\nnic = \"wan\"\n\
    [[router.route]]\nto = \"203.0.113.0/24\"\ntype = \"blackhole\"\n\
    [[router.route]]\nto = \"2001:db8:9::/48\"\ntype = \"prohibit\"\n\
    [[router.neighbour]]\naddress = \"2001:db8::fe\"\nmac = \"02:00:00:00:00:99\"\n";

#[test]
fn ipv6_is_as_ipv4() {
    let edge = specs(DUAL).remove(0).wanted;
    let shown: Vec<String> = edge.interfaces[0].addresses.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["192.0.2.1/24", "2001:db8::1/64"]);
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let routes: Vec<_> = edge
        .routes
        .iter()
        .map(|route| (route.to.to_string(), route.via.expect("a gateway"), route.interface.as_str()))
        .collect();
    let expected = [("::/0", ip("2001:db8::fe"), "wan"), ("10.0.0.0/8", ip("fe80::1"), "wan")];
    assert_eq!(routes, expected.map(|(to, via, out)| (to.to_owned(), via, out)));
    let typed: Vec<String> = edge.typed.iter().map(ToString::to_string).collect();
    assert_eq!(typed, ["blackhole 203.0.113.0/24", "prohibit 2001:db8:9::/48"]);
    assert_eq!((edge.neighbours[0].interface.as_str(), edge.neighbours[0].ip), ("wan", ip("2001:db8::fe")));
    assert_eq!(kernel_router::check(&edge), Ok(()));
}

#[test]
fn a_vlan_is_an_interface_after_the_nics() {
    let text = format!(
        "{DUAL}[[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 7\nmtu = 1400\naddress = \"10.7.0.1/24\"\n\
         [[router.route]]\nto = \"10.8.0.0/16\"\nvia = \"10.7.0.2\"\n"
    );
    for engine in ["kernel", "lxc"] {
        let spec = specs(&text.replacen("\"kernel\"", &format!("{engine:?}"), 1)).remove(0);
        let [.., guests] = spec.wanted.interfaces.as_slice() else { panic!("interfaces") };
        assert_eq!((guests.name.as_str(), guests.mtu, guests.up), ("guests", Some(1400), true));
        assert_eq!(guests.origin, Origin::Vlan { lower: "lan".to_owned(), id: 7 });
        let last = spec.wanted.routes.iter().find(|route| route.to.to_string() == "10.8.0.0/16");
        assert_eq!(last.map(|route| route.interface.as_str()), Some("guests"));
        assert!(spec.container.is_none_or(|container| container.nics.len() == 2), "LXC makes the NICs");
        assert_eq!(kernel_router::check(&spec.wanted), Ok(()));
    }
}

#[test]
fn vlans_with_two_tags_share_a_service_vlan() {
    let vlan = |name: &str, tags: &str, net: u8| {
        format!(
            "[[router.interface]]\nname = {name:?}\nnic = \"lan\"\n{tags}\naddress = \"10.{net}.0.1/24\"\n"
        )
    };
    let text = format!(
        "{DUAL}{}{}{}",
        vlan("gold", "outer = 200\nvlan = 7\nrpf = \"strict\"", 7),
        vlan("guests", "vlan = 200", 8),
        vlan("silver", "outer = 200\nvlan = 8", 9)
    );
    for engine in ["kernel", "lxc"] {
        let spec = specs(&text.replacen("\"kernel\"", &format!("{engine:?}"), 1)).remove(0);
        let [.., service, gold, guests, silver] = spec.wanted.interfaces.as_slice() else {
            panic!("interfaces")
        };
        let names = [service, gold, guests, silver].map(|own| own.name.as_str());
        assert_eq!(names, ["vlan200~1", "gold", "guests", "silver"]);
        let told = [service, gold, guests, silver].map(|own| own.origin.to_string());
        let expected = [
            "service VLAN 200 of `lan`",
            "VLAN 7 of `vlan200~1`",
            "VLAN 200 of `lan`",
            "VLAN 8 of `vlan200~1`",
        ];
        assert_eq!(told, expected);
        assert!(service.addresses.is_empty() && service.up && service.mtu == Some(1500));
        let sysctl =
            |interface: &str, key: &str| spec.wanted.sysctls[&interface_sysctl(interface, key)].clone();
        assert_eq!(sysctl("vlan200~1", "forwarding"), "0");
        assert_eq!([sysctl("gold", "rp_filter"), sysctl("silver", "rp_filter")], ["1", "2"]);
        assert!(spec.container.is_none_or(|container| container.nics.len() == 2), "LXC makes the NICs");
        assert_eq!(kernel_router::check(&spec.wanted), Ok(()));
    }
}

/// NICs of one network in two VRFs and in none, and routes of each.
const IN_VRFS: &str = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
    [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\nvrf = \"red\"\n\
    [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\naddress = \"192.0.2.1/24\"\n\
    [[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 7\nouter = 5\naddress = \"192.0.2.1/24\"\nvrf = \"blue\"\n\
    [[router.route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\nvrf = \"red\"\n\
    [[router.route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\n\
    [[router.route]]\nto = \"10.0.0.0/8\"\nvia = [\"192.0.2.2\", \"192.0.2.3\"]\nvrf = \"blue\"\n\
    [[router.route]]\nto = \"10.9.0.0/16\"\ntype = \"prohibit\"\nvrf = \"red\"\n";

#[test]
fn vrfs_are_interfaces_and_routes_lie_in_their_tables() {
    for engine in ["kernel", "lxc"] {
        let spec = specs(&IN_VRFS.replacen("\"kernel\"", &format!("{engine:?}"), 1)).remove(0);
        let edge = &spec.wanted;
        let names: Vec<&str> = edge.interfaces.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["wan", "lan", "vlan5~1", "guests", "red", "blue"]);
        let [.., red, blue] = edge.interfaces.as_slice() else { panic!("interfaces") };
        let table = |vrf: &Interface| match vrf.origin {
            Origin::Vrf { table } => table,
            _ => panic!("{}", vrf.origin),
        };
        let (red, blue) = (table(red), table(blue));
        let ports: Vec<Option<u32>> = edge.interfaces.iter().map(|own| own.vrf).collect();
        assert_eq!(ports, [Some(red), None, None, Some(blue), None, None]);
        let routes: Vec<_> =
            edge.routes.iter().map(|route| (route.interface.as_str(), route.table)).collect();
        assert_eq!(routes, [("wan", red), ("lan", kernel_router::MAIN)]);
        assert_eq!(edge.spread.iter().map(|route| route.table).collect::<Vec<_>>(), [blue]);
        // Only a VRF with an IPv6 address has a last route of IPv6.
        let typed: Vec<String> = edge.typed.iter().map(ToString::to_string).collect();
        let expected = [
            format!("prohibit 10.9.0.0/16 table {red}"),
            format!("unreachable 0.0.0.0/0 table {red} metric 4278198272"),
            format!("unreachable ::/0 table {red} metric 4278198272"),
            format!("unreachable 0.0.0.0/0 table {blue} metric 4278198272"),
        ];
        assert_eq!(typed, expected);
        assert!(spec.container.is_none_or(|container| container.nics.len() == 2), "LXC makes the NICs");
        assert_eq!(kernel_router::check(edge), Ok(()));
    }
}

#[test]
fn a_vrf_filters_as_its_router_does_whatever_the_host_does() {
    for (keys, filter) in [("", "0"), ("rp_filter = \"loose\"\nproxy_arp = true\n", "2")] {
        let text = IN_VRFS.replacen("[[router.nic]]", &format!("{keys}[[router.nic]]"), 1);
        let edge = specs(&text).remove(0).wanted;
        for vrf in ["red", "blue"] {
            let get = |key: &str| edge.sysctls.get(&interface_sysctl(vrf, key)).map(String::as_str);
            assert_eq!((get("rp_filter"), get("proxy_arp")), (Some(filter), Some("0")), "{vrf}");
        }
        assert_eq!(kernel_router::check(&edge), Ok(()));
    }
}

#[test]
fn several_gateways_are_told_with_their_weights() {
    let route =
        |to: &str, via: &str| format!("[[router.route]]\nto = {to:?}\nvia = {via}\nweights = [3, 1]\n");
    let routes = route("198.18.0.0/15", "[\"192.0.2.9\", \"2001:db8::9\"]");
    let edge = specs(&format!("{DUAL}{routes}")).remove(0).wanted;
    let told: Vec<String> = edge.spread.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["198.18.0.0/15 via 192.0.2.9 dev wan weight 3 via 2001:db8::9 dev wan"]);
    assert_eq!(kernel_router::check(&edge), Ok(()));
    let get = |key: &str| edge.sysctls.get(key).map(String::as_str);
    assert_eq!(get("net/ipv4/fib_multipath_hash_policy"), Some("1"));
    assert_eq!(get("net/ipv6/fib_multipath_hash_policy"), None, "no IPv6 route has several");
}

#[test]
fn ipv6_is_forwarded_between_nics_with_an_ipv6_address() {
    let get = |text: &str, key: &str| specs(text)[0].wanted.sysctls.get(key).cloned();
    let is = |text: &str, key: &str, value: &str| assert_eq!(get(text, key).as_deref(), Some(value), "{key}");
    is(DUAL, "net/ipv6/conf/all/forwarding", "1");
    is(DUAL, "net/ipv6/conf/wan/disable_ipv6", "0");
    is(DUAL, "net/ipv6/conf/wan/accept_ra", "0");
    is(DUAL, "net/ipv6/conf/lan/disable_ipv6", "1");
    let text = DUAL.replacen("rp_filter", "forwarding = false\nrp_filter", 1);
    is(&text, "net/ipv6/conf/all/forwarding", "0");
    is(&text, "net/ipv4/ip_forward", "0");
    assert_eq!(get(FILE, "net/ipv6/conf/all/forwarding"), None, "nobody there has an IPv6 address");
    is(FILE, "net/ipv6/conf/all/disable_ipv6", "1");
    // A NIC may have a filter of its own.
    is(DUAL, "net/ipv4/conf/wan/rp_filter", "2");
    is(DUAL, "net/ipv4/conf/lan/rp_filter", "1");
}

#[test]
fn members_of_a_group_have_its_addresses_and_do_not_try_them() {
    let text = "[[group]]\nname = \"core\"\nkind = \"multistage\"\nbalancer = \"vm\"\nbackends = 2\nengine = \"kernel\"\n\
        [[group.nic]]\nname = \"wan\"\nattach = \"tap:core-wan\"\nmac = \"02:00:00:00:43:01\"\n\
        address = [\"192.0.2.1/24\", \"2001:db8::1/64\"]\n";
    let members = specs(text);
    assert_eq!(members.iter().map(Spec::name).collect::<Vec<_>>(), ["core_0", "core_1"]);
    for member in members.iter().map(|spec| &spec.wanted) {
        let [wan] = member.interfaces.as_slice() else { panic!("{:?}", member.interfaces) };
        let addresses: Vec<String> = wan.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["192.0.2.1/24", "fe80::ff:fe00:4301/64", "2001:db8::1/64"]);
        assert!(!wan.tries_addresses);
        let value = |key: &str| member.sysctls.get(&format!("net/ipv6/conf/wan/{key}")).map(String::as_str);
        let values = ["accept_dad", "dad_transmits", "addr_gen_mode"].map(value);
        assert_eq!(values, [Some("0"), Some("0"), Some("1")]);
    }
    assert!(specs(DUAL)[0].wanted.interfaces.iter().all(|own| own.tries_addresses), "one that is alone does");
}

#[test]
fn in_a_container_the_interfaces_are_lxcs_to_make() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"lxc\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"192.0.2.1/24\"\nmtu = 1400\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"macvlan:eth0\"\n\
        [[router.nic]]\nname = \"far\"\nattach = \"link:eth1\"\nmtu = 1300\n\
        [[router.nic]]\nname = \"br\"\nattach = \"bridge:br0\"\n";
    let spec = specs(text).remove(0);
    let veth = |peer: &str, bridge: Option<&str>| Origin::Veth {
        peer: peer.to_owned(),
        at: PeerNamespace::Home,
        bridge: bridge.map(str::to_owned),
    };
    let origins: Vec<_> = spec.wanted.interfaces.iter().map(|interface| interface.origin.clone()).collect();
    let expected = [
        veth("rr-wan", None),
        Origin::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge },
        // LXC returns it.
        Origin::External,
        veth("edge.br", Some("br0")),
    ];
    assert_eq!(origins, expected);
    assert_eq!(kernel_router::check(&spec.wanted), Ok(()));
    let container = spec.container.expect("a container");
    assert_eq!((container.name.as_str(), container.root), ("ringroad-edge", Root::Programs));
    let links: Vec<_> =
        container.nics.iter().map(|nic| (nic.name.as_str(), nic.link.clone(), nic.mtu)).collect();
    let veth = |nic: &str| Link::Veth { peer: name_to_adopt("edge", nic) };
    let expected = [
        ("wan", veth("wan"), Some(1400)),
        ("lan", Link::Macvlan { parent: "eth0".to_owned(), mode: Mode::Bridge }, None),
        ("far", Link::Phys { link: "eth1".to_owned() }, Some(1300)),
        ("br", veth("br"), Some(1500)),
    ];
    assert_eq!(links, expected);
    let far = &spec.wanted.interfaces[2];
    assert_eq!((far.mac, far.mtu), (None, None), "it comes home as it was");
    assert_eq!(spec.wanted.interfaces[0].mtu, Some(1400));
    let rooted = text.replacen("engine = \"lxc\"\n", "engine = \"lxc\"\nrootfs = \"/srv/edge\"\n", 1);
    let container = specs(&rooted).remove(0).container.expect("a container");
    let init = vec!["/sbin/init".to_owned()];
    assert_eq!(container.root, Root::Folder { path: "/srv/edge".into(), init });
    let threaded = text.replacen("engine = \"lxc\"\n", "engine = \"lxc\"\npin = { vhost = \"0\" }\n", 1);
    let threaded = specs(&threaded).remove(0).wanted.interfaces;
    assert_eq!(threaded.iter().map(|own| own.threaded).collect::<Vec<_>>(), [true, false, true, true]);
}

#[test]
fn names_that_lxc_gives_to_other_ends_are_unique_and_those_of_no_other_interface() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"lxc\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:eth0\"\nnetns = \"west\"\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"veth:eth0\"\nnetns = \"east\"\n";
    let spec = specs(text).remove(0);
    let at = |interface: &Interface| match &interface.origin {
        Origin::Veth { peer, at: PeerNamespace::Named(name), .. } => format!("{peer} in {name}"),
        other => panic!("{other}"),
    };
    assert_eq!(spec.wanted.interfaces.iter().map(at).collect::<Vec<_>>(), ["eth0 in west", "eth0 in east"]);
    let container = spec.container.expect("a container");
    lxc::check(&container).expect("LXC takes the names");
    let peers = container.nics.iter().map(|nic| nic.link.clone());
    let expected = ["wan", "lan"].map(|nic| Link::Veth { peer: name_to_adopt("edge", nic) });
    assert_eq!(peers.collect::<Vec<_>>(), expected);
}

#[test]
fn a_virtual_function_is_moved_as_soon_as_its_interface_is_known() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
        [[router.nic]]\nname = \"own\"\nattach = \"veth:rr-own\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"vf:eth0\"\nfunction = 2\nvlan = 7\nmac = \"02:00:00:00:00:07\"\n";
    for engine in ["kernel", "lxc"] {
        let spec = specs(&text.replace("kernel", engine)).remove(0);
        let [(1, function)] = spec.functions.as_slice() else { panic!("{spec:?}") };
        assert_eq!((function.wish.nic.as_str(), function.wish.function), ("edge.wan", Some(2)));
        assert_eq!((function.wanted.vlan, function.wanted.mac), (Some(7), Some([2, 0, 0, 0, 0, 7])));
        assert_eq!(spec.wanted.interfaces[1].mac, None, "its port sets it");
        let known = spec.with_functions([(1, "enp1s16".to_owned())].into_iter());
        match known.container {
            None => {
                let moved = Origin::Moved { link: "enp1s16".to_owned() };
                assert_eq!(known.wanted.interfaces[1].origin, moved);
            }
            Some(container) => {
                assert_eq!(container.nics[1].link, Link::Phys { link: "enp1s16".to_owned() });
            }
        }
    }
}

#[test]
fn a_queue_is_at_the_other_end_of_a_pair() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\n\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\nqdisc = \"pfifo\"\nqdisc_limit = 300\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\n";
    let queue = Queue { kind: QueueKind::Pfifo, limit: 300 };
    let own = |spec: &Spec| spec.wanted.interfaces.iter().map(|wanted| wanted.queue).collect::<Vec<_>>();
    let spec = specs(text).remove(0);
    assert_eq!(own(&spec), [Some(queue), None]);
    assert_eq!(kernel_router::check(&spec.wanted), Ok(()));
    // The router of a container adopts its pairs.
    let spec = specs(&text.replace("kernel", "lxc")).remove(0);
    assert_eq!(own(&spec), [Some(queue), None]);
    assert_eq!(kernel_router::check(&spec.wanted), Ok(()));
}

#[test]
fn what_a_nic_advertises_is_told() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"kernel\"\nKEYS\
        [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\naddress = \"2001:db8::1/64\"\n\
        [[router.nic]]\nname = \"lan\"\nattach = \"veth:rr-lan\"\naddress = [\"2001:db8:1::1/64\", \"fe80::7/64\"]\n\
        ra = { lifetime = 900 }\n\
        [[router.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\naddress = \"2001:db8:7::1/64\"\nra = {}\n";
    for engine in ["kernel", "lxc"] {
        let told = |keys: &str| {
            let spec = specs(&text.replace("kernel", engine).replace("KEYS", keys)).remove(0);
            let told = spec.adverts.into_iter().map(|own| (own.interface, own.source, own.wanted.lifetime));
            told.collect::<Vec<_>>()
        };
        let given: Option<Ipv6Addr> = Some("fe80::7".parse().expect("an address"));
        assert_eq!(told(""), [("lan".to_owned(), given, 900), ("guests".to_owned(), None, 1800)]);
        let lifetimes = told("forwarding = false\n").into_iter().map(|(_, _, lifetime)| lifetime);
        assert_eq!(lifetimes.collect::<Vec<_>>(), [0, 0], "it is no default router");
    }
}

#[test]
fn drops_are_counted_by_reason_if_the_file_asks() {
    let text = FILE.replace("threaded = true\n", "threaded = true\ndrop_reasons = true\n");
    assert_eq!([FILE, &text].map(|text| specs(text)[0].drop_reasons), [false, true]);
}
