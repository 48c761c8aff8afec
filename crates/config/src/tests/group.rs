//! Groups: what a file may say of them, and what becomes of that in a plan.

use std::net::Ipv4Addr;
use std::time::Duration;

use proptest::prelude::*;

use super::bad::errors;
use crate::{
    Balancer, Engine, FlowHash, GROUP, Group, GroupKind, HostFacts, Interconnect, Mac, Pin, Plan, Role,
    Router, Scale, Spin, Spread, Stages, Surplus, is_forwarding_for, is_meant, parse,
};

/// A parallel group.
const PARALLEL: &str = r#"[switch.lan]

[[group]]
name = "core"
kind = "parallel"
members = 2
spread = "flow"

[[group.nic]]
name = "wan"
attach = "tap:core-wan"
address = "192.0.2.1/24"

[[group.nic]]
name = "lan"
attach = "switch:lan"
address = "198.51.100.1/24"

[[group.route]]
to = "0.0.0.0/0"
via = "192.0.2.254"
"#;

/// A router beside it, up to its one NIC.
const BESIDE: &str = "[[router]]\nname = \"edge\"\n[[router.nic]]\nname = \"x\"\n";

#[track_caller]
fn good(text: &str) -> Plan {
    parse(text, "f.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The multistage form of it.
fn multistage(more: &str) -> String {
    PARALLEL.replace(
        "kind = \"parallel\"\nmembers = 2\n",
        &format!("kind = \"multistage\"\nbackends = 3\n{more}"),
    )
}

fn names<'p>(routers: impl IntoIterator<Item = &'p Router>) -> Vec<&'p str> {
    routers.into_iter().map(|router| router.name.as_str()).collect()
}

fn attachments(router: &Router) -> Vec<String> {
    router.nics.iter().map(|nic| nic.attach.to_string()).collect()
}

#[test]
fn members_are_routers_that_are_alike() {
    let plan = good(PARALLEL);
    assert_eq!(names(&plan.routers), ["core_0", "core_1"]);
    assert_eq!(names(plan.members("core")), ["core_0", "core_1"]);
    assert_eq!((plan.members("cor").count(), plan.members("core_0").count()), (0, 0));
    let group = plan.group("core").expect("there is one");
    assert_eq!((group.members, group.most(), &group.kind), (2, 2, &GroupKind::Parallel));
    assert_eq!((group.spread, group.scale, group.queues()), (Spread::Flow, None, 8));
    let wanted = group.wanted(&group.pattern.nics[0]);
    assert_eq!(
        (wanted.label().as_str(), wanted.queues, wanted.hash),
        ("core.wan", 8, port::steer::Hash::Symmetric)
    );
    for router in &plan.routers {
        let mut like = router.clone();
        // Beside what the file says each has what probes pass by.
        let ways: Vec<(String, usize)> =
            like.routes.split_off(1).iter().map(|route| (route.to.to_string(), route.nic)).collect();
        let due = [("192.0.0.1/32", 0), ("192.0.0.2/32", 1), ("192.0.0.8/32", 0)];
        assert_eq!(ways, due.map(|(to, nic)| (to.to_owned(), nic)));
        assert_eq!(like.neighbours.split_off(0).len(), 3);
        assert_eq!(like, Router { name: router.name.clone(), ..group.pattern.clone() });
        assert_eq!(attachments(router), ["tap:core-wan", "switch:lan"]);
        assert_eq!(router.nics[0].mac, Mac::derived("core", "wan"));
        assert_eq!(router.nics[1].hash, FlowHash::Symmetric);
        assert_eq!(router.routes[0].via, Some(Ipv4Addr::new(192, 0, 2, 254)));
        assert!(router.isolate);
    }
    assert_eq!(plan.routers[1].membership(), Some(("core", 1)));
    assert_eq!(group.pattern.membership(), None);
}

#[test]
fn what_a_file_says_of_a_group_is_in_the_plan() {
    let plan = good(&PARALLEL.replace("spread = \"flow\"", "scale = { min = 1, max = 6, target = 0.55 }"));
    let group = &plan.groups[0];
    assert_eq!(group.scale, Some(Scale { min: 1, max: 6, target: 550, surplus: Surplus::Park }));
    assert_eq!((group.members, group.most(), group.queues()), (2, 6, 32));
    let least = good(&PARALLEL.replace("members = 2", "scale = { min = 3, max = 64 }"));
    assert_eq!((least.groups[0].members, least.groups[0].queues()), (3, 64));
    let one_by_one = good(&PARALLEL.replace("\"flow\"", "\"round-robin\""));
    assert_eq!(one_by_one.groups[0].spread, Spread::RoundRobin);
    let hash = good(&PARALLEL.replace("name = \"lan\"", "name = \"lan\"\nhash = \"flow\""));
    assert_eq!(hash.routers[0].nics[1].hash, FlowHash::Flow);
    let process = good(&PARALLEL.replace("spread = \"flow\"", "engine = \"process\""));
    assert!(!process.routers[0].isolate);
}

