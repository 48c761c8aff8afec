//! Routers in processes of their own.

use super::bad::{GOOD, errors};
use crate::{Attach, Engine, HostFacts, Plan, parse};

fn isolated(lines: &str) -> String {
    GOOD.replacen("engine = \"kvm\"", lines, 1)
}

#[test]
fn a_router_gets_a_process_of_its_own() {
    let plan = parse(&isolated("engine = \"kvm\"\nisolate = \"process\""), "f.toml").expect("a good file");
    let name = plan.routers[0].name.clone();
    assert!(plan.routers[0].is_isolated());
    assert_eq!(plan.without_isolated().routers.len(), plan.routers.len() - 1);
    let own = plan.of_isolated(&name).expect("there is one");
    assert_eq!(own.routers.len(), 1);
    assert_eq!((own.routers[0].nics.len(), own.switches.len()), (plan.routers[0].nics.len(), 0));
    for (nic, here) in own.routers[0].nics.iter().zip(&plan.routers[0].nics) {
        let path = format!("{name}.{}", nic.name);
        assert_eq!(nic.attach, Attach::handed(&path));
        assert_eq!((nic.mac, &nic.addresses, nic.mtu), (here.mac, &here.addresses, here.mtu));
    }
    assert_eq!(plan.of_isolated("nobody"), None);
}

#[test]
fn without_kvm_it_is_a_process_anyway() {
    let mut plan = parse(&isolated("isolate = \"process\""), "f.toml").expect("a good file");
    let no_kvm = Some("/dev/kvm is not there".to_owned());
    let _ = plan.choose_engines(&HostFacts { no_kvm, ..HostFacts::default() });
    assert_eq!(plan.routers[0].engine, Some(Engine::Process));
    assert!(!plan.routers[0].is_isolated());
    assert_eq!(plan.isolated().count(), 0);
}

#[test]
fn what_does_not_go_with_it_is_one_line() {
    for (lines, wrong) in [
        ("isolate = \"vm\"", "f.toml:6: router.isolate: \"vm\" is no way to isolate a router; ways: process"),
        (
            "isolate = \"process\"\nengine = \"process\"",
            "f.toml:6: router.isolate: engine = \"process\" gives the router a process of its own already; remove one \
             of the two",
        ),
        (
            "engine = \"linux\"\nkernel = \"bzImage\"\nisolate = \"process\"",
            "f.toml:8: router.isolate: a Linux guest is not in this version; remove it, or write engine = \"kvm\"",
        ),
    ] {
        let said = errors(&isolated(lines));
        assert!(said.lines().any(|line| line == wrong), "{lines}: {said}");
    }
}

#[test]
fn what_cannot_be_handed_over_is_one_line() {
    let file = isolated("engine = \"kvm\"\nisolate = \"process\"");
    for (old, new, wrong) in [
        (
            "vhost = \"shared\"",
            "vhost = \"vmm\"",
            "vhost = \"vmm\" needs the NICs in the router's own process; remove one of the two",
        ),
        (
            "\"tap:tap0\"",
            "\"vhost-user-frontend:a.sock\"",
            "isolate = \"process\" hands the rings to this program, so no other one can have them; remove isolate",
        ),
        (
            "\"virtio-net\"",
            "\"e1000\"",
            "isolate = \"process\" attaches NICs by vhost-user, which an e1000 cannot; write model = \"virtio-net\"",
        ),
        (
            "\"queued\"",
            "\"direct\"",
            "isolate = \"process\" keeps the rings out of other routers' reach; write deliver = \"queued\"",
        ),
    ] {
        let said = errors(&file.replacen(old, new, 1));
        assert!(said.contains(wrong), "{said}");
    }
}

/// Two routers in a file that uses all syntactic variants of TOML.
const TWO: &str = r#"
name = "pair"
telemetry = { prometheus = "127.0.0.1:9477" }   # of the owner
[switch]
lan.ageing = 0x20
"wan" = { }
[[router]]
name = 'edge'
isolate = "process"
vcpus = 0b10
sched = { policy = "shares", weight = 2.5, quota = 0.50 }
nic = [{ name = "lan", attach = "switch:lan", address = ["192.0.2.1/24", "192.0.3.1/24"], queues = 2 },
       { name = 'out', attach = "pcap:/tmp/edge out.pcap", mac = "02:00:00:00:00:0e" }]
[[router.route]]
to = """203.0.113.0/24"""
via = "192.0.2.9"
[[router]]   # the competitor's
name = "rival"
[[router.nic]]
name = "lan"
attach = "switch:lan"
address = "192.0.2.77/24"
[[router.nic]]
name = "secret"
attach = "tap:rival0"
"#;

#[test]
fn the_process_of_a_router_is_told_of_that_one_and_of_nothing_else() {
    let mut plan = parse(TWO, "f.toml").expect("a good file");
    let _ = plan.choose_engines(&HostFacts::default());
    let told = |plan: &Plan| serde_json::to_string(plan).expect("it can be written");
    let part = plan.of_isolated("edge").expect("there is one");
    for word in ["rival", "192.0.2.77", "secret", "wan", "9477", "Shares"] {
        let whole = told(&plan);
        assert!(whole.contains(word) && !told(&part).contains(word), "{word}: {}", told(&part));
    }
    assert_eq!(plan.of_isolated("rival"), None, "it has no process of its own");
    assert_eq!(part.routers[0].nics[0].addresses, plan.routers[0].nics[0].addresses);
}

#[test]
fn a_plan_that_is_told_is_the_same_plan_but_for_its_lines() {
    let examples = std::fs::read_dir("../../examples").expect("examples");
    let files = examples.map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let mut texts: Vec<String> =
        files.map(|path| std::fs::read_to_string(path).expect("an example")).collect();
    texts.extend([TWO, GOOD].map(str::to_owned));
    assert!(texts.len() > 20, "{}", texts.len());
    for text in texts {
        let plan = parse(&text, "f.toml").expect("a good file");
        let told: Plan =
            serde_json::from_str(&serde_json::to_string(&plan).expect("written")).expect("understood");
        assert_eq!(told, Plan { places: told.places.clone(), ..plan });
    }
}

#[test]
fn what_was_stopped_and_unplugged_stays_so_where_a_file_says_nothing_of_that() {
    let text = |state: &str, link: &str| {
        format!(
            "[[router]]\nname = \"edge\"\n{state}[[router.nic]]\nname = \"wan\"\nattach = \"null\"\n{link}\
             [[router.nic]]\nname = \"lan\"\nattach = \"null\"\n"
        )
    };
    let plan = |state: &str, link: &str| parse(&text(state, link), "f.toml").expect("a good file");
    let before =
        plan("", "").with("edge", "state", "stopped").and_then(|plan| plan.with("edge", "wan.link", "down"));
    let before = before.expect("good settings");
    for (state, link, is_stopped, is_pulled) in [
        ("", "", true, true),
        ("state = \"running\"\n", "", false, true),
        ("", "link = \"up\"\n", true, false),
        ("state = \"stopped\"\n", "link = \"down\"\n", true, true),
    ] {
        let mut next = plan(state, link);
        next.inherit(&before);
        let router = &next.routers[0];
        assert_eq!(
            (router.is_stopped(), router.nics[0].is_pulled()),
            (is_stopped, is_pulled),
            "{state}{link}"
        );
        assert!(!router.nics[1].is_pulled());
    }
    let other = text("", "").replace("edge", "core");
    let mut other = parse(&other, "f.toml").expect("a good file");
    other.inherit(&before);
    assert!(!other.routers[0].is_stopped());
}
