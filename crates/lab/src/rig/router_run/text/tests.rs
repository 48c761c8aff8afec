use super::super::{Balancer, GroupShape, Interconnect, Stages, threaded};
use super::*;
use crate::experiment::Options;

/// Folder of the files that routers write.
fn place() -> &'static Path {
    Path::new("/tmp/room")
}

#[test]
fn a_group_has_the_interfaces_of_a_router() {
    let (routers, options) = ([String::new()], Options::default());
    let file = File { group: Some(GroupShape::Parallel(3)), ..File::new(&options, Link::Macvtap, &routers) };
    let text = text(&file, &id(&file, "l3fffff-12"), place());
    assert!(text.contains("name = \"l2hwcfca\"") && !text.contains("[[router"), "{text}");
    let plan = config::parse(&text, "lab.toml").unwrap();
    assert_eq!((plan.groups.len(), plan.routers.len()), (1, 3));
    assert_eq!(plan.groups[0].pattern.nics[0].attach.to_string(), "macvtap:near0");
}

#[test]
fn a_multistage_group_says_what_its_stages_are_joined_by() {
    let (routers, options) = ([String::new()], Options::default());
    for (balancer, interconnect) in [
        (Balancer::Switch, Interconnect::Switch),
        (Balancer::Vm, Interconnect::Switch),
        (Balancer::Vm, Interconnect::Bridge),
        (Balancer::Vm, Interconnect::Ovs),
    ] {
        let group = Some(GroupShape::Multistage(Stages::pair(balancer, interconnect)));
        let file = File { group, ..File::new(&options, Link::Macvtap, &routers) };
        let plan = config::parse(&text(&file, &id(&file, "l3fffff-12"), place()), "lab.toml").unwrap();
        let config::GroupKind::Multistage(stages) = &plan.groups[0].kind else { panic!("{:?}", plan.groups) };
        assert_eq!((plan.groups[0].members, stages.balancers), (1, 1));
        assert_eq!(stages.balancer == config::Balancer::Vm, balancer == Balancer::Vm);
        let is_joined_by_the_run = stages.interconnect == config::Interconnect::Switch;
        assert_eq!(is_joined_by_the_run, interconnect == Interconnect::Switch);
    }
}

#[test]
fn names_of_groups_differ_and_leave_room_for_those_of_balancers() {
    let (options, routers) = (Options::default(), [String::new()]);
    let file = File { group: Some(GroupShape::Parallel(2)), ..File::new(&options, Link::Tap, &routers) };
    let names: Vec<String> = ["l1-0", "l1-1", "l1-35", "l2-0", "l3fffff-0", "l3fffff-35"]
        .map(|folder| name(&id(&file, folder), 0))
        .into();
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert!(names.iter().all(|name| name.len() <= 8 && name.starts_with('l')), "{names:?}");
    // Routers that are no groups keep the whole name.
    let plain = File::new(&options, Link::Tap, &routers);
    assert_eq!(id(&plain, "l3fffff-12"), "l3fffff-12");
}

#[test]
fn each_router_has_a_name_interfaces_and_lines_of_its_own() {
    let routers = [String::new(), "pin = { vcpu = \"1\" }\n".to_owned()];
    let options = Options { vcpus: 2, queues: 2, ..Options::default() };
    let file = File { queue_len: Some("35"), ..File::new(&options, Link::Macvtap, &routers) };
    let text = text(&file, "l7", place());
    for part in ["\"l7a\"", "\"l7b\"", "macvtap:near0", "macvtap:near-1-0", "macvtap:far-1-0", "vcpus = 2"] {
        assert_eq!(text.matches(part).count(), if part == "vcpus = 2" { 2 } else { 1 }, "{part}: {text}");
    }
    assert_eq!(text.matches("queue_len = 35").count(), 4);
    let first = text.find("l7b").unwrap();
    assert_eq!(text.find("pin =").map(|at| at > first), Some(true), "{text}");
    let macs: std::collections::BTreeSet<&str> =
        text.lines().filter(|line| line.starts_with("mac = ") && !line.contains(":00:09:0")).collect();
    assert_eq!(macs.len(), 4, "{text}");
    let tables: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(tables["router"].as_array().map(Vec::len), Some(2));
}

