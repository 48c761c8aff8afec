//! Control planes.

use std::path::Path;

use super::bad::{GOOD, errors};
use crate::{Control, Plan, keys, parse};

/// The valid file, whose first router has these lines, and this table of a control plane at line 14.
fn file(lines: &str, table: &str) -> String {
    let text = GOOD.replacen("engine = \"kvm\"", lines, 1);
    text.replacen(
        "\n[[router.nic]]\nname = \"wan\"",
        &format!("\n{table}\n[[router.nic]]\nname = \"wan\""),
        1,
    )
}

fn good(table: &str) -> Plan {
    parse(&file("engine = \"kvm\"", table), "f.toml").expect("a good file")
}

#[test]
fn a_router_has_one_if_its_file_says_so() {
    assert_eq!(good("").routers[0].control, None);
    let alone = good("[router.control]");
    assert_eq!(alone.routers[0].control, Some(Control { frr: None }));
    let plan = good("[router.control]\nfrr = \"edge.conf\"");
    let (router, control) = plan.controlled().next().expect("a control plane");
    assert_eq!((router.name.as_str(), control.frr.as_deref()), ("edge", Some(Path::new("edge.conf"))));
    assert_eq!(plan.controlled().count(), 1);
}

#[test]
fn it_is_shown_as_the_file_has_it() {
    let shown = |table: &str| {
        let plan = good(table);
        let entry = keys::ROUTER.iter().find(|entry| entry.name == "control").expect("a key");
        entry.value(&plan.routers[0]).map(|value| value.to_string())
    };
    assert_eq!(shown(""), None);
    assert_eq!(shown("[router.control]").as_deref(), Some("{}"));
    assert_eq!(shown("[router.control]\nfrr = \"edge.conf\"").as_deref(), Some("{ frr = \"edge.conf\" }"));
}

#[test]
fn a_data_plane_does_not_learn_what_speaks_there() {
    let plan = good("[router.control]\nfrr = \"edge.conf\"").of_data_plane();
    assert_eq!(plan.routers[0].control, Some(Control { frr: None }));
}

#[test]
fn what_it_cannot_be_is_one_line() {
    for (lines, table, wrong) in [
        (
            "engine = \"kvm\"",
            "[router.control]\nfrr = \"\"",
            "router.control.frr: \"\" names no file; write e.g. \"edge.conf\"",
        ),
        (
            "engine = \"kvm\"",
            "[router.control]\nfrrr = \"edge.conf\"",
            "router.control.frrr: unknown key; did you mean \"frr\"?",
        ),
        (
            "engine = \"kvm\"\nrole = \"echo\"",
            "[router.control]",
            "router.control: its firmware has no routes; write role = \"router\", or remove [router.control]",
        ),
    ] {
        let said = errors(&file(lines, table));
        assert!(said.lines().any(|line| line.ends_with(wrong)), "{lines}: {said}");
    }
}

#[test]
fn a_linux_guest_has_its_own() {
    let text = "[[router]]\nname = \"edge\"\nengine = \"linux\"\n[router.control]\n\
                [[router.nic]]\nname = \"wan\"\nattach = \"tap:rr-wan\"\n";
    let said = errors(text);
    assert!(said.contains("f.toml:4: router.control: a Linux guest has its own"), "{said}");
}

#[test]
fn kernel_routers_have_it_where_they_forward() {
    for engine in ["kernel", "lxc"] {
        let text = format!(
            "[[router]]\nname = \"edge\"\nengine = \"{engine}\"\n[router.control]\nfrr = \"edge.conf\"\n\
             [[router.nic]]\nname = \"wan\"\nattach = \"veth:rr-wan\"\n"
        );
        let plan = parse(&text, "f.toml").expect("a good file");
        assert_eq!(plan.controlled().count(), 1, "{engine}");
        assert_eq!(plan.shadowed().count(), 0, "{engine}: it needs no shadows");
    }
    assert_eq!(good("[router.control]").shadowed().count(), 1);
}

