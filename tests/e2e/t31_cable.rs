//! Objective: a NIC whose cable is pulled out (`link=down`) takes no frame and lets none out, whatever its model and its driver's mode,
//! and what is lost for it is counted; plugged in again it goes on.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Flow, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing here takes so long, even on a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second.
const RATE: u32 = 1000;

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

/// Looks at a router until it has lost frames for want of a cable in some interval; in that none passed there.
fn none_passes(stage: &Stage, name: &str, way: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut command: Command = stage.home().command(RINGROAD);
        let done = run(command.args(["top", name, "--once", "--json"]), PATIENCE).expect("an answer");
        let moved: Value = serde_json::from_str(&done.stdout).expect("JSON");
        let moved =
            |counter: &str| moved["counters"][format!("{name}.{way}.{counter}")].as_u64().unwrap_or(0);
        assert_eq!(moved("frames"), 0, "frames pass by {name}.{way}");
        if moved("drop_not_running") > 0 {
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

#[test]
fn no_frame_passes_an_e1000_without_a_cable() {
    needs!(Root, Kvm, Tun, Program("ip"));
    pulled_out("cbe", "model = \"e1000\"\n");
}

mod all {
    use super::*;

    #[test]
    fn no_frame_passes_an_e1000_that_sends_in_the_access() {
        needs!(Root, Kvm, Tun, Program("ip"));
        pulled_out("cbb", "model = \"e1000\"\nmode = \"base\"\n");
    }
}
