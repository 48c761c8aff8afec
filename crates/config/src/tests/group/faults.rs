//! What a file may not say of a group, and what is said of that.

use super::super::bad::errors;
use super::{BESIDE, PARALLEL, good, multistage};
use crate::{Mac, Spread};

/// What this version cannot run of a file.
#[track_caller]
fn told(text: &str) -> String {
    let plan = good(text);
    plan.errors(plan.not_yet()).lines().collect::<Vec<_>>().join("\n")
}

/// A group with an IPv6 address at its first NIC.
fn with_six(text: &str) -> String {
    text.replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"2001:db8::1/64\"]")
}

#[test]
fn what_this_version_cannot_run_is_refused_in_one_line() {
    assert_eq!(told(PARALLEL), "");
    assert_eq!(told(&multistage("balancers = 2\n")), "");
    assert_eq!(told(&multistage("balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n")), "");
    assert_eq!(told(&PARALLEL.replace("\"flow\"", "\"round-robin\"")), "");
    assert_eq!(told(&PARALLEL.replace("members = 2", "scale = { max = 3 }")), "");
    assert_eq!(told(&PARALLEL.replace("tap:core-wan", "xdp:eth0")), "");
    assert_eq!(told(&with_six(PARALLEL)), "");
    assert_eq!(told(&with_six(&multistage("balancers = 2\n"))), "");
    assert_eq!(told(&with_six(&multistage("balancer = \"vm\"\n"))), "");
    let filtered = |text: &str| text.replace("\"192.0.2.1/24\"", "\"192.0.2.1/24\"\nrpf = \"loose\"");
    for text in [PARALLEL.to_owned(), multistage("balancers = 2\n"), multistage("balancer = \"vm\"\n")] {
        assert_eq!(told(&filtered(&text)), "");
    }
    for more in [
        "engine = \"kernel\"\n",
        "interconnect = \"bridge:br0\"\nremote = 1\n",
        "tunnels = \"udp:10.0.0.1:4800-10.0.0.2:4800\"\n",
    ] {
        assert_eq!(told(&with_six(&multistage(&format!("balancer = \"vm\"\n{more}")))), "");
        let filtered = told(&filtered(&multistage(&format!("balancer = \"vm\"\n{more}"))));
        assert!(
            filtered.contains(
                "group.nic.rpf: a group with kernel routers or back ends on other hosts has no filter"
            ),
            "{filtered}"
        );
    }
    let of_vrf = PARALLEL.replace("\"198.51.100.1/24\"", "\"198.51.100.1/24\"\nvrf = \"red\"");
    assert_eq!(told(&of_vrf), "");
    let vlan = "[[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n";
    let tagged = |text: &str| format!("{text}{vlan}");
    assert_eq!(told(&tagged(PARALLEL)), "");
    assert_eq!(told(&tagged(&multistage("balancers = 2\n"))), "");
    let bridged = "balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n";
    for more in ["balancer = \"vm\"\n", bridged] {
        assert_eq!(told(&tagged(&multistage(more))), "");
    }
    let doubly = |more: &str| told(&format!("{}outer = 8\n", tagged(&multistage(more))));
    assert_eq!(doubly("balancer = \"vm\"\n"), "");
    assert!(
        doubly(bridged).contains("group.interconnect: a bridge passes frames with one tag"),
        "{}",
        doubly(bridged)
    );
    for text in [multistage("control = {}\n"), PARALLEL.replace("spread = \"flow\"", "control = {}")] {
        assert_eq!(told(&tagged(&text)), "");
    }
    for more in ["engine = \"kernel\"\n", "tunnels = \"udp:10.0.0.1:4800-10.0.0.2:4800\"\n"] {
        let told = told(&tagged(&multistage(&format!("balancer = \"vm\"\n{more}"))));
        let expected = "a group with kernel routers or back ends on other hosts has no interfaces for VLANs";
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn ipv6_is_refused_where_members_elsewhere_would_hear_each_other_try_it() {
    let of = |more: &str| with_six(&multistage(&format!("balancer = \"vm\"\n{more}")));
    let (kernel, bridge) = ("engine = \"kernel\"\n", "interconnect = \"bridge:br0\"\n");
    let tunnels = "tunnels = [\"udp:10.0.0.1:4800-10.0.0.2:4800\", \"udp:10.0.0.1:4802-10.0.0.3:4800\"]\n";
    for more in [tunnels.to_owned(), format!("{kernel}{tunnels}"), format!("{kernel}{bridge}")] {
        assert_eq!(told(&of(&more)), "", "{more}");
    }
    let two = told(&of(&format!("{bridge}remote = 2\n")));
    assert!(two.contains("group.nic.address: back ends on other hosts that one bridge leads to"), "{two}");
    let beside = told(&of(&format!("{kernel}{bridge}remote = 1\n")));
    assert!(beside.contains("group.nic.address: kernel routers at a bridge take the IPv6"), "{beside}");
    // Without IPv6 there is nothing to try.
    assert_eq!(told(&multistage(&format!("balancer = \"vm\"\n{kernel}{bridge}remote = 2\n"))), "");
    let advertised = |text: &str| text.replace(":1/64\"]", ":1/64\"]\n[group.nic.ra]");
    assert_eq!(told(&advertised(&of(tunnels))), "");
    let lost = told(&advertised(&of(kernel)));
    assert!(lost.contains("group.nic.ra: kernel routers in a group advertise nothing"), "{lost}");
}

/// What is changed, into what, and what is said of that.
const ONE_LINE: &[(&str, &str, &str)] = &[
    ("kind = \"parallel\"\n", "", "f.toml:3: group.kind: missing; write e.g. kind = \"parallel\""),
    (
        "\"parallel\"",
        "\"serial\"",
        "f.toml:5: group.kind: \"serial\" is no kind of group; kinds: parallel, multistage",
    ),
    ("members = 2\n", "", "f.toml:3: group.members: missing; write e.g. members = 2"),
    ("members = 2", "members = 65", "f.toml:6: group.members: 65 is out of range; write 1 to 64"),
    (
        "members = 2",
        "backends = 2",
        "f.toml:6: group.backends: this kind of group has members; write members = 2, or another kind",
    ),
    (
        "members = 2",
        "members = 2\nbalancers = 2",
        "f.toml:7: group.balancers: only a multistage group has it; remove it, or write kind = \"multistage\"",
    ),
    (
        "\"flow\"",
        "\"random\"",
        "f.toml:7: group.spread: \"random\" is no way to spread frames; ways: flow, round-robin",
    ),
    ("spread", "spred", "f.toml:7: group.spred: unknown key; did you mean \"spread\"?"),
    (
        "spread = \"flow\"",
        "scale = { min = 3, max = 8 }",
        "f.toml:6: group.members: 2 is outside of scale; write 3 to 8",
    ),
    ("spread = \"flow\"", "scale = { min = 2 }", "f.toml:7: group.scale.max: missing; write e.g. max = 4"),
    (
        "members = 2",
        "scale = { min = 5, max = 4 }",
        "f.toml:6: group.scale.max: 4 is less than min = 5; write 5 to 64",
    ),
    ("spread = \"flow\"", "spare = 5", "f.toml:7: group.spare: 5 is out of range; write 0 to 4"),
    (
        "spread = \"flow\"",
        "scale = { max = 4, target = 2 }",
        "f.toml:7: group.scale.target: 2 is out of range; write 0.1 to 0.95",
    ),
    (
        "\"core\"",
        "\"twelve-chars\"",
        "f.toml:4: group.name: \"twelve-chars\" is too long for a group, whose members are called NAME_63; use at most \
         11 letters",
    ),
    (
        "spread = \"flow\"",
        "guarantee = \"1kpps\"",
        "f.toml:7: group.guarantee: a group has none in this version; remove it",
    ),
    (
        "spread = \"flow\"",
        "role = \"echo\"",
        "f.toml:7: group.role: members are found alive by what they forward; write role = \"router\"",
    ),
    (
        "spread = \"flow\"",
        "vhost = \"vmm\"",
        "f.toml:7: group.vhost: a member's queues are read by threads of ours, outside of its own process; write vhost = \
         \"shared\"",
    ),
    (
        "\"tap:core-wan\"",
        "\"tap:core-wan\"\nmodel = \"e1000\"",
        "f.toml:12: group.nic.model: members attach NICs by vhost-user, which an e1000 cannot; write model = \"virtio-net\"",
    ),
    (
        "spread = \"flow\"",
        "vhost = \"per-queue\"",
        "f.toml:7: group.vhost: a member reads the queues that it owns by one thread; write vhost = \"shared\"",
    ),
    (
        "\"tap:core-wan\"",
        "\"tap:core-wan\"\nqueue_len = \"auto\"",
        "f.toml:12: group.nic.queue_len: several members read the queues of a group, and none can be tuned for them; write \
         a number such as 1000",
    ),
    (
        "\"switch:lan\"",
        "\"switch:lan\"\ndeliver = \"direct\"",
        "f.toml:17: group.nic.deliver: a member's rings are out of other routers' reach; write deliver = \"queued\"",
    ),
    (
        "\"tap:core-wan\"",
        "\"pcap:out.pcap\"",
        "f.toml:11: group.nic.attach: members of a parallel group cannot share \"pcap:out.pcap\"; write e.g. \
         \"tap:NAME\", \"macvtap:INTERFACE\" or \"switch:NAME\"",
    ),
    (
        "via = \"192.0.2.254\"",
        "via = \"203.0.113.1\"",
        "f.toml:21: group.route.via: 203.0.113.1 is in none of the router's networks: 192.0.2.0/24, 198.51.100.0/24",
    ),
];

#[test]
fn one_fault_one_line() {
    for (old, new, expected) in ONE_LINE {
        assert!(PARALLEL.contains(old), "{old:?} is not in the good file");
        assert_eq!(errors(&PARALLEL.replacen(old, new, 1)), *expected, "{old} -> {new}");
    }
}

#[test]
fn who_chooses_the_queues_decides_how_frames_are_spread() {
    let text = PARALLEL.replace("\"flow\"", "\"round-robin\"");
    assert_eq!(
        errors(&text.replace("tap:core-wan", "macvtap:eth0")),
        "f.toml:11: group.nic.attach: the kernel chooses the queues of macvtap: by flow; write spread = \"flow\", or \
         another attachment"
    );
    assert!(errors(&text.replace("tap:core-wan", "xdp:eth0")).contains("the NIC chooses the queues of xdp:"));
    let behind =
        multistage("").replace("\"flow\"", "\"round-robin\"").replace("tap:core-wan", "macvtap:eth0");
    assert_eq!(good(&behind).groups[0].spread, Spread::RoundRobin);
}

#[test]
fn a_linux_guest_is_no_member() {
    let text = PARALLEL.replace("spread = \"flow\"", "engine = \"linux\"\nkernel = \"vmlinuz\"");
    let expected = "f.toml:7: group.engine: we cannot write the routes of a Linux guest, so it is no member of a group; \
                    write engine = \"kvm\"";
    assert!(errors(&text).lines().any(|line| line == expected), "{}", errors(&text));
}

#[test]
fn a_kernel_router_is_no_member() {
    for engine in ["kernel", "lxc"] {
        let text = PARALLEL.replace("spread = \"flow\"", &format!("engine = \"{engine}\""));
        let expected = "f.toml:7: group.engine: the host's kernel reads the links of a kernel router, so it is no member of a \
                        group; write engine = \"kvm\"";
        assert!(errors(&text).lines().any(|line| line == expected), "{}", errors(&text));
    }
}

#[test]
fn what_is_wrong_with_all_members_is_told_once() {
    let text = PARALLEL.replace("spread = \"flow\"", "memory = \"16M\"\nvcpus = 8");
    let told = errors(&text);
    assert!(
        told.starts_with("f.toml:7: group.memory: 16 MiB cannot hold ") && !told.contains('\n'),
        "{told}"
    );
}

#[test]
fn outside_it_is_one_router() {
    let beside = |router: &str| errors(&format!("{PARALLEL}{}", BESIDE.replace("edge", router)));
    let null = "attach = \"null\"\n";
    assert_eq!(
        errors(&format!("{PARALLEL}{}{null}", BESIDE.replace("edge", "core"))),
        "f.toml:4: group.name: \"core\" is taken in line 23 already; choose another"
    );
    assert!(beside("edge").contains("router.nic.attach: missing"));
    assert_eq!(
        errors(&format!("{PARALLEL}{BESIDE}attach = \"tap:core-wan\"\n")),
        "f.toml:11: group.nic.attach: \"tap:core-wan\" is taken in line 26 already; choose another"
    );
    assert_eq!(
        errors(&format!("{PARALLEL}{BESIDE}attach = \"switch:lan\"\naddress = \"198.51.100.1/24\"\n")),
        "f.toml:17: group.nic.address: 198.51.100.1 is the address of edge.x on \"switch:lan\" already; choose another"
    );
    let mac = Mac::derived("core", "lan");
    assert_eq!(
        errors(&format!("{PARALLEL}{BESIDE}{null}mac = \"{mac}\"\n")),
        format!("f.toml:14: group.nic.mac: {mac} is taken in line 27 already; choose another")
    );
    // What is behind the balancers is nobody's concern, and what is before them is.
    let twice = multistage("").replace("switch:lan", "tap:core-wan");
    assert!(errors(&twice).contains("\"tap:core-wan\" is taken in line 11 already"));
}

#[test]
fn a_group_has_as_many_nics_as_can_be_probed() {
    let nic = |n: u32| format!("[[group.nic]]\nname = \"n{n}\"\nattach = \"tap:n{n}\"\n");
    let text = |text: &str, more: u32| format!("{text}{}", (0..more).map(nic).collect::<String>());
    let told = errors(&text(PARALLEL, 31));
    assert!(told.contains("33 NICs are too many; a router has at most 32"), "{told}");
    let member = good(&text(PARALLEL, 30)).routers.swap_remove(0);
    assert_eq!((member.nics.len(), member.neighbours.len()), (bootinfo::MAX_NICS, 32));
    let ways: Vec<(String, usize)> =
        member.routes[1..].iter().map(|route| (route.to.to_string(), route.nic)).collect();
    let due = (1..=8).chain(16..=39).map(|last| format!("192.0.0.{last}/32")).zip(0_usize..);
    assert_eq!(ways, due.collect::<Vec<_>>(), "the eighth is for what members say of probes as well");
    let filtered = text(PARALLEL, 30).replace("[[group.nic]]\n", "[[group.nic]]\nrpf = \"strict\"\n");
    assert_eq!(good(&filtered).routers[0].neighbours.len(), 64);
}

#[test]
fn a_balancer_that_is_a_machine_has_two_nics_for_each_of_its_group() {
    let nic = |n: u32| format!("[[group.nic]]\nname = \"n{n}\"\nattach = \"tap:n{n}\"\n");
    let text = |more: u32| multistage("balancer = \"vm\"\n") + &(0..more).map(nic).collect::<String>();
    let told = errors(&text(15));
    let due = "17 NICs are too many for a group with balancer = \"vm\", which has at most 16";
    assert!(told.contains(due), "{told}");
    let plan = good(&text(14));
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!((balancer.nics.len(), plan.routers[0].nics.len()), (bootinfo::MAX_NICS, 16));
}

#[test]
fn static_neighbours_leave_room_for_those_of_probes() {
    let text = |most: u32| {
        let known = |n: u32| {
            let (address, mac) = (format!("198.51.100.{n}"), format!("02:00:00:00:00:{n:02x}"));
            format!("[[group.neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\n")
        };
        format!("{PARALLEL}{}", (2..2 + most).map(known).collect::<String>())
    };
    assert_eq!(good(&text(250)).routers[0].neighbours.len(), 253);
    let told = errors(&text(251));
    assert!(
        told.contains("251 are too many for a group with 2 NICs, which has at most 250; remove some"),
        "{told}"
    );
}