#[test]
fn members_share_what_the_group_is_plugged_into() {
    let labels = |plan: &Plan| -> Vec<(String, usize)> {
        plan.links().map(|wanted| (wanted.label(), wanted.queues)).collect()
    };
    let of = |label: &str, queues| (label.to_owned(), queues);
    let plan = good(&format!("{PARALLEL}{BESIDE}attach = \"null\"\n"));
    assert_eq!(labels(&plan), [of("edge.x", 1), of("core.wan", 8), of("core.lan", 8)]);
    let seen = |member: usize| plan.wanted_outside(&plan.routers[member], 0).map(|wanted| wanted.label());
    assert_eq!([seen(0), seen(1), seen(2)], [Some("edge.x".to_owned()), Some("core.wan".to_owned()), None]);
    let plan = good(&multistage(""));
    assert_eq!(labels(&plan).len(), 3 * 2 + 2);
}

#[test]
fn each_vrf_of_a_group_has_ways_for_probes() {
    let plan = good(&PARALLEL.replace("\"198.51.100.1/24\"", "\"198.51.100.1/24\"\nvrf = \"red\""));
    let member = &plan.routers[plan.routers.len() - 1];
    assert_eq!((member.tables(), [0, 1].map(|nic| member.table_of(nic))), (2, [0, 1]));
    let due = [("192.0.0.1/32", 0), ("192.0.0.2/32", 1), ("192.0.0.8/32", 0), ("192.0.0.8/32", 1)];
    for (to, nic) in due {
        let is_it = |route: &&crate::Route| (route.to.to_string().as_str(), route.nic) == (to, nic);
        assert_eq!(member.routes.iter().filter(is_it).count(), 1, "{to}");
    }
}

#[test]
fn what_this_version_cannot_run_is_refused_in_one_line() {
    let told = |text: &str| {
        let plan = good(text);
        plan.errors(plan.not_yet()).lines().collect::<Vec<_>>().join("\n")
    };
    assert_eq!(told(PARALLEL), "");
    assert_eq!(told(&multistage("balancers = 2\n")), "");
    assert_eq!(told(&multistage("balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n")), "");
    assert_eq!(told(&PARALLEL.replace("\"flow\"", "\"round-robin\"")), "");
    assert_eq!(told(&PARALLEL.replace("members = 2", "scale = { max = 3 }")), "");
    assert_eq!(told(&PARALLEL.replace("tap:core-wan", "xdp:eth0")), "");
    let six = PARALLEL.replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"2001:db8::1/64\"]");
    assert!(told(&six).contains("group.nic.address: a group has no IPv6 in this version"), "{}", told(&six));
    let of_vrf = PARALLEL.replace("\"198.51.100.1/24\"", "\"198.51.100.1/24\"\nvrf = \"red\"");
    assert_eq!(told(&of_vrf), "");
    let filtered = PARALLEL.replace("\"192.0.2.1/24\"", "\"192.0.2.1/24\"\nrpf = \"loose\"");
    assert!(
        told(&filtered).contains("group.nic.rpf: a group has no filter of sources"),
        "{}",
        told(&filtered)
    );
    let tagged = format!("{PARALLEL}[[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n");
    assert!(told(&tagged).contains("a group has no interfaces for VLANs"), "{}", told(&tagged));
}

#[test]
fn back_ends_are_plugged_into_the_interconnection() {
    let plan = good(&multistage("balancers = 2\n"));
    assert_eq!(names(&plan.routers), ["core_0", "core_1", "core_2"]);
    let switches: Vec<&str> = plan.switches.iter().map(|switch| switch.name.as_str()).collect();
    assert_eq!(switches, ["lan", "core_wan", "core_lan"]);
    assert_eq!(attachments(&plan.routers[2]), ["switch:core_wan", "switch:core_lan"]);
    assert_eq!(attachments(&plan.groups[0].pattern), ["tap:core-wan", "switch:lan"]);
    assert_eq!(plan.routers[2].nics[0].mac, Mac::derived("core", "wan"));
    let (balancer, interconnect) = (Balancer::Switch, Interconnect::Switch);
    let stages = Stages { balancers: 2, balancer, interconnect, remote: 0, pin: Pin::default() };
    assert_eq!(plan.groups[0].kind, GroupKind::Multistage(stages));
}

