//! Objective: features that only this kernel has carry our routers' frames: a VLAN and a VRF device at a TAP, and the kernel's packet generator as a
//! load of which every frame is accounted for.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use support::{Namespace, Stage};

/// Timeout of every step, generous for software emulation on a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Frames sent by the generator.
const LOAD: u64 = 20_000;

fn file(name: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nengine = \"kvm\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:{name}-l\"\naddress = \"192.0.2.1/24\"\nmac = \"02:00:00:00:00:01\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:{name}-r\"\naddress = \"198.51.100.1/24\"\n\
         [[router.neighbour]]\naddress = \"198.51.100.2\"\nmac = \"02:00:00:00:00:99\"\n"
    )
}

/// Pings through an interface.
fn ping(from: &Namespace, by: &str, to: &str) {
    support::ping(from.command("busybox"), 3, &["-I", by, to]).expect("answers");
}

/// Writes a line to a file of the packet generator (pktgen), in the namespace of the calling thread.
fn pktgen(file: &str, line: &str) {
    fs::write(format!("/proc/thread-self/net/pktgen/{file}"), format!("{line}\n"))
        .unwrap_or_else(|error| panic!("{file}: {line}: {error}"));
}

#[test]
fn a_vrf_carries_what_a_router_sends() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let mut stage = Stage::start(&inbox::ringroad(), &file("vf")).expect("it starts");
    let host = stage.host("vf-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    for words in [
        &["link", "add", "blue", "type", "vrf", "table", "10"][..],
        &["link", "set", "blue", "up"],
        &["link", "set", "vf-l", "master", "blue"],
        &["route", "add", "vrf", "blue", "default", "via", "192.0.2.1"],
    ] {
        host.ip(words).expect("a VRF");
    }
    ping(&host, "blue", "192.0.2.1");
    host.ip(&["link", "delete", "blue"]).expect("it goes");
    stage.finish(vec![host]).expect("nothing is left");
}

#[test]
fn a_bridge_with_vlans_leads_to_a_router() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("bridge"), Program("busybox"));
    let mut stage = Stage::start(&inbox::ringroad(), &file("vl")).expect("it starts");
    let host = stage.host("vl-l", "192.0.2.200/24", "192.0.2.1").expect("left");
    // The TAP is an untagged port of VLAN 7; the host is behind a tagging device.
    for words in [
        &["address", "flush", "dev", "vl-l"][..],
        &["link", "add", "office", "type", "bridge", "vlan_filtering", "1", "vlan_default_pvid", "0"],
        &["link", "set", "vl-l", "master", "office"],
        &["link", "set", "office", "up"],
        &["link", "add", "link", "office", "name", "seven", "type", "vlan", "id", "7"],
        &["address", "add", "192.0.2.2/24", "dev", "seven"],
        &["link", "set", "seven", "up"],
    ] {
        host.ip(words).expect("a VLAN");
    }
    for words in [
        &["vlan", "add", "dev", "vl-l", "vid", "7", "pvid", "untagged"][..],
        &["vlan", "add", "dev", "office", "vid", "7", "self"],
    ] {
        let mut command = host.command("bridge");
        let done = support::run(command.args(words), PATIENCE).expect("it ends");
        assert!(done.status.success(), "bridge {words:?}: {}", done.stderr);
    }
    ping(&host, "seven", "192.0.2.1");
    for link in ["seven", "office"] {
        host.ip(&["link", "delete", link]).expect("it goes");
    }
    stage.finish(vec![host]).expect("nothing is left");
}

#[test]
fn every_frame_of_the_kernels_generator_is_accounted_for() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    if !Path::new("/proc/net/pktgen").exists() {
        println!("SKIPPED: no module pktgen");
        return;
    }
    let mut stage = Stage::start(&inbox::ringroad(), &file("pg")).expect("it starts");
    let right = stage.host("pg-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    let left = stage.host("pg-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    left.inside(|| {
        pktgen("kpktgend_0", "add_device pg-l");
        for line in [
            format!("count {LOAD}"),
            "pkt_size 60".to_owned(),
            "delay 20000".to_owned(),
            "dst_mac 02:00:00:00:00:01".to_owned(),
            "src_min 192.0.2.2".to_owned(),
            "dst 198.51.100.2".to_owned(),
        ] {
            pktgen("pg-l", &line);
        }
        // It returns when all frames are sent.
        pktgen("pgctrl", "start");
        pktgen("kpktgend_0", "rem_device_all");
    })
    .expect("inside");
    // Frames that the interface passed to us, and those it dropped because we were too slow.
    let end = Instant::now() + PATIENCE;
    let (mut sent, mut dropped) = sent_and_dropped(&left);
    while sent + dropped < LOAD && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
        (sent, dropped) = sent_and_dropped(&left);
    }
    assert!(sent + dropped >= LOAD, "{sent} sent and {dropped} dropped of {LOAD}");
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    let faults = counters.faults("pg");
    assert!(faults.is_empty(), "{faults:?}");
    let came = counters.get("pg.left.tap.read.frames");
    assert!(came > 0 && came >= sent, "{came} frames came, {sent} were sent");
    let forwarded = counters.sum(|name| name.starts_with("pg.vcpu") && name.ends_with(".forwarded"));
    assert!(forwarded > 0, "nothing was forwarded of {came}");
}

/// Frames that the kernel has sent through `pg-l`, and those dropped for lack of room.
fn sent_and_dropped(namespace: &Namespace) -> (u64, u64) {
    let text = namespace.ip(&["-j", "-s", "link", "show", "pg-l"]).expect("counters");
    let tx = text.split("\"tx\":{").nth(1).expect("what was sent");
    let number = |key: &str| {
        let value = tx.split(&format!("\"{key}\":")).nth(1).and_then(|rest| rest.split([',', '}']).next());
        value.and_then(|digits| digits.parse().ok()).expect("a number")
    };
    (number("packets"), number("dropped"))
}