/// Formats the file of routers with this engine, link, and lines for each router.
fn of(engine: Engine, link: Link, routers: &[String]) -> String {
    let options = Options { vcpus: 2, queues: 2, ..Options::default() };
    let by = Forwarder::Command(engine);
    text(&File { by, queue_len: Some("35"), ..File::new(&options, link, routers) }, "l7", place())
}

#[test]
fn a_router_that_is_a_namespace_has_no_keys_of_a_machine() {
    let lines = [String::new(), "threaded = true\n".to_owned(), threaded(0)];
    for engine in [Engine::Kernel, Engine::Lxc] {
        for link in [Link::Veth, Link::Tap] {
            let text = of(engine, link, &lines);
            let plan = config::parse(&text, "lab.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
            let nics: Vec<&str> = plan.nics().map(|(_, nic)| nic.name.as_str()).collect();
            assert_eq!(nics, ["near", "far", "near-1-", "far-1-", "near-2-", "far-2-"]);
        }
        let plan = config::parse(&of(engine, Link::Macvlan, &lines[..1]), "lab.toml").unwrap();
        assert_eq!(plan.routers[0].nics[0].attach.to_string(), "macvlan:near0");
    }
}

#[test]
fn a_linux_guest_sets_itself_up_by_the_words_of_its_command_line() {
    let (kernel, initrd) = (Some("/srv/a kernel".into()), Some("/srv/initrd.img".into()));
    let options = Options { kernel, initrd, ..Options::default() };
    let routers = [String::new(), "pin = { vcpu = \"1\", vhost = \"1\" }\n".to_owned()];
    let by = Forwarder::Command(Engine::Linux);
    let text = text(&File { by, ..File::new(&options, Link::Tap, &routers) }, "l7", place());
    let plan = config::parse(&text, "lab.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let guests: Vec<_> = plan.routers.iter().filter_map(|router| router.linux.as_ref()).collect();
    assert_eq!(guests.len(), 2);
    assert_eq!(guests[0].kernel.to_str(), Some("/srv/a kernel"));
    assert_eq!(guests[1].console, Some(place().join("l7b.console")));
    let script = guests[0].append.rsplit(' ').next().and_then(|last| last.strip_prefix("run="));
    let script = script.expect("the last word").replace('+', " ");
    for line in [
        "ip address add 198.18.0.1/24 dev eth0",
        "ip link set eth1 up",
        "ip neigh add 198.19.0.2 lladdr 02:00:00:00:09:09 dev eth1||arp -s 198.19.0.2 02:00:00:00:09:09",
        "ip route add default via 198.19.0.2",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
    ] {
        assert!(script.split(';').any(|word| word == line), "{line} is not in {script}");
    }
}

#[test]
fn a_hundred_routers_have_names_of_their_own() {
    let text = of(Engine::Kernel, Link::Veth, &vec![String::new(); 101]);
    let plan = config::parse(&text, "lab.toml").unwrap();
    assert_eq!(plan.routers.len(), 101);
    assert!(plan.nics().all(|(_, nic)| nic.name.len() <= 15 && nic.attach.name().len() <= 15));
}

#[test]
fn routers_that_are_set_up_by_hand_have_no_file() {
    let (options, routers) = (Options::default(), [String::new()]);
    let file = File { by: Forwarder::Hand, ..File::new(&options, Link::Veth, &routers) };
    assert_eq!(text(&file, "l7", place()), "");
}

#[test]
fn the_load_waits_in_a_queue_before_a_pair() {
    let (options, routers) = (Options::default(), [String::new()]);
    for engine in [Engine::Kernel, Engine::Lxc] {
        let by = Forwarder::Command(engine);
        let file = File { by, qdisc: Some("pfifo"), ..File::new(&options, Link::Veth, &routers) };
        let plan = config::parse(&text(&file, "l7", place()), "lab.toml").unwrap();
        assert!(plan.nics().all(|(_, nic)| nic.attach.detail() == " (pfifo)"));
    }
}