#[test]
fn behind_a_bridge_each_back_end_has_an_address_of_its_own() {
    let plan = good(&multistage("balancer = \"vm\"\ninterconnect = \"ovs:br0\"\n"));
    assert_eq!(plan.switches.len(), 1);
    assert_eq!(attachments(&plan.routers[0]), ["ovs:br0", "ovs:br0"]);
    assert_eq!(plan.routers[1].nics[0].mac, Mac::derived("core_1", "wan"));
    let GroupKind::Multistage(stages) = &plan.groups[0].kind else { panic!("{:?}", plan.groups[0].kind) };
    assert_eq!(stages.balancer, Balancer::Vm);
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!(attachments(balancer), ["tap:core-wan", "switch:lan", "ovs:br0", "ovs:br0"]);
}

#[test]
fn balancers_that_are_machines_are_routers_of_the_plan() {
    let plan =
        good(&format!("{}{BESIDE}attach = \"null\"\n", multistage("balancers = 2\nbalancer = \"vm\"\n")));
    assert_eq!(names(&plan.routers), ["edge", "core_0", "core_1", "core_2", "core_lb0", "core_lb1"]);
    assert_eq!(names(plan.members("core")), ["core_0", "core_1", "core_2"]);
    let balancer = &plan.routers[5];
    assert_eq!((balancer.role, balancer.vcpus, balancer.isolate), (Role::Balancer, 1, true));
    assert_eq!((balancer.membership(), balancer.balancing()), (None, Some(("core", 1))));
    assert_eq!((balancer.group(), plan.routers[0].group()), (Some("core"), None));
    assert!(balancer.routes.is_empty() && balancer.neighbours.is_empty());
    let nics: Vec<&str> = balancer.nics.iter().map(|nic| nic.name.as_str()).collect();
    assert_eq!(nics, ["wan", "lan", "wan_in", "lan_in"]);
    assert_eq!(attachments(balancer), ["tap:core-wan", "switch:lan", "switch:core_wan", "switch:core_lan"]);
    assert_eq!(balancer.nics[0].mac, plan.groups[0].pattern.nics[0].mac, "outside it is the group");
    assert!(balancer.nics.iter().all(|nic| nic.addresses.is_empty() && nic.mtu >= 1500));
    // Behind them each member is a station of its own, and so is what its probes come from.
    assert_eq!(plan.routers[2].nics[0].mac, Mac::derived("core_1", "wan"));
    let behind: Vec<Mac> = plan.routers[2].neighbours.iter().map(|known| known.mac).collect();
    assert_eq!(behind, [0, 1, 0].map(|nic| Mac(::group::probe::back(nic).0)));
    assert!(plan.groups[0].has_machines() && plan.groups[0].balancer_threads().is_empty());
    assert!(is_meant("core_lb1", "core") && !is_forwarding_for("core_lb1", "core"));
    assert!(is_forwarding_for("core_lb1", "core_lb1") && is_forwarding_for("core_1", "core"));
}

#[test]
fn what_balancers_that_are_machines_are_plugged_into_is_opened_once() {
    let plan = good(&multistage("balancers = 2\nbalancer = \"vm\"\ninterconnect = \"bridge:br0\"\n"));
    let labels: Vec<String> = plan.links().map(|wanted| wanted.label()).collect();
    let of = |router: &str, nics: [&str; 2]| nics.map(|nic| format!("{router}.{nic}"));
    let wanted = [
        of("core_0", ["wan", "lan"]),
        of("core_1", ["wan", "lan"]),
        of("core_2", ["wan", "lan"]),
        of("core_lb0", ["wan_in", "lan_in"]),
        of("core_lb1", ["wan_in", "lan_in"]),
        of("core", ["wan", "lan"]),
    ];
    assert_eq!(labels, wanted.concat());
    let outside = |name: &str| -> Vec<Option<String>> {
        let router = plan.routers.iter().find(|router| router.name == name).expect("it is there");
        let wanted = |number| plan.wanted_outside(router, number).map(|wanted| wanted.label());
        (0..router.nics.len()).map(wanted).collect()
    };
    let some = |labels: &[&str]| labels.iter().map(|label| Some((*label).to_owned())).collect::<Vec<_>>();
    assert_eq!(outside("core_0"), some(&["core_0.wan", "core_0.lan"]));
    assert_eq!(outside("core_lb0"), some(&["core.wan", "core.lan", "core_lb0.wan_in", "core_lb0.lan_in"]));
    let second = outside("core_lb1");
    assert_eq!(
        (&second[..2], &second[2..]),
        (&[None, None][..], &some(&["core_lb1.wan_in", "core_lb1.lan_in"])[..])
    );
}

