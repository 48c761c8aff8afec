//! Objective: a NIC whose cable is pulled (`link=down`) neither receives nor sends frames, whatever its model and its driver's mode,
//! and the frames lost for that are counted; plugged in again it continues. If another host is at the end of a cable, the router
//! resolves its address again as soon as it notices.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Capture, Flow, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second.
const RATE: u32 = 200;
/// Most frames that may pass in the first interval, those of a second: a NIC that is in use learns of its cable a little later, and
/// each thread on the way may wait for a CPU.
const LATE: u64 = RATE as u64;

fn file(name: &str, nic: &str) -> String {
    format!(
        "[[router]]\nname = \"{name}\"\nrestart = \"never\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:{name}-l\"\naddress = \"192.0.2.1/24\"\n{nic}\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:{name}-r\"\naddress = \"198.51.100.1/24\"\n{nic}"
    )
}

fn set(stage: &Stage, nic: &str, link: &str) {
    let mut command: Command = stage.home().command(RINGROAD);
    let done = run(command.args(["set", nic, &format!("link={link}")]), PATIENCE).expect("an answer");
    assert!(done.status.success(), "{nic} {link}: {}", done.stderr);
}

/// Watches a router until it has dropped frames for lack of a cable in an interval in which none passed; only in the first interval,
/// possibly the last before the NIC notices that the cable is missing, some may pass.
fn none_passes(stage: &Stage, name: &str, way: &str) {
    let end = Instant::now() + PATIENCE;
    for look in 0.. {
        let mut command: Command = stage.home().command(RINGROAD);
        let done = run(command.args(["top", name, "--once", "--json"]), PATIENCE).expect("an answer");
        let moved: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let moved =
            |counter: &str| moved["counters"][format!("{name}.{way}.{counter}")].as_u64().unwrap_or(0);
        let (passed, most) = (moved("frames"), if look == 0 { LATE } else { 0 });
        assert!(passed <= most, "{passed} frames pass by {name}.{way}");
        if moved("drop_not_running") > 0 && passed == 0 {
            return;
        }
        assert!(Instant::now() < end, "nothing is lost at {name}.{way}");
    }
}

fn pulled_out(name: &str, nic: &str) {
    let mut stage = Stage::start(RINGROAD, &file(name, nic)).expect("it starts");
    let left = stage.host(&format!("{name}-l"), "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host(&format!("{name}-r"), "198.51.100.2/24", "198.51.100.1").expect("right");
    let to: SocketAddr = "198.51.100.2:7001".parse().expect("an address");
    let flow = Flow::start(&left, &right, to, RATE).expect("a flow");
    flow.reaches(200, PATIENCE).expect("it forwards");
    for (side, way) in [("right", "right.tx"), ("left", "left.rx")] {
        set(&stage, &format!("{name}.{side}"), "down");
        none_passes(&stage, name, way);
        set(&stage, &format!("{name}.{side}"), "up");
        flow.resumes(PATIENCE).expect("it goes on");
    }
    drop(flow);
    let counters = stage.finish(vec![left, right]).expect("nothing is left");
    assert_eq!(counters.faults(name), [""; 0], "{nic}");
}

#[test]
fn no_frame_passes_a_virtio_nic_without_a_cable() {
    needs!(Root, Kvm, Tun, Program("ip"));
    pulled_out("cbv", "");
}

/// Turns a host into another one by `commands`, and pings it until it answers: it sends nothing by itself.
fn another_host(commands: &[&[&str]]) {
    let mut stage = Stage::start(RINGROAD, &file("cbn", "")).expect("it starts");
    let left = stage.host("cbn-l", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("cbn-r", "198.51.100.2/24", "198.51.100.1").expect("right");
    support::ping(right.command("busybox"), 1, &["192.0.2.2"]).expect("answers");

    let path = stage.path("arp.pcap");
    let capture = Capture::start(&left, "any", &path).expect("tcpdump");
    commands.iter().for_each(|command| left.ip(command).map(drop).expect("changed"));
    let end = Instant::now() + PATIENCE;
    while !support::answers(right.command("busybox"), &["192.0.2.2"]) {
        assert!(Instant::now() < end, "it is not found");
    }
    capture.stop().expect("a capture");
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(&path).args(["-Y", "arp.opcode == 1 && arp.src.proto_ipv4 == 192.0.2.1"]);
    let asked = run(tshark.args(["-T", "fields", "-e", "sll.pkttype"]), PATIENCE).expect("tshark").stdout;
    // A neighbour entry that merely ages is probed by unicast.
    let all: Vec<&str> = asked.lines().collect();
    assert!(!all.is_empty() && all.iter().all(|kind| *kind == "1"), "not to all stations: {all:?}");
    stage.finish(vec![left, right]).expect("nothing is left");
}

#[test]
fn a_host_that_takes_another_address_without_a_word_is_found() {
    needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
    another_host(&[&["link", "set", "cbn-l", "address", "02:00:00:00:31:02"]]);
}

mod all {
    use super::*;

    #[test]
    fn no_frame_passes_an_e1000_without_a_cable() {
        needs!(Root, Kvm, Tun, Program("ip"));
        pulled_out("cbe", "model = \"e1000\"\n");
    }

    #[test]
    fn no_frame_passes_an_e1000_that_sends_in_the_access() {
        needs!(Root, Kvm, Tun, Program("ip"));
        pulled_out("cbb", "model = \"e1000\"\nmode = \"base\"\n");
    }

    #[test]
    fn a_host_that_takes_another_address_while_its_link_is_down_is_found_when_it_is_up() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("tcpdump"), Program("tshark"));
        another_host(&[
            &["link", "set", "cbn-l", "down"],
            &["link", "set", "cbn-l", "address", "02:00:00:00:31:01"],
            &["link", "set", "cbn-l", "up"],
            &["route", "add", "default", "via", "192.0.2.1"],
        ]);
    }
}
