//! Routers in processes of their own.

use super::bad::{GOOD, errors};
use crate::{Attach, Engine, HostFacts, parse, parse_part, part_of};

fn isolated(lines: &str) -> String {
    GOOD.replacen("engine = \"kvm\"", lines, 1)
}

#[test]
fn a_router_gets_a_process_of_its_own() {
    let plan = parse(&isolated("engine = \"kvm\"\nisolate = \"process\""), "f.toml").expect("a good file");
    let name = plan.routers[0].name.clone();
    assert!(plan.routers[0].is_apart());
    assert_eq!(plan.without_apart().routers.len(), plan.routers.len() - 1);
    let own = plan.of_apart(&name).expect("there is one");
    assert_eq!(own.routers.len(), 1);
    assert_eq!((own.routers[0].nics.len(), own.switches.len()), (plan.routers[0].nics.len(), 0));
    for (nic, here) in own.routers[0].nics.iter().zip(&plan.routers[0].nics) {
        let path = format!("{name}.{}", nic.name);
        assert_eq!(nic.attach, Attach::handed(&path));
        assert_eq!((nic.mac, &nic.addresses, nic.mtu), (here.mac, &here.addresses, here.mtu));
    }
    assert_eq!(plan.of_apart("nobody"), None);
}

#[test]
fn without_kvm_it_is_a_process_anyway() {
    let mut plan = parse(&isolated("isolate = \"process\""), "f.toml").expect("a good file");
    let no_kvm = Some("/dev/kvm is not there".to_owned());
    let _ = plan.choose_engines(&HostFacts { no_kvm, ..HostFacts::default() });
    assert_eq!(plan.routers[0].engine, Some(Engine::Process));
    assert!(!plan.routers[0].is_apart());
    assert_eq!(plan.apart().count(), 0);
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

/// Two routers of a file that is written in as many ways as TOML has, and nothing of the one in the other's part.
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
fn a_part_of_a_file_is_one_router_as_it_was_and_nothing_of_the_others() {
    let part = part_of(TWO, "edge").expect("there is one");
    for word in ["rival", "192.0.2.77", "secret", "wan", "competitor", "9477", "ageing"] {
        assert!(TWO.contains(word) && !part.contains(word), "{word}: {part}");
    }
    assert_eq!(part_of(TWO, "nobody"), None);
    assert_eq!(part_of("[[router", "edge"), None);
    let files =
        std::fs::read_dir("../../examples").expect("examples").map(|entry| entry.expect("a file").path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    let examples: Vec<String> =
        files.map(|path| std::fs::read_to_string(path).expect("an example")).collect();
    let mut routers = 0;
    for file in examples.iter().map(String::as_str).chain([TWO, GOOD]) {
        let whole = parse(file, "f.toml").expect("a good file");
        for router in &whole.routers {
            let part = part_of(file, &router.name).expect("there is one");
            let part = parse_part(&part, "f.toml").unwrap_or_else(|error| panic!("{part}: {error}"));
            let [own] = part.routers.as_slice() else { panic!("{part:?}") };
            // The number of a switch is another one in another file; its name is the same.
            let (mut own, mut here) = (own.clone(), router.clone());
            for (own, here) in own.nics.iter_mut().zip(&mut here.nics) {
                assert_eq!(own.attach, here.attach);
                (own.attach, here.attach) = (Attach::null(), Attach::null());
            }
            assert_eq!(own, here);
            assert_eq!((&part.name, part.named), (&whole.name, whole.named));
            routers += 1;
        }
    }
    assert!(routers > 6, "{routers}");
}
