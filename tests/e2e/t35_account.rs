//! Objective: `top` of a run shows how cores spend their time, and the source of the softirq times: the tracer, if the host permits
//! one, or else ticks, without a message about it. Expected: the columns of a core add up to the interval; a flood of softirqs is in
//! their column.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Flow, Namespace, Stage, needs, run};

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Datagrams a second through the router.
const RATE: u32 = 2000;
const FILE: &str = r#"
[[router]]
name = "acc"
[[router.nic]]
name = "left"
attach = "tap:acc-l"
address = "192.0.2.1/24"
[[router.nic]]
name = "right"
attach = "tap:acc-r"
address = "198.51.100.1/24"
"#;
const COLUMNS: [&str; 8] = ["guest", "vhost", "kernel", "user", "irq", "softirq", "steal", "idle"];

/// A forwarding router.
struct World {
    stage: Stage,
    hosts: [Namespace; 2],
    flow: Flow,
}

impl World {
    fn start(binary: &str) -> Self {
        let mut stage = Stage::start_with(binary, FILE, &["--json", "--name", "t35"]).expect("it starts");
        let left = stage.host("acc-l", "192.0.2.2/24", "192.0.2.1").expect("left");
        let right = stage.host("acc-r", "198.51.100.2/24", "198.51.100.1").expect("right");
        let to = "198.51.100.2:7035".parse().expect("an address");
        let flow = Flow::start(&left, &right, to, RATE).expect("a flow");
        flow.reaches(100, PATIENCE).expect("it forwards");
        Self { stage, hosts: [left, right], flow }
    }

    fn top(&self, words: &[&str]) -> String {
        let mut command = self.stage.home().command(RINGROAD);
        let done = run(command.args(["top"]).args(words), PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        done.stdout
    }

    fn finish(self) {
        // A busy host may lose some frames before the router; another test covers that.
        self.flow.stop().expect("it ends");
        self.stage.finish(self.hosts.into()).expect("nothing is left, and nothing was said");
    }
}

/// Sends datagrams to no one through the loopback device, whose softirqs receive them, until told to stop.
fn flood(stop: &AtomicBool) {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    let to = sockets[1].local_addr().expect("its address");
    while !stop.load(Relaxed) {
        let burst = Instant::now();
        while burst.elapsed() < Duration::from_millis(5) {
            let _ = sockets[0].send_to(&[7; 1400], to);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Nanoseconds of all cores in a column.
fn column(top: &Value, column: &str) -> u64 {
    let counters = top["counters"].as_object().expect("counters");
    let end = format!(".{column}_ns");
    let of_cores = counters.iter().filter(|(name, _)| name.starts_with("host.cpu") && name.ends_with(&end));
    of_cores.map(|(_, ns)| ns.as_u64().expect("a number")).sum()
}

/// Returns a second of `top` under a flood of softirqs, in which the flood had a CPU.
fn flooded(world: &World) -> Value {
    let stop = AtomicBool::new(false);
    let end = Instant::now() + PATIENCE;
    thread::scope(|scope| {
        scope.spawn(|| flood(&stop));
        let told = loop {
            let told: Value = serde_json::from_str(&world.top(&["t35", "--once", "--json"])).expect("JSON");
            if column(&told, "softirq") > 0 || Instant::now() > end {
                break told;
            }
        };
        stop.store(true, Relaxed);
        told
    })
}

/// Checks that the columns of every core add up to one interval, traced or not, and that there were softirqs.
fn adds_up(top: &Value) {
    let all: u64 = COLUMNS.iter().map(|name| column(top, name)).sum();
    assert!(all > 0, "nothing is known of cores: {top}");
    let traced = column(top, "traced") as f64 / all as f64;
    let wanted = if top["softirq_by"] == "tracer" { 1.0 } else { 0.0 };
    assert!((traced - wanted).abs() < 1e-3, "{traced}: {top}");
    assert!(column(top, "softirq") > 0, "the loopback device is flooded: {top}");
}

mod alone {
    use super::*;

    #[test]
    fn softirqs_are_told_by_the_tracer_where_there_can_be_one() {
        needs!(Root, Tun, Program("ip"));
        let source = if sched::account::Tracer::start().is_ok() { "tracer" } else { "ticks" };
        let world = World::start(RINGROAD);
        let top = flooded(&world);
        assert_eq!(top["softirq_by"], source, "{top}");
        adds_up(&top);
        let table = world.top(&["t35", "--once"]);
        assert!(table.contains(&format!("CPUs, softirq by {source}:\nCPU 0 %: guest ")), "{table}");
        // Output for a single router does not include cores.
        assert!(!world.top(&["acc", "--once", "--json"]).contains("softirq_by"));
        world.finish();
    }

    mod all {
        use super::*;

        #[test]
        fn who_may_not_trace_goes_by_ticks_and_says_nothing() {
            needs!(Root, Tun, Program("ip"), Program("setpriv"));
            let folder = tempfile::tempdir().expect("a folder");
            let poor = folder.path().join("poor");
            // CAP_SYS_ADMIN implies CAP_PERFMON.
            let script =
                format!("#!/bin/sh\nexec setpriv --bounding-set -sys_admin,-perfmon {RINGROAD} \"$@\"\n");
            fs::write(&poor, script).expect("a script");
            fs::set_permissions(&poor, fs::Permissions::from_mode(0o755)).expect("it may be run");
            let world = World::start(poor.to_str().expect("a path"));
            let top = flooded(&world);
            assert_eq!(top["softirq_by"], "ticks", "{top}");
            adds_up(&top);
            world.finish();
        }
    }
}
