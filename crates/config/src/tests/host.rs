//! What a host can refuse.

use crate::{HostFacts, InterfaceKind, parse};

const TEXT: &str = "[[router]]\nname='a'\npin = { vcpu = '1-3' }\nmemory = '1G'\n\
    [[router.nic]]\nname='x'\nattach='tap:eth0'\n";

#[test]
fn a_host_that_has_everything() {
    let plan = parse(TEXT, "f.toml").expect("a good file");
    let host = HostFacts { cpus: (0..8).collect(), ..HostFacts::default() };
    assert!(plan.check_host(&host).is_empty());
}

#[test]
fn a_host_that_lacks_everything() {
    let plan = parse(TEXT, "f.toml").expect("a good file");
    let host = HostFacts {
        cpus: [0, 1].into(),
        memory_available: Some(100 << 20),
        interfaces: [("eth0".to_owned(), InterfaceKind::Other)].into(),
        no_kvm: None,
        no_linux: None,
    };
    assert_eq!(
        plan.check_host(&host).to_string(),
        "f.toml:3: router.pin.vcpu: CPU 2 cannot be used on this host; CPUs: 0-1\n\
         f.toml:4: router.memory: the routers so far want 1024 MiB and this host has 100 MiB left; give them less\n\
         f.toml:7: router.nic.attach: interface \"eth0\" exists and is not a TAP; choose another name"
    );
}

#[test]
fn a_tap_that_exists_is_used() {
    let plan = parse(TEXT, "f.toml").expect("a good file");
    let host = HostFacts {
        cpus: (0..8).collect(),
        interfaces: [("eth0".to_owned(), InterfaceKind::Tap)].into(),
        ..HostFacts::default()
    };
    assert!(plan.check_host(&host).is_empty());
}

#[test]
fn what_is_joined_must_be_there() {
    let told = |attach: &str| {
        let text = format!("[[router]]\nname='a'\n[[router.nic]]\nname='x'\nattach='{attach}'\n");
        let host = HostFacts {
            interfaces: [
                ("eth0".to_owned(), InterfaceKind::Other),
                ("br0".to_owned(), InterfaceKind::Bridge),
            ]
            .into(),
            ..HostFacts::default()
        };
        parse(&text, "f.toml").expect("a good file").check_host(&host).to_string()
    };
    for there in ["bridge:br0", "macvtap:eth0", "xdp:eth0", "ovs:elsewhere", "tap:new"] {
        assert_eq!(told(there), "", "{there}");
    }
    let begin = "f.toml:5: router.nic.attach: ";
    assert_eq!(
        told("bridge:br1"),
        format!("{begin}there is no bridge \"br1\"; make it: ip link add br1 type bridge")
    );
    assert_eq!(
        told("bridge:eth0"),
        format!("{begin}interface \"eth0\" exists and is not a bridge; name a bridge")
    );
    for missing in ["macvtap:eth1", "xdp:eth1"] {
        assert_eq!(told(missing), format!("{begin}there is no interface \"eth1\"; interfaces: br0, eth0"));
    }
}

#[test]
fn without_kvm_nobody_can_serve_the_nics_of_virtual_machines() {
    for vhost in ["kernel", "vmm", "shared"] {
        let text =
            format!("[[router]]\nname='a'\nvhost='{vhost}'\n[[router.nic]]\nname='x'\nattach='tap:t0'\n");
        let host = HostFacts { no_kvm: Some("no KVM here".to_owned()), ..HostFacts::default() };
        let told = parse(&text, "f.toml").expect("a good file").check_host(&host).to_string();
        let wanted = match vhost {
            "shared" => String::new(),
            _ => format!(
                "f.toml:3: router.vhost: no KVM here, and vhost = \"{vhost}\" serves NICs of virtual machines; write \
                 vhost = \"shared\""
            ),
        };
        assert_eq!(told, wanted);
    }
}