#[test]
fn balancers_that_are_machines_come_and_go() {
    let text = |balancers: u32| multistage(&format!("balancers = {balancers}\nbalancer = \"vm\"\n"));
    let plan = good(&text(2));
    assert_eq!(plan.with_balancers("core", 1), Ok(good(&text(1))));
    assert_eq!(plan.with_balancers("core", 3), Ok(good(&text(3))));
    let stopped = plan.with("core_lb1", "state", "stopped").expect("it may be");
    let fewer = stopped.with_members("core", 2).expect("so many may be");
    let is_stopped =
        |name: &str| fewer.routers.iter().any(|router| router.name == name && router.is_stopped());
    assert_eq!([is_stopped("core_lb0"), is_stopped("core_lb1")], [false, true]);
    let spun = plan.with("core", "spin", "70us").expect("it may be set");
    assert!(spun.routers.iter().all(|router| router.spin == Spin::For(Duration::from_micros(70))));
}

#[test]
fn cpus_of_balancers_are_the_last_ones_or_those_that_the_file_has_for_them() {
    let pins = |text: &str| -> Vec<String> {
        let told = |set: &Option<crate::CpuSet>| set.as_ref().map(ToString::to_string).unwrap_or_default();
        let plan = good(text);
        plan.routers
            .iter()
            .map(|router| format!("{}/{}", told(&router.pin.vcpu), told(&router.pin.vhost)))
            .collect()
    };
    let text = |more: &str| multistage(&format!("balancers = 2\nbalancer = \"vm\"\n{more}"));
    let all = pins(&text("pin = { vcpu = \"0-7\", vhost = \"3-5\" }\n"));
    assert_eq!(all, ["0/3", "1/4", "2/5", "7/5", "6/4"]);
    let own = pins(&text("pin = { vcpu = \"0\" }\nbalancer_pin = { vcpu = \"1,2\", vhost = \"3\" }\n"));
    assert_eq!(own, ["0/", "0/", "0/", "1/3", "2/3"]);
}

