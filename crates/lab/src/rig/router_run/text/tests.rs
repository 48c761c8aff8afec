use super::super::threaded;
use super::*;
use crate::experiment::Options;

#[test]
fn a_group_has_the_interfaces_of_a_router() {
    let (routers, options) = ([String::new()], Options::default());
    let file = File { members: Some(3), ..File::new(&options, Link::Macvtap, &routers) };
    let text = text(&file, "l3fffff-12");
    assert!(text.contains("name = \"l3fffff12a\"") && !text.contains("[[router"), "{text}");
    let plan = config::parse(&text, "lab.toml").unwrap();
    assert_eq!((plan.groups.len(), plan.routers.len()), (1, 3));
    assert_eq!(plan.groups[0].pattern.nics[0].attach.to_string(), "macvtap:near0");
}

#[test]
fn each_router_has_a_name_interfaces_and_lines_of_its_own() {
    let routers = [String::new(), "pin = { vcpu = \"1\" }\n".to_owned()];
    let options = Options { vcpus: 2, queues: 2, ..Options::default() };
    let file = File { queue_len: Some("35"), ..File::new(&options, Link::Macvtap, &routers) };
    let text = text(&file, "l7");
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
    text(&File { by, queue_len: Some("35"), ..File::new(&options, link, routers) }, "l7")
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
    assert_eq!(text(&file, "l7"), "");
}

#[test]
fn the_load_waits_in_a_queue_before_a_pair() {
    let (options, routers) = (Options::default(), [String::new()]);
    for engine in [Engine::Kernel, Engine::Lxc] {
        let by = Forwarder::Command(engine);
        let file = File { by, qdisc: Some("pfifo"), ..File::new(&options, Link::Veth, &routers) };
        let plan = config::parse(&text(&file, "l7"), "lab.toml").unwrap();
        assert!(plan.nics().all(|(_, nic)| nic.attach.detail() == " (pfifo)"));
    }
}
