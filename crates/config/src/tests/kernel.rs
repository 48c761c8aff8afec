//! Configuration of kernel routers.

mod interfaces;

use crate::forwarding::ReversePath;
use crate::{
    Engine, Fault, ForwardingSettings, HostFacts, KernelPath, KernelPort, Plan, RpFilter, keys, kinds, parse,
};

fn file(keys: &str, nic: &str) -> String {
    format!(
        "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"kernel\"\n{keys}[[router.nic]]\nname = \"wan\"\n{nic}\n"
    )
}

fn good(keys: &str, nic: &str) -> Plan {
    parse(&file(keys, nic), "f.toml").expect("a good file")
}

fn faults(keys: &str, nic: &str) -> String {
    parse(&file(keys, nic), "f.toml").expect_err("a bad file").to_string()
}

const VETH: &str = "attach = \"veth:rr-wan\"";

#[test]
fn there_is_no_machine() {
    let plan = good("", VETH);
    let router = &plan.routers[0];
    assert_eq!((router.engine, router.kernel), (Some(Engine::Kernel), Some(ForwardingSettings::default())));
    assert_eq!((router.vcpus, router.memory, router.threads().len(), router.vhost_threads()), (0, 0, 0, 0));
    assert!(router.is_in_kernel() && plan.in_kernel().count() == 1);
    assert!(plan.of_data_plane().routers.is_empty(), "no data plane hears of it");
    assert!(
        plan.check_host(&HostFacts { no_kvm: Some("none".to_owned()), ..HostFacts::default() }).is_empty()
    );
}

#[test]
fn the_file_says_how_it_forwards() {
    let keys =
        "forwarding = false\nrp_filter = \"loose\"\nproxy_arp = true\nthreaded = true\ndrop_reasons = true\n";
    let kernel = ForwardingSettings {
        forwarding: false,
        rp_filter: RpFilter::Loose,
        proxy_arp: true,
        threaded: Some(true),
        drop_reasons: true,
    };
    assert_eq!(good(keys, VETH).routers[0].kernel, Some(kernel));
    let fault = faults("rp_filter = \"some\"\n", VETH);
    let line =
        "f.toml:5: router.rp_filter: \"some\" is no reverse path filter mode; modes: off, strict, loose";
    assert_eq!(fault, line);
}

#[test]
fn what_there_is_a_machine_for_it_has_not() {
    let no_machine = "a kernel router has no machine; remove this key, or write another engine";
    for key in [
        "role = \"router\"",
        "vcpus = 1",
        "memory = \"32M\"",
        "vhost = \"shared\"",
        "spin = \"50us\"",
        "isolate = \"process\"",
    ] {
        let name = key.split(' ').next().unwrap_or_default();
        assert_eq!(faults(&format!("{key}\n"), VETH), format!("f.toml:5: router.{name}: {no_machine}"));
    }
    for key in [
        "model = \"virtio-net\"",
        "itr = 4",
        "queues = 1",
        "hash = \"flow\"",
        "queue_len = 64",
        "ring = 512",
        "offload = true",
    ] {
        let name = key.split(' ').next().unwrap_or_default();
        let fault = faults("", &format!("{VETH}\n{key}"));
        assert_eq!(fault, format!("f.toml:8: router.nic.{name}: {no_machine}"));
    }
    assert!(faults("kernel = \"vmlinuz\"\n", VETH).contains("router.kernel: only a Linux guest has it"));
    // Where the kernel has something in its place, the line says so.
    for (key, what) in [
        ("neighbours = 64", "the kernel has one neighbour table for the whole host"),
        ("long_routes = 64", "the kernel's route tables have room for networks of any length"),
        ("redirects = true", "the kernel sends redirects by its own parameter"),
    ] {
        let (name, fault) = (key.split(' ').next().unwrap_or_default(), faults(&format!("{key}\n"), VETH));
        assert!(fault.starts_with(&format!("f.toml:5: router.{name}: {what}")), "{fault}");
        assert!(fault.ends_with("remove this key, or write another engine"), "{fault}");
    }
}

/// A NIC with addresses of both families.
const DUAL: &str = "attach = \"veth:rr-wan\"\naddress = [\"192.0.2.1/24\", \"2001:db8::1/64\"]";

