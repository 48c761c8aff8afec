//! Objective: the host in a box has what the other tests need: KVM with a real ring 0, vhost-net, cgroup v2, and the
//! kernel's own VLAN, VRF and switch.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::Namespace;

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn devices_and_cgroups_are_there() {
    support::needs!(Root, Kvm, Tun);
    for device in ["/dev/vhost-net", "/dev/net/tun", "/dev/kvm"] {
        assert!(Path::new(device).exists(), "no {device}");
    }
    let controllers = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").expect("cgroup v2");
    for wanted in ["cpu", "cpuset"] {
        assert!(controllers.split_whitespace().any(|found| found == wanted), "no {wanted} in {controllers}");
    }
}

#[test]
fn links_of_every_kind_can_be_made() {
    support::needs!(Root, Program("ip"));
    let namespace = Namespace::add("t28-links").expect("a namespace");
    for words in [
        &["link", "add", "near", "type", "veth", "peer", "name", "far"][..],
        &["link", "add", "link", "near", "name", "near.7", "type", "vlan", "id", "7"],
        &["link", "add", "blue", "type", "vrf", "table", "10"],
        &["link", "add", "office", "type", "bridge", "vlan_filtering", "1"],
        &["link", "add", "link", "far", "name", "tap", "type", "macvtap", "mode", "bridge"],
    ] {
        namespace.ip(words).expect("a link");
    }
}

#[test]
fn the_command_sees_kvm() {
    support::needs!(Root, Kvm, Tun);
    let done = support::run(Command::new(inbox::ringroad()).arg("doctor"), PATIENCE).expect("it runs");
    assert!(done.stdout.contains("kvm") || done.stdout.contains("KVM"), "{}", done.stdout);
}
