//! Objective: a peer on a vhost-user port stops or dies in the middle of traffic, and the other ports of its router continue: none
//! of their frames is lost, and their rate is unaffected.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Counters, Flow, Namespace, Running, Signal, Stage, Testpmd};

const BINARY: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Address at which testpmd answers.
const PEER: &str = "192.0.2.9";
/// Datagrams a second between the other ports, also the number awaited in each check.
const RATE: u32 = 1000;
/// Programs that send echo requests to the peer, each 400 a second if the host allows: the router's ring fills up soon.
const FLOODS: usize = 4;

fn file(socket: &Path) -> String {
    let nic = |name: &str, attach: &str, address: &str| {
        format!("[[router.nic]]\nname = '{name}'\nattach = '{attach}'\naddress = '{address}'\n")
    };
    "[[router]]\nname = 't26f'\n".to_owned()
        + &nic("guest", &format!("vhost-user-backend:{}", socket.display()), "192.0.2.1/24")
        + &nic("left", "tap:t26f-left", "198.51.100.1/24")
        + "queue_len = 4096\n"
        + &nic("right", "tap:t26f-right", "203.0.113.1/24")
}

/// Starts testpmd, which answers ARP and echo requests.
fn testpmd(socket: &Path) -> Testpmd {
    let device = format!("net_virtio_user0,path={}", socket.display());
    let echo = ["--forward-mode=icmpecho", "--auto-start", "--total-num-mbufs=2048", "--stats-period=5"];
    Testpmd::start(&mut Command::new("dpdk-testpmd"), &device, &echo).expect("testpmd starts")
}

fn wait_for_an_answer(from: &Namespace) {
    let end = Instant::now() + PATIENCE;
    loop {
        let mut command = from.command("busybox");
        command.args(["ping", "-c", "1", "-w", "1", PEER]);
        if support::run(&mut command, PATIENCE).expect("ping ends").status.success() {
            return;
        }
        assert!(Instant::now() < end, "no answer");
    }
}

/// Waits until more datagrams have arrived.
fn goes_on(flow: &Flow) {
    let before = flow.so_far().received;
    flow.reaches(before + u64::from(RATE), PATIENCE).expect("the other ports go on");
}

mod all {
    use super::*;

    #[test]
    fn a_peer_that_stops_or_dies_costs_other_ports_nothing() {
        support::needs!(Root, Kvm, Tun, Program("dpdk-testpmd"), Program("busybox"));
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("guest.sock");
        let mut stage = Stage::start(BINARY, &file(&socket)).expect("it starts");
        let left = stage.host("t26f-left", "198.51.100.2/24", "198.51.100.1").expect("left");
        let right = stage.host("t26f-right", "203.0.113.2/24", "203.0.113.1").expect("right");
        let mut peer = testpmd(&socket);
        wait_for_an_answer(&left);
        // Echo requests to the peer throughout, in whatever state it is: more than all rings hold.
        let flood = |_| {
            let mut ping = left.command("busybox");
            Running::start(ping.args(["ping", "-q", "-i", "0.002", "-w", "300", PEER])).expect("ping starts")
        };
        let floods: Vec<Running> = (0..FLOODS).map(flood).collect();
        let address: SocketAddr = "203.0.113.2:7026".parse().expect("an address");
        let flow = Flow::start(&left, &right, address, RATE).expect("a flow");
        flow.reaches(100, PATIENCE).expect("it flows");
        peer.signal(Signal::STOP).expect("it runs");
        let is_full = |counters: &Counters| counters.get("t26f.vcpu0.guest.drop_tx_full") > 0;
        stage.wait_for_counters(is_full).expect("frames for the peer find the ring full");
        goes_on(&flow);
        peer.signal(Signal::CONT).expect("it is there");
        // It continues where it stopped.
        wait_for_an_answer(&left);
        peer.kill().expect("it is dead");
        goes_on(&flow);
        let peer = testpmd(&socket);
        wait_for_an_answer(&left);
        drop(floods);
        let tally = flow.stop().expect("it ends");
        println!("{tally:?}");
        peer.kill().expect("it is dead");
        let done = stage.finish_troubled(vec![left, right]).expect("it ends well, and leaves nothing");
        let counters =
            Counters::of(done.stdout.lines().filter(|line| line.contains("counters"))).expect("counters");
        assert_eq!((tally.lost(), tally.repeated), (0, 0), "{tally:?}: {counters:?}");
        // Frames for the peer waited in the router's ring, and then found it full; those of the flow did not. (A peer that resumes
        // answers all at once, which may be too many for the other direction.)
        let full = |nic: &str| counters.get(&format!("t26f.vcpu0.{nic}.drop_tx_full"));
        assert!(full("guest") > 0 && full("right") == 0, "{counters:?}");
        assert!(counters.get("t26f.right.tap.write.frames") >= tally.sent, "{counters:?}");
    }
}
