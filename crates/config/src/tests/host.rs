//! Requirements that a host cannot meet.

use crate::{HostFacts, parse};

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
    let host =
        HostFacts { cpus: [0, 1].into(), memory_available: Some(100 << 20), no_kvm: None, no_linux: None };
    assert_eq!(
        plan.check_host(&host).to_string(),
        "f.toml:3: router.pin.vcpu: CPU 2 cannot be used on this host; CPUs: 0-1\n\
         f.toml:4: router.memory: the routers so far want 1024 MiB and this host has 100 MiB left; give them less"
    );
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
