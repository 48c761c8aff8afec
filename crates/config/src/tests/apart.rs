//! Routers in processes of their own.

use super::bad::{GOOD, errors};
use crate::{Attach, Engine, HostFacts, SocketSide, parse};

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
        let path = format!("{name}.{}", nic.name).into();
        assert_eq!(nic.attach, Attach::VhostUserFrontend { path, side: SocketSide::Connect });
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