#[test]
fn back_ends_on_other_hosts_have_the_highest_numbers() {
    let text = |more: &str| multistage(&format!("balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n{more}"));
    let plan = good(&text("remote = 2\n"));
    let group = &plan.groups[0];
    assert_eq!(names(plan.members("core")), ["core_0", "core_1", "core_2"]);
    assert_eq!(group.remote_members().collect::<Vec<_>>(), [63, 62]);
    let stations: Vec<Mac> = group.stations(63).collect();
    assert_eq!(stations, [Mac::derived("core_63", "wan"), Mac::derived("core_63", "lan")]);
    assert!(group.is_elsewhere("core_62") && !group.is_elsewhere("core_61") && !group.is_elsewhere("core_0"));
    let refused = plan.with_members("core", 63).expect_err("refused").to_string();
    assert_eq!(refused, "group core: members: 63 is out of range; write 1 to 62");
    let told = errors(&text("remote = 2\n").replace("backends = 3", "backends = 63"));
    assert!(told.contains("group.remote: there are at most 64 back ends"), "{told}");
    let told = errors(&multistage("balancer = \"vm\"\nremote = 1\n"));
    assert!(told.contains("group.remote: other hosts are reached by a bridge"), "{told}");
    let told = errors(
        &text("").replace("bridge:br0", "ovs:br0").replace("\"flow\"", "\"flow\"\nengine = \"kernel\""),
    );
    assert!(told.contains("group.interconnect: no kernel router can be plugged into Open vSwitch"), "{told}");
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
fn faults_of_a_multistage_group() {
    assert_eq!(
        errors(&multistage("interconnect = \"tap:x\"\n")),
        "f.toml:7: group.interconnect: \"tap:x\" joins no back ends; write \"switch\", \"bridge:NAME\" or \"ovs:NAME\""
    );
    assert_eq!(
        errors(&multistage("balancer = \"click\"\n")),
        "f.toml:7: group.balancer: \"click\" is no balancer; balancers: switch, vm"
    );
    assert_eq!(
        errors(&multistage("interconnect = \"bridge:br0\"\n")),
        "f.toml:7: group.interconnect: a balancer in our switch hands frames to back ends itself; write balancer = \"vm\", \
         or remove interconnect"
    );
    assert_eq!(
        errors(&multistage("balancer_pin = { vcpu = \"0\" }\n")),
        "f.toml:7: group.balancer_pin: only a balancer that is a virtual machine has it; write balancer = \"vm\", or pin"
    );
    assert_eq!(
        errors(&multistage("balancer = \"vm\"\n").replace("\"core\"", "\"ten-letter\"")),
        "f.toml:4: group.name: \"ten-letter\" is too long for a group, whose balancers are called NAME_lb15; use at most \
         9 letters"
    );
    let handed = multistage("").replace("\"tap:core-wan\"", "\"vhost-user-frontend:/run/x.sock\"");
    assert!(
        errors(&handed)
            .starts_with("f.toml:11: group.nic.attach: members of a multistage group cannot share")
    );
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
fn behind_balancers_that_are_machines_kernel_routers_are_members() {
    let text = |engine: &str, more: &str| {
        multistage(&format!("balancer = \"vm\"\n{more}"))
            .replace("\"flow\"", &format!("\"flow\"\nengine = \"{engine}\""))
    };
    let plan = good(&text("kernel", ""));
    assert!(plan.members("core").all(|router| router.is_in_kernel() && router.vcpus == 0));
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!(
        (balancer.engine, balancer.is_in_kernel(), balancer.vcpus, balancer.isolate),
        (None, false, 1, true)
    );
    assert!(balancer.memory > 0 && balancer.nics.iter().all(|nic| nic.queues == 1 && nic.ring > 0));
    let wanted = plan.groups[0].wanted(&plan.groups[0].pattern.nics[0]);
    assert_eq!(
        (wanted.label().as_str(), wanted.in_kernel, wanted.queues, wanted.pairs),
        ("core.wan", false, 1, 1)
    );
    assert_eq!(attachments(&plan.routers[0]), ["switch:core_wan", "switch:core_lan"]);
    let of_data_plane = plan.of_data_plane();
    assert_eq!(names(&of_data_plane.routers), ["core_lb0"]);
    let ports: Vec<&str> = of_data_plane.kernel_ports.iter().map(|port| port.switch.as_str()).collect();
    assert_eq!(ports, ["core_wan", "core_lan"].repeat(3));
    assert!(plan.with("core", "rp_filter", "loose").is_ok(), "a setting that balancers do not have");
    assert_eq!(good(&text("lxc", "interconnect = \"bridge:br0\"\n")).members("core").count(), 3);
    let scaled = text("kernel", "").replace("backends = 3", "scale = { max = 3 }");
    assert!(
        errors(&scaled).contains("group.scale: the load of kernel routers is not known"),
        "{}",
        errors(&scaled)
    );
    let in_switch = multistage("").replace("\"flow\"", "\"flow\"\nengine = \"kernel\"");
    assert!(
        errors(&in_switch).contains("group.engine: a balancer in our switch cannot reach a kernel router"),
        "{}",
        errors(&in_switch)
    );
}

#[test]
fn a_control_plane_is_the_groups_and_no_balancer_has_one() {
    let text = |more: &str| multistage(&format!("balancer = \"vm\"\ncontrol = {{}}\n{more}"));
    let plan = good(&text(""));
    assert!(plan.members("core").all(|router| router.control.is_some()));
    let balancer = plan.routers.last().expect("there is one");
    assert_eq!((balancer.balancing(), balancer.control.is_some()), (Some(("core", 0)), false));
    assert_eq!(names(plan.controlled().map(|(router, _)| router)), ["core"]);
    let group = &plan.groups[0];
    assert!(!group.wanted(&group.pattern.nics[0]).has_control, "frames are sorted out by who reads the link");
    assert!(!group.shares_tables() && good(&multistage("balancer = \"vm\"\n")).groups[0].shares_tables());
    let in_kernel = errors(&text("").replace("\"flow\"", "\"flow\"\nengine = \"kernel\""));
    assert!(in_kernel.contains("group.control: kernel routers in a group have none"), "{in_kernel}");
    let remote = errors(&text("interconnect = \"bridge:br0\"\nremote = 1\n"));
    assert!(remote.contains("group.control: a back end on another host does not learn routes"), "{remote}");
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
fn two_groups_and_a_router() {
    let second = PARALLEL
        .replace("[switch.lan]\n", "")
        .replace("core", "side")
        .replace("198.51.100.1/", "198.51.100.2/");
    let plan = good(&format!("{PARALLEL}{second}{BESIDE}attach = \"null\"\n"));
    assert_eq!(names(&plan.routers), ["edge", "core_0", "core_1", "side_0", "side_1"]);
    assert_eq!(names(plan.members("side")), ["side_0", "side_1"]);
    let again = errors(&format!("{PARALLEL}{}", PARALLEL.replace("[switch.lan]\n", "")));
    assert!(again.contains("group.name: \"core\" is taken in line 4 already"), "{again}");
}

#[test]
fn members_come_and_go() {
    let plan = good(&format!("{PARALLEL}{BESIDE}attach = \"null\"\n"));
    let stopped = plan.with("core_1", "state", "stopped").expect("it may be");
    let four = stopped.with_members("core", 4).expect("so many may be");
    assert_eq!(names(&four.routers), ["edge", "core_0", "core_1", "core_2", "core_3"]);
    let is_stopped: Vec<bool> = four.routers.iter().map(Router::is_stopped).collect();
    assert_eq!(is_stopped, [false, false, true, false, false]);
    assert_eq!(four.groups[0].members, 4);
    assert_eq!(stopped.with_members("core", 2), Ok(stopped.clone()));
    let refused = |members| plan.with_members("core", members).expect_err("refused").to_string();
    assert_eq!(refused(0), "group core: members: 0 is out of range; write 1 to 64");
    assert_eq!(refused(65), "group core: members: 65 is out of range; write 1 to 64");
    let unknown = plan.with_members("edge", 2).expect_err("refused").to_string();
    assert_eq!(unknown, "there is no group \"edge\"; groups: core");
    let scaled = good(&PARALLEL.replace("spread = \"flow\"", "scale = { min = 2, max = 3 }"));
    let what = scaled.with_members("core", 4).expect_err("refused").to_string();
    assert_eq!(what, "group core: members: 4 is out of range; write 2 to 3");
}

#[test]
fn the_youngest_members_are_parked() {
    let plan = good(&PARALLEL.replace("members = 2", "members = 3"));
    let parked = |plan: &Plan| plan.groups[0].parked_members();
    assert!(parked(&plan).is_empty());
    let one = plan.with_awake("core", 1).expect("it may be");
    assert_eq!((one.groups[0].members, one.groups[0].awake()), (3, 1));
    assert_eq!(parked(&one), 1..3);
    assert_eq!(one.routers, plan.routers, "all of them stay");
    assert_eq!(one.with_awake("core", 3), Ok(plan.clone()));
    let four = one.with_awake("core", 4).expect("one more is started");
    assert_eq!((four.groups[0].members, four.groups[0].parked), (4, 0));
    let fewer = one.with_members("core", 1).expect("it may be");
    assert_eq!((fewer.groups[0].members, fewer.groups[0].parked), (1, 0));
    let refused = |awake| plan.with_awake("core", awake).expect_err("refused").to_string();
    assert_eq!(refused(0), "group core: awake: 0 is out of range; write 1 or more");
    assert_eq!(refused(65), "group core: members: 65 is out of range; write 1 to 64");
    let unknown = plan.with_awake("edge", 2).expect_err("refused").to_string();
    assert_eq!(unknown, "there is no group \"edge\"; groups: core");
}

#[test]
fn a_file_that_is_applied_leaves_the_number_of_members_to_the_load_and_cables_as_they_are() {
    let text = PARALLEL.replace("members = 2\n", "scale = { min = 1, max = 4 }\n");
    let before = good(&text).with_awake("core", 4).and_then(|plan| plan.with_awake("core", 3));
    let before = before.and_then(|plan| plan.with("core", "wan.link", "down")).expect("it may be");
    let after = |text: &str| {
        let mut next = good(text);
        next.inherit(&before);
        next
    };
    let members = |plan: &Plan| (plan.groups[0].members, plan.groups[0].parked, plan.routers.len());
    let same = after(&text);
    assert_eq!(members(&same), (4, 1, 4));
    let is_pulled = |router: &Router| [router.nics[0].is_pulled(), router.nics[1].is_pulled()];
    assert!(same.routers.iter().chain([&same.groups[0].pattern]).all(|own| is_pulled(own) == [true, false]));
    assert_eq!(members(&after(&text.replace("max = 4", "max = 2"))), (2, 1, 2));
    assert_eq!(members(&after(&text.replace("min = 1", "min = 4"))), (4, 0, 4));
    assert_eq!(members(&after(&text.replace("max = 4", "max = 4, surplus = \"end\""))), (4, 0, 4));
    assert_eq!(members(&after(PARALLEL)), (2, 0, 2), "the file says how many");
}

#[test]
fn members_share_the_queues_that_a_nic_has() {
    let queues = |text: &str| {
        let group = good(&text.replace("tap:core-wan", "xdp:eth0")).groups.remove(0);
        group.pattern.nics.iter().map(|nic| group.wanted(nic).queues).collect::<Vec<_>>()
    };
    assert_eq!(queues(PARALLEL), [2, 8]);
    assert_eq!(queues(&PARALLEL.replace("members = 2", "members = 1")), [2, 4]);
    assert_eq!(queues(&PARALLEL.replace("members = 2", "scale = { max = 3 }")), [3, 16]);
    assert_eq!(queues(&multistage("")), [1, 1]);
}

#[test]
fn balancers_are_cut_and_come_again() {
    let plan = good(&multistage("balancers = 2\n"));
    let one = plan.with_balancers("core", 1).expect("it may be");
    assert_eq!(one.groups[0].balancers(), 1);
    assert_eq!(one.groups[0].balancer_threads(), ["core/lb0"]);
    assert_eq!(one.with_balancers("core", 2), Ok(plan.clone()));
    let refused = |plan: &Plan, number| plan.with_balancers("core", number).expect_err("refused").to_string();
    assert_eq!(refused(&plan, 0), "group core: balancers: 0 is out of range; write 1 to 16");
    assert_eq!(refused(&good(PARALLEL), 1), "there is no multistage group \"core\"");
}

#[test]
fn a_setting_of_a_group_is_one_of_its_members() {
    let plan = good(&format!("{PARALLEL}{BESIDE}attach = \"null\"\n"));
    let spun = plan.with("core", "spin", "70us").expect("it may be set");
    let is_set = |router: &&Router| router.spin == Spin::For(Duration::from_micros(70));
    assert_eq!(names(spun.routers.iter().filter(is_set)), ["core_0", "core_1"]);
    let third = spun.with_members("core", 3).expect("so many may be");
    assert!(third.routers.iter().find(|router| router.name == "core_2").is_some_and(|new| is_set(&new)));
    let refused = |key: &str, value| plan.with("core", key, value).expect_err("refused").to_string();
    assert_eq!(refused("limit", "1kpps"), "group core: limit: a group has none in this version");
    assert_eq!(
        refused("guarantee.rate", "1kpps"),
        "group core: guarantee.rate: a group has none in this version"
    );
    assert!(refused("spin", "soon").starts_with("router core: spin: \"soon\" is not a time"));
}

#[test]
fn cpus_are_dealt_out_over_members() {
    let pins = |plan: &Plan| -> Vec<String> {
        let pin = |router: &Router| router.pin.vcpu.as_ref().map(ToString::to_string).unwrap_or_default();
        plan.members("core").map(pin).collect()
    };
    let plan = good(&PARALLEL.replace("members = 2", "members = 3\npin = { vcpu = \"2,3\", vhost = \"4\" }"));
    assert_eq!(pins(&plan), ["2", "3", "2"]);
    assert!(
        plan.members("core").all(|router| router.pin.vhost.as_ref().is_some_and(|set| set.cpus() == [4]))
    );
    let wide = good(
        &PARALLEL
            .replace("members = 2", "members = 2\nvcpus = 2\nmemory = \"64M\"\npin = { vcpu = \"0-3\" }"),
    );
    assert_eq!(pins(&wide), ["0-1", "2-3"]);
    let moved = plan.with("core", "pin.vcpu", "5-7").expect("it may be set");
    assert_eq!(pins(&moved), ["5", "6", "7"]);
    let free = moved.with("core", "pin.vcpu", "any").expect("it may be set");
    assert_eq!(pins(&free), [""; 3]);
}

#[test]
fn each_member_has_a_process_of_its_own() {
    let mut plan = good(PARALLEL);
    assert_eq!(plan.choose_engines(&HostFacts::default()), None);
    assert_eq!(plan.groups[0].pattern.engine, Some(Engine::Kvm));
    assert_eq!(names(plan.isolated()), ["core_0", "core_1"]);
    let own = plan.of_isolated("core_1").expect("there is one");
    assert_eq!(
        attachments(&own.routers[0]),
        ["vhost-user-frontend:core_1.wan", "vhost-user-frontend:core_1.lan"]
    );
    assert!(own.groups.is_empty());
    let pinned = plan.with("core", "pin.vcpu", "0").expect("it may be set");
    assert_eq!(pinned.of_data_plane().groups[0].pattern, plan.of_data_plane().groups[0].pattern);
}

#[test]
fn a_plan_with_groups_is_told_to_others_whole() {
    for text in [PARALLEL.to_owned(), multistage("balancer = \"vm\"\ninterconnect = \"bridge:br0\"\n")] {
        let plan = good(&text);
        let told = serde_json::to_string(&plan).expect("a plan can be told");
        let heard: Plan = serde_json::from_str(&told).expect("and understood");
        assert_eq!(heard, Plan { places: heard.places.clone(), ..plan });
    }
}

#[test]
fn the_page_about_the_file_has_every_key_of_a_group() {
    let page = include_str!("../../../../docs/file.md");
    let row = |key: &crate::GroupKey| {
        format!("| `{}` | {} | {} | {} |\n", key.name, key.takes, key.default, key.does)
    };
    let table: String = GROUP.iter().map(row).collect();
    assert!(page.contains(&table), "docs/file.md is to have this table:\n{table}");
}

#[test]
fn what_a_file_does_not_say_of_a_group_is_as_the_table_has_it() {
    let shown = |group: &Group| -> Vec<String> {
        let value = |key: &crate::GroupKey| Some(format!("{} {}", key.name, key.value(group)?));
        GROUP.iter().filter_map(value).collect()
    };
    let plan = good(&multistage(""));
    assert_eq!(
        shown(&plan.groups[0]),
        [
            "kind multistage",
            "backends 3",
            "balancers 1",
            "balancer switch",
            "interconnect switch",
            "spread flow"
        ]
    );
    let plan = good(&PARALLEL.replace("members = 2", "scale = { max = 3 }"));
    assert_eq!(
        shown(&plan.groups[0]),
        [
            "kind parallel",
            "members 1",
            "spread flow",
            "scale.min 1",
            "scale.max 3",
            "scale.target 0.7",
            "scale.surplus park"
        ]
    );
}

proptest! {
    #[test]
    fn however_members_come_and_go_the_plan_is_as_if_the_file_said_so(
        numbers in prop::collection::vec(1..12_u32, 1..6), stages in any::<bool>(),
    ) {
        let text = |members: u32| {
            let group = if stages { multistage("") } else { PARALLEL.to_owned() };
            let group = group.replace("members = 2", &format!("members = {members}"));
            format!("{}{BESIDE}attach = \"null\"\n", group.replace("backends = 3", &format!("backends = {members}")))
        };
        let mut plan = good(&text(5));
        for members in numbers {
            plan = plan.with_members("core", members).expect("so many may be");
            prop_assert_eq!(&plan, &good(&text(members)));
        }
    }
}

#[test]
fn a_group_has_as_many_nics_as_can_be_probed() {
    let nic = |n: u32| format!("[[group.nic]]\nname = \"n{n}\"\nattach = \"tap:n{n}\"\n");
    let told = errors(&format!("{PARALLEL}{}", (0..7).map(nic).collect::<String>()));
    assert!(told.contains("NICs are too many for a group, which has at most 8"), "{told}");
}

#[test]
fn members_have_one_table_of_routes_unless_one_has_several_gateways() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = '192.0.2.9'\n[[group.route]]\nto = '11.0.0.0/8'\ntype = 'blackhole'\n";
    let mut plan = good(&(PARALLEL.to_owned() + route));
    assert_eq!(plan.choose_engines(&HostFacts::default()), None);
    let sharing: Vec<_> =
        plan.sharing().map(|(group, members)| (group.name.as_str(), members.len())).collect();
    assert_eq!(sharing, [("core", 2)]);
    assert!(
        plan.routers.iter().all(|router| !router.routes.is_empty() && !router.forwarding.refused.is_empty())
    );
    let plane = plan.of_data_plane();
    let own = plan.of_isolated("core_1").expect("there is one");
    for router in
        plane.routers.iter().chain(&own.routers).chain(plane.groups.iter().map(|group| &group.pattern))
    {
        assert!(
            router.routes.is_empty() && router.forwarding.refused.is_empty(),
            "the supervisor keeps them"
        );
    }
    assert_eq!(plane.of_data_plane(), plane, "the same when it is told again");
    assert_eq!(own.routers[0].neighbours, plan.groups[0].neighbours(), "neighbours for probes among them");
    let several = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.8', '192.0.2.9']\n";
    let mut plan = good(&(PARALLEL.to_owned() + several));
    assert_eq!(plan.choose_engines(&HostFacts::default()), None);
    assert_eq!(plan.sharing().count(), 0);
    assert_eq!(plan.of_data_plane().routers[0].routes, plan.routers[0].routes);
    assert_eq!(plan.of_isolated("core_1").expect("there is one").routers[0].routes, plan.routers[1].routes);
}