#[test]
fn it_has_both_families_and_routes_of_a_type() {
    let tables = "[[router.route]]\nto = \"2001:db8:1::/48\"\nvia = \"2001:db8::fe\"\n\
        [[router.route]]\nto = \"198.51.100.0/24\"\nvia = \"fe80::1\"\nnic = \"wan\"\n\
        [[router.route]]\nto = \"203.0.113.0/24\"\ntype = \"blackhole\"\n\
        [[router.neighbour]]\naddress = \"2001:db8::fe\"\nmac = \"02:00:00:00:00:09\"";
    for engine in ["kernel", "lxc"] {
        let text = file("", &format!("{DUAL}\n{tables}")).replace("\"kernel\"", &format!("{engine:?}"));
        let plan = parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let router = &plan.routers[0];
        assert_eq!(router.nics[0].six.addresses[0].to_string(), "2001:db8::1/64");
        let forwarding = &router.forwarding;
        let counted = (forwarding.routes6.len(), forwarding.refused.len(), forwarding.neighbours6.len());
        assert_eq!(counted, (2, 1, 1));
    }
    let nic = format!("{VETH}\naddress = \"192.0.2.1/24\"\nrpf = \"strict\"");
    let filtered = good("rp_filter = \"loose\"\n", &nic);
    assert_eq!(filtered.routers[0].nics[0].reverse_path, ReversePath::Strict);
}

#[test]
fn a_vlan_has_tags_addresses_and_a_filter() {
    let nic = format!("{VETH}\naddress = \"192.0.2.1/24\"");
    let vlan = |more: &str| {
        format!(
            "{nic}\n[[router.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\naddress = \"10.7.0.1/24\"\n{more}"
        )
    };
    let route = "[[router.route]]\nto = \"10.0.0.0/8\"\nvia = \"10.7.0.2\"";
    let plan = good("", &vlan(route));
    let router = &plan.routers[0];
    assert_eq!(
        (router.forwarding.interfaces.len(), router.link_name(router.routes[0].nic)),
        (1, Some("guests"))
    );
    let plan = good("", &vlan("outer = 5\nrpf = \"loose\""));
    let own = &plan.routers[0].forwarding.interfaces[0];
    assert_eq!((own.tags.outer, own.tags.id, own.reverse_path), (Some(5), 7, ReversePath::Loose));
    let both = |more: &str| vlan(more).replace("\"10.7.0.1/24\"", "[\"10.7.0.1/24\", \"2001:db8:7::1/64\"]");
    good("", &both("rpf = \"off\""));
    let fault = faults("", &both("rpf = \"strict\""));
    assert!(fault.contains("router.interface.rpf: the kernel filters IPv4 sources only"), "{fault}");
    let plan = good("", &both("ra = {}"));
    assert!(plan.routers[0].forwarding.interfaces[0].six.advertise.is_some());
    assert!(faults("", &vlan("").replace("\"guests\"", "\"all\"")).contains("reserves the name \"all\""));
}