#[test]
fn a_group_has_one_for_all_its_members() {
    let text = "[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nengine = \"kvm\"\n[group.control]\nfrr = \"core.conf\"\n\
                [[group.nic]]\nname = \"wan\"\nattach = \"tap:rr-wan\"\naddress = \"192.0.2.1/24\"\nqueue_len = 1000\n";
    let plan = parse(text, "f.toml").expect("a good file");
    let names: Vec<&str> = plan.controlled().map(|(router, _)| router.name.as_str()).collect();
    assert_eq!((names, plan.shadowed().count()), (vec!["core"], 1));
    let learners = |plan: &Plan| plan.learners("core").map(|router| router.name.clone()).collect::<Vec<_>>();
    assert_eq!(learners(&plan), ["core_0", "core_1"]);
    assert_eq!(plan.routers[1].speaker(), "core");
    assert_eq!(plan.learners("core_0").count(), 0, "no member speaks for itself");
    let process = plan.of_isolated("core_1").expect("it has a process of its own");
    assert_eq!(learners(&process), ["core_1"]);
    let other = plan.of_data_plane();
    assert_eq!(
        other.groups[0].pattern.control,
        Some(Control { frr: None }),
        "what speaks does not concern it"
    );
    let more = plan.with_members("core", 3).expect("a third member");
    assert_eq!(learners(&more), ["core_0", "core_1", "core_2"]);
}

#[test]
fn a_group_with_one_has_vlans_with_one_tag() {
    let text = |more: &str| {
        format!(
            "[[group]]\nname = \"core\"\nkind = \"parallel\"\nmembers = 2\nengine = \"process\"\ncontrol = {{}}\n\
             [[group.nic]]\nname = \"wan\"\nattach = \"tap:rr-wan\"\naddress = \"192.0.2.1/24\"\n\
             [[group.interface]]\nname = \"guests\"\nnic = \"wan\"\nvlan = 7\n{more}"
        )
    };
    let plan = parse(&text("address = \"10.0.7.1/24\"\n"), "f.toml").expect("a good file");
    assert!(plan.not_yet().is_empty());
    let speaker = plan.shadowed().next().expect("a control plane");
    assert_eq!(speaker.link_name(1), Some("guests"));
    assert_eq!((plan.sharing().count(), plan.learners("core").count()), (1, 2), "they have one table");
    let said = errors(&text("outer = 8\n"));
    assert!(
        said.contains("group.interface.outer: a control plane has no interfaces with two tags"),
        "{said}"
    );
}

#[test]
fn nics_that_do_not_go_with_a_control_plane_are_refused() {
    for (from, to, wrong) in [
        ("\"queued\"", "\"direct\"", "a control plane takes its frames before they reach the ring"),
        ("\"tap:tap0\"", "\"vhost-user-frontend:a.sock\"", "hands the rings to another program"),
        ("name = \"lan\"", "name = \"all\"", "the kernel reserves the name \"all\"; choose another"),
        ("name = \"lan\"", "name = \"lan\"\nvrf = \"red\"", "nic.vrf: a control plane has one route table"),
    ] {
        let text = file("engine = \"kvm\"", "[router.control]").replacen(from, to, 1);
        let said = errors(&text);
        assert!(said.contains(wrong), "{to}: {said}");
    }
}

#[test]
fn a_vlan_in_a_vrf_does_not_go_with_a_control_plane() {
    let vlan = "[[router.interface]]\nname = \"guests\"\nnic = \"lan\"\nvlan = 7\nvrf = \"red\"\n";
    let said = errors(&format!("{}{vlan}", file("engine = \"kvm\"", "[router.control]")));
    assert!(said.contains("router.interface.vrf: a control plane has one route table"), "{said}");
    let alone = format!("{GOOD}{vlan}");
    assert!(parse(&alone, "f.toml").is_ok(), "without one it may have its own");
}
