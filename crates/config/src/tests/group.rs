//! Groups: what a file may say of them, and what becomes of that in a plan.

mod changes;
mod faults;
mod multistage;
mod remote;

use std::net::{IpAddr, Ipv4Addr};

use super::bad::errors;
use super::keys::rows;
use crate::keys::Entry;
use crate::{
    Engine, FlowHash, GROUP, Group, GroupKind, HostFacts, Mac, Plan, Router, Scale, Spread, Surplus, parse,
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
    assert_eq!((group.awake(), group.spare, group.members), (2, 1, 3));
    assert_eq!((group.most(), group.queues()), (6, 32));
    let least = good(&PARALLEL.replace("members = 2", "scale = { min = 3, max = 64 }"));
    assert_eq!((least.groups[0].awake(), least.groups[0].queues()), (3, 64));
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
fn probes_come_from_behind_each_nic_with_a_strict_filter() {
    let filtered = |filter: &str| {
        let filter = format!("\"198.51.100.1/24\"\nrpf = \"{filter}\"");
        good(&PARALLEL.replace("\"198.51.100.1/24\"", &filter)).routers.swap_remove(0)
    };
    let strict = filtered("strict");
    let sources: Vec<(String, usize)> =
        strict.routes[4..].iter().map(|route| (route.to.to_string(), route.nic)).collect();
    assert_eq!(sources, [("192.0.0.65/32".to_owned(), 1)]);
    let behind = strict.neighbours.last().expect("there are some");
    let address = Ipv4Addr::new(192, 0, 0, 65);
    assert_eq!((behind.address, behind.nic, behind.mac), (address, 1, Mac(::group::probe::BACK.0)));
    assert_eq!((strict.neighbours.len(), filtered("loose").neighbours.len()), (4, 3));
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
    let table = rows(GROUP);
    assert!(page.contains(&table), "docs/file.md is to have this table:\n{table}");
}

#[test]
fn what_a_file_does_not_say_of_a_group_is_as_the_table_has_it() {
    let shown = |group: &Group| -> Vec<String> {
        let value = |key: &Entry<Group>| Some(format!("{} {}", key.name, key.value(group)?));
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
            "spare 1",
            "spread flow",
            "scale.min 1",
            "scale.max 3",
            "scale.target 0.7",
            "scale.surplus park"
        ]
    );
}

#[test]
fn members_have_one_table_of_routes_which_the_supervisor_keeps_unless_there_are_vrfs() {
    let route = "[[group.route]]\nto = '10.0.0.0/8'\nvia = '192.0.2.9'\n\
                 [[group.route]]\nto = '11.0.0.0/8'\ntype = 'blackhole'\n\
                 [[group.route]]\nto = '2001:db8:9::/48'\nvia = '2001:db8::9'\n";
    let six = PARALLEL.replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"2001:db8::1/64\"]");
    // What a control plane finds is in the same table.
    let taught = PARALLEL.replace("spread = \"flow\"", "control = {}");
    let refused = "[[group.route]]\nto = '2001:db8:9::/48'\ntype = 'blackhole'\n";
    let shares = |file: &str| good(&(file.to_owned() + refused)).sharing().count();
    assert_eq!((shares(&taught), shares(PARALLEL)), (1, 0), "there is a table for IPv6 in any case");
    let vlan = PARALLEL.to_owned() + "[[group.interface]]\nname = 'guests'\nnic = 'lan'\nvlan = 7\n";
    let with_six = format!("{vlan}address = '2001:db8:7::1/64'\n");
    assert_eq!((shares(&vlan), shares(&with_six)), (0, 1), "IPv6 in a VLAN is enough");
    assert_eq!(good(&vlan).sharing().count(), 1);
    let several = "[[group.route]]\nto = '2001:db8:9::/48'\nvia = ['2001:db8::8', '2001:db8::9']\n";
    assert_eq!(good(&(six.clone() + several)).sharing().count(), 1);
    let mut plan = good(&(six + route));
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
        let more = &router.forwarding;
        assert!(
            router.routes.is_empty() && more.routes6.is_empty() && more.refused.is_empty(),
            "the supervisor keeps them"
        );
    }
    assert_eq!(plane.of_data_plane(), plane, "the same when it is told again");
    assert_eq!(own.routers[0].neighbours, plan.groups[0].neighbours(), "neighbours for probes among them");
    let mut plan = good(&PARALLEL.replace("\"198.51.100.1/24\"", "\"198.51.100.1/24\"\nvrf = \"red\""));
    assert_eq!(plan.choose_engines(&HostFacts::default()), None);
    assert_eq!(plan.sharing().count(), 0);
    assert_eq!(plan.of_data_plane().routers[0].routes, plan.routers[0].routes);
    let own = plan.of_isolated("core_1").expect("there is one");
    assert_eq!(own.routers[0].routes, plan.routers[1].routes);
}

#[test]
fn of_routes_by_several_gateways_the_data_plane_knows_those_of_the_group() {
    let several = "[[group.route]]\nto = '10.0.0.0/8'\nvia = ['192.0.2.8', '192.0.2.9']\n\
                   [[group.route]]\nto = '11.0.0.0/8'\nvia = ['192.0.2.9', '198.51.100.9']\n";
    let several_six = "[[group.route]]\nto = '2001:db8:9::/48'\nvia = ['2001:db8::8', '2001:db8::9']\n";
    let six = PARALLEL.replace("\"192.0.2.1/24\"", "[\"192.0.2.1/24\", \"2001:db8::1/64\"]");
    let mut plan = good(&(six + several + several_six));
    assert_eq!(plan.choose_engines(&HostFacts::default()), None);
    assert_eq!((plan.sharing().count(), plan.routers[1].forwarding.spread.len()), (1, 3));
    let plane = plan.of_data_plane();
    let own = plan.of_isolated("core_1").expect("there is one");
    assert!(plane.routers.iter().chain(&own.routers).all(|router| router.forwarding.spread.is_empty()));
    assert_eq!(plane.of_data_plane(), plane, "the same when it is told again");
    let due = [
        (0_usize, "192.0.2.8"),
        (0, "192.0.2.9"),
        (0, "2001:db8::8"),
        (0, "2001:db8::9"),
        (1, "198.51.100.9"),
    ];
    let due = due.map(|(nic, ip)| (nic, ip.parse::<IpAddr>().expect("an address")));
    assert_eq!(plane.groups[0].common_gateways().into_iter().collect::<Vec<_>>(), due);
    let taught = good(&(PARALLEL.replace("spread = \"flow\"", "control = {}") + several));
    assert_eq!(taught.groups[0].common_gateways().len(), 3, "with a control plane as well");
}