#[test]
fn a_vrf_has_a_name_that_no_other_interface_has() {
    let text = |vrfs: [&str; 2], route: &str| {
        let [nic, vlan] = vrfs.map(|vrf| format!("vrf = {vrf:?}\n"));
        format!(
            "{VETH}\naddress = \"192.0.2.1/24\"\n{nic}[[router.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n\
             address = \"192.0.2.1/24\"\n{vlan}{route}"
        )
    };
    let route = "[[router.route]]\nto = \"10.0.0.0/8\"\nvia = \"192.0.2.2\"\nvrf = \"blue\"";
    for engine in ["kernel", "lxc"] {
        let text = file("", &text(["red", "blue"], route)).replace("\"kernel\"", &format!("{engine:?}"));
        let plan = parse(&text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"));
        let router = &plan.routers[0];
        assert_eq!((router.vrfs(), router.routes[0].nic), (vec!["red", "blue"], 1));
    }
    let fault = faults("", &text(["default", "blue"], ""));
    assert_eq!(fault, "f.toml:9: router.nic.vrf: the kernel reserves the name \"default\"; choose another");
    let fault = faults("", &text(["red", "wan"], ""));
    let what = "a VRF is an interface of the kernel, and \"wan\" names another one; choose another name";
    assert_eq!(fault, format!("f.toml:15: router.interface.vrf: {what}"));
}

#[test]
fn a_route_has_several_gateways() {
    let route =
        "[[router.route]]\nto = \"203.0.113.0/24\"\nvia = [\"192.0.2.9\", \"192.0.2.10\"]\nweights = [3, 1]";
    let plan = good("", &format!("{VETH}\naddress = \"192.0.2.1/24\"\n{route}"));
    let spread = &plan.routers[0].forwarding.spread;
    assert_eq!(spread[0].gateways(), "192.0.2.9 * 3, 192.0.2.10");
}

#[test]
fn what_the_kernel_cannot_do_with_ipv6_is_refused() {
    for filter in ["loose", "strict"] {
        assert_eq!(
            faults("", &format!("{DUAL}\nrpf = {filter:?}")),
            "f.toml:9: router.nic.rpf: the kernel filters IPv4 sources only, and this NIC has an IPv6 address; write rp_filter for \
             the router instead"
        );
    }
    good("rp_filter = \"strict\"\n", &format!("{DUAL}\nrpf = \"off\""));
    let route = "[[router.route]]\nto = \"2001:db8:1::/48\"\nnic = \"wan\"";
    assert_eq!(
        faults("", &format!("{VETH}\naddress = \"192.0.2.1/24\"\n{route}")),
        "f.toml:11: router.route.nic: NIC \"wan\" has no IPv6 address, so it takes no part in IPv6; give it one"
    );
}

#[test]
fn it_advertises_itself_to_hosts() {
    let plan = good("", &format!("{DUAL}\nra = {{ lifetime = 900 }}"));
    let wanted = plan.routers[0].nics[0].six.advertise.as_ref().expect("it does");
    assert_eq!((wanted.lifetime, wanted.prefixes.len()), (900, 1));
    let fault = faults("", &format!("{VETH}\naddress = \"192.0.2.1/24\"\nra = {{}}"));
    assert!(fault.contains("router.nic.ra: the NIC has no IPv6 address to advertise"), "{fault}");
}

#[test]
fn its_threads_are_those_of_nics_with_a_napi_and_are_placed_and_scheduled() {
    let more = "[[router.nic]]\nname = \"low\"\nattach = \"macvlan:eth0\"\n\
                [[router.nic]]\nname = \"far\"\nattach = \"link:eth1\"";
    let names = |keys: &str| -> Vec<String> {
        let plan = good(keys, &format!("{VETH}\n{more}"));
        plan.routers[0].threads().into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(""), [""; 0]);
    // Each of these keys implies threads.
    for keys in [
        "threaded = true",
        "pin = { vhost = \"0-1\" }",
        "affinity = { vhost = \"free\" }",
        "sched = { policy = \"shares\", weight = 2 }",
        "sched = { vhost = { policy = \"deadline\", runtime = \"2ms\", period = \"10ms\" } }",
    ] {
        assert_eq!(names(&format!("{keys}\n")), ["edge/wan-napi0", "edge/far-napi0"], "{keys}");
    }
    let plan = good("guarantee = \"1kpps\"\n", VETH);
    assert!(plan.routers[0].is_threaded() && plan.routers[0].is_scheduled());
    assert_eq!(good("limit = \"1kpps\"\n", VETH).routers[0].limit.map(crate::Rate::pps), Some(1000));
}

#[test]
fn what_is_said_of_threads_that_it_has_not_is_refused() {
    for (key, keys) in [
        ("pin.vcpu", "pin = { vcpu = \"0\", vhost = \"1\" }"),
        ("affinity.vcpu", "affinity = { vcpu = \"0\" }"),
        ("sched.vcpu", "sched = { vcpu = { policy = \"fifo\", priority = 2 } }"),
    ] {
        let line = format!(
            "f.toml:5: router.{key}: a kernel router has no vCPU; remove this key, or write it for vhost, the class of its NAPI \
             threads"
        );
        assert_eq!(faults(&format!("{keys}\n"), VETH), line);
    }
    assert_eq!(
        faults("pin = { vhost = \"0\" }\nthreaded = false\n", VETH),
        "f.toml:6: router.threaded: pin.vhost is about NAPI threads, which threaded = false rules out; remove one of the two"
    );
    for attach in ["macvlan:eth0", "switch:lan"] {
        let nic = format!("attach = \"{attach}\"");
        assert_eq!(
            faults("pin = { vhost = \"0\" }\n", &nic),
            "f.toml:5: router.pin.vhost: none of its NICs has a NAPI thread of its own; write e.g. attach = \"veth:rr-wan\", or remove \
             this key"
        );
        let what = format!(
            "f.toml:5: router.guarantee: NIC \"wan\" at \"{attach}\" has no NAPI thread of its own, so no rate can be \
             guaranteed; write e.g. attach = \"veth:rr-wan\", or remove guarantee"
        );
        assert_eq!(faults("guarantee = \"1kpps\"\n", &nic), what);
        // A single NIC without a thread is enough for a refusal.
        let more = format!("{VETH}\n[[router.nic]]\nname = \"low\"\n{nic}");
        assert!(faults("guarantee = \"1kpps\"\n", &more).contains("NIC \"low\""));
        assert_eq!(good("pin = { vhost = \"0\" }\n", &more).routers[0].threads().len(), 1);
    }
}

#[test]
fn each_stands_on_what_it_can() {
    for attach in
        ["veth:a", "macvlan:eth0", "link:eth0", "vf:eth0", "tap:a", "bridge:br0", "ovs:br0", "switch:lan"]
    {
        good("", &format!("attach = \"{attach}\""));
    }
    for attach in ["null", "pcap:a.pcap", "macvtap:eth0", "xdp:eth0", "vhost-user-backend:a.sock"] {
        assert_eq!(
            faults("", &format!("attach = \"{attach}\"")),
            format!(
                "f.toml:7: router.nic.attach: a kernel router cannot use \"{attach}\"; write e.g. \"veth:rr-wan\""
            )
        );
    }
    for (attach, other) in [
        ("veth:a", "tap:a"),
        ("macvlan:eth0", "macvtap:eth0"),
        ("link:eth0", "macvtap:eth0"),
        ("vf:eth0", "macvtap:eth0"),
    ] {
        for engine in ["engine = \"kvm\"\n", "engine = \"process\"\n", ""] {
            let text = file("", &format!("attach = \"{attach}\"")).replace("engine = \"kernel\"\n", engine);
            let fault = parse(&text, "f.toml").expect_err("a bad file").to_string();
            let what = format!(
                "only a kernel router can use \"{attach}\"; write engine = \"kernel\", or e.g. \"{other}\""
            );
            assert!(fault.ends_with(&what), "{fault}");
        }
    }
}

#[test]
fn a_data_plane_hears_of_its_ports_on_switches_and_of_nothing_else() {
    let plan = good("", "attach = \"switch:lan\"\n[[router.nic]]\nname = \"out\"\nattach = \"veth:rr-out\"");
    let told = plan.of_data_plane();
    let kernel_port = KernelPort {
        router: "edge".to_owned(),
        nic: "wan".to_owned(),
        switch: "lan".to_owned(),
        path: KernelPath::Tap,
        of_group: false,
    };
    assert_eq!((told.routers.len(), told.kernel_ports.as_slice()), (0, [kernel_port].as_slice()));
    assert_eq!((told.kernel_ports[0].label().as_str(), told.switches.len()), ("edge.wan", 1));
    assert_eq!(told.of_data_plane(), told, "the same when it is told again");
    let stopped = plan.with("edge", "state", "stopped").expect("good").of_data_plane();
    assert_eq!(stopped, told, "a router comes and goes behind its port");
}

#[test]
fn keys_of_what_it_stands_on_are_its_own() {
    let nic = good("", "attach = \"veth:eth0\"\nnetns = \"west\"").routers[0].nics[0].clone();
    assert_eq!(nic.attach.detail(), " (in west)");
    let nic = good("", "attach = \"macvlan:eth0\"\nmacvlan_mode = \"vepa\"").routers[0].nics[0].clone();
    assert_eq!(nic.attach.detail(), " (vepa)");
    let keys = "function = 3\nfunctions = 8\nvlan = 7\nspoof_check = true";
    let nic = good("", &format!("attach = \"vf:eth0\"\n{keys}")).routers[0].nics[0].clone();
    assert_eq!(nic.attach.detail(), " (function 3, of 8, VLAN 7, spoof check true)");
    let nic = |keys: &str| good("", &format!("attach = \"veth:eth0\"\n{keys}")).routers[0].clone();
    for (keys, detail, queue) in [
        ("", "", None),
        ("qdisc = \"pfifo\"", " (pfifo)", Some("pfifo of 1000 frames")),
        ("qdisc = \"bfifo\"", " (bfifo)", Some("bfifo of 1514000 octets")),
        (
            "netns = \"west\"\nqdisc = \"fq_codel\"\nqdisc_limit = 7",
            " (in west, fq_codel, limit 7)",
            Some("fq_codel of 7 frames"),
        ),
    ] {
        let router = nic(keys);
        assert_eq!(router.nics[0].attach.detail(), detail);
        let fixed = if keys.contains("netns") { " (in west)" } else { "" };
        assert_eq!(router.nics[0].attach.fixed_detail(), fixed);
        let wanted = router.wanted(&router.nics[0]).queue().map(|queue| queue.to_string());
        assert_eq!(wanted.as_deref(), queue);
    }
    for (keys, line) in [
        ("qdisc = \"red\"", "\"red\" is no queueing discipline; disciplines: pfifo, bfifo, fq_codel"),
        ("qdisc_limit = 7", "it says what a queueing discipline holds; add qdisc = \"pfifo\", or remove it"),
        ("qdisc = \"pfifo\"\nqdisc_limit = 0", "0 is out of range; write 1 to 1073741824"),
    ] {
        let fault = faults("", &format!("attach = \"veth:eth0\"\n{keys}"));
        assert!(fault.contains(line), "{fault}");
    }
    let fault = faults("", "attach = \"macvlan:eth0\"\nqdisc = \"pfifo\"");
    assert!(fault.contains("only a NIC with attach = \"veth:INTERFACE\" has it; remove it"), "{fault}");
    let fault = faults("", "attach = \"vf:eth0\"\nvlan = 4095");
    assert!(fault.contains("4095 is out of range; write 0 to 4094"), "{fault}");
    let fault = faults("", "attach = \"macvlan:eth0\"\nmacvlan_mode = \"best\"");
    assert!(fault.contains("\"best\" is no macvlan mode; modes: bridge, private, vepa, passthru"), "{fault}");
    let fault = faults("", "attach = \"macvlan:eth0\"\nnetns = \"west\"");
    assert!(fault.contains("only a NIC with attach = \"veth:INTERFACE\" has it; remove it"), "{fault}");
    let fault = faults("", "attach = \"veth:an-interface-too\"");
    assert!(fault.contains("is not an interface name; use 1 to 15 visible ASCII characters"), "{fault}");
}

#[test]
fn names_that_each_namespace_has_are_taken() {
    for name in ["lo", "all", "default"] {
        let text = file("", VETH).replace("\"wan\"", &format!("{name:?}"));
        assert_eq!(
            parse(&text, "f.toml").expect_err("a bad file").to_string(),
            format!("f.toml:6: router.nic.name: the kernel reserves the name {name:?}; choose another")
        );
    }
}

#[test]
fn each_key_of_it_can_be_set_and_no_other() {
    let plan = good("", VETH);
    let set = |key: &str, value: &str| plan.with("edge", key, value);
    let kernel = |key: &str, value: &str| set(key, value).expect("good").routers[0].kernel.expect("it is");
    assert!(!kernel("forwarding", "false").forwarding);
    assert_eq!(kernel("threaded", "true").threaded, Some(true));
    assert_eq!(kernel("rp_filter", "strict").rp_filter.number(), 1);
    assert!(kernel("proxy_arp", "true").proxy_arp);
    assert!(
        kernel("drop_reasons", "true").drop_reasons && !plan.routers[0].kernel.expect("it is").drop_reasons
    );
    assert!(set("wan.link", "down").expect("good").routers[0].nics[0].is_pulled());
    assert!(set("state", "stopped").expect("good").routers[0].is_stopped());
    assert_eq!(set("limit", "2kpps").expect("good").routers[0].limit.map(crate::Rate::pps), Some(2000));
    let refused = |key: &str, value: &str| set(key, value).expect_err("refused").to_string();
    assert_eq!(
        refused("forwarding", "maybe"),
        "router edge: forwarding: \"maybe\" is neither true nor false; write one of them"
    );
    assert!(refused("spin", "10us").contains("a kernel router has no machine"));
    assert!(refused("pin.vcpu", "0").contains("a kernel router has no vCPU"));
    assert!(refused("sched.vcpu", "{ policy = \"other\" }").contains("a kernel router has no vCPU"));
    for (key, value) in [("pin.vhost", "0"), ("affinity.vhost", "0-1"), ("guarantee", "1kpps")] {
        assert!(set(key, value).expect("good").routers[0].is_threaded(), "{key}");
    }
    let pinned = good("pin = { vhost = \"0\" }\n", VETH);
    let what = pinned.with("edge", "threaded", "false").expect_err("refused").to_string();
    assert_eq!(
        what,
        "router edge: threaded: pin.vhost is about NAPI threads, which threaded = false rules out; remove one of the two"
    );
    assert!(!pinned.with("edge", "pin.vhost", "any").expect("good").routers[0].is_threaded());
    let text = file("", "attach = \"null\"").replace("engine = \"kernel\"\n", "");
    let other = parse(&text, "f.toml").expect("a good file").with("edge", "rp_filter", "off");
    let what = other.expect_err("refused").to_string();
    assert_eq!(
        what,
        "router edge: rp_filter: only a kernel router has this key; remove it, or write engine = \"kernel\""
    );
}

#[test]
fn what_it_has_not_is_foreign_to_it_alone() {
    let (plan, other) = (good("", VETH), file("", "attach = \"null\"").replace("engine = \"kernel\"\n", ""));
    let is_foreign =
        |plan: &Plan, key: &str| keys::inapplicable(&plan.routers[0]).any(|foreign| foreign == key);
    assert!(is_foreign(&plan, "memory") && is_foreign(&plan, "pin"));
    let threaded = good("threaded = true\n", VETH);
    assert!(is_foreign(&threaded, "pin.vcpu") && !is_foreign(&threaded, "pin"));
    assert_eq!(keys::inapplicable(&parse(&other, "f.toml").expect("good").routers[0]).count(), 0);
    assert!(kinds::engines().contains(&"kernel") && !kinds::cpu_keys().contains(&"rp_filter"));
}

#[test]
fn in_a_container_it_is_the_same() {
    let text = |keys: &str, nic: &str| file(keys, nic).replace("\"kernel\"", "\"lxc\"");
    let plan = |keys: &str| parse(&text(keys, VETH), "f.toml").expect("a good file");
    let container = |keys: &str| plan(keys).routers[0].container.clone().expect("a container");
    assert!(plan("").routers[0].is_in_kernel());
    assert_eq!((container("").rootfs, container("").init), (None, vec![]));
    let root = container("rootfs = \"/srv/edge\"\n");
    assert_eq!((root.rootfs, root.init), (Some("/srv/edge".into()), vec!["/sbin/init".to_owned()]));
    let init = container("rootfs = \"/srv/edge\"\ninit = \"/bin/busybox sleep 100\"\n").init;
    assert_eq!(init, ["/bin/busybox", "sleep", "100"]);
    let elsewhere = text("", "attach = \"veth:a\"\nnetns = \"west\"");
    assert!(parse(&elsewhere, "f.toml").is_ok(), "the other end of a pair may be in a namespace");
    let short = text("", VETH).replace("name = \"wan\"", "name = \"w\"");
    let fault = parse(&short, "f.toml").expect_err("a bad file").to_string();
    assert!(fault.contains("router.nic.name: LXC does not accept interface names of one letter"), "{fault}");
    for (keys, nic, line) in [
        ("rootfs = \"edge\"\n", VETH, "router.rootfs: \"edge\" is not the absolute path of a directory"),
        (
            "rootfs = \"/a\"\ninit = \"sleep\"\n",
            VETH,
            "router.init: \"sleep\" is not the absolute path of a program",
        ),
        ("init = \"/sbin/init\"\n", VETH, "router.init: a container without rootfs runs no program"),
        (
            "",
            "attach = \"link:a\"\nmac = \"02:00:00:00:00:01\"",
            "router.nic.mac: LXC returns an interface with",
        ),
    ] {
        let fault = parse(&text(keys, nic), "f.toml").expect_err("a bad file").to_string();
        assert!(fault.contains(line), "{fault}");
    }
    assert!(
        faults("rootfs = \"/a\"\n", VETH).contains("router.rootfs: only a container router has this key")
    );
}

#[test]
fn whatever_the_key_a_fault_that_is_found_later_has_its_line() {
    let text = "[switch.lan]\n[[router]]\nname = \"edge\"\nengine = \"lxc\"\nrootfs = \"/srv/edge\"\n\
                [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\n";
    let plan = parse(text, "f.toml").expect("a good file");
    let found = plan.errors(["rootfs", "init"].map(|key| Fault::new(0, key, "why")));
    assert_eq!(found.to_string(), "f.toml:2: router.init: why\nf.toml:5: router.rootfs: why");
}
