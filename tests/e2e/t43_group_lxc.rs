//! Objective: container routers (`engine = "lxc"`) are back ends of a group. Behind balancers that are virtual machines, at our switch,
//! they are one router to the hosts around it; flows go on when a balancer is cut and when a back end ends.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use support::{Flow, Namespace, Stage, ping, transfer};

use crate::verbs::said_at;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Nothing takes so long, even where the host is busy.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const PORT: u16 = 7243;
const FLOWS: u16 = 24;
/// Datagrams a second of each.
const RATE: u32 = 100;

/// A group of containers.
fn file() -> String {
    "[[group]]\nname = 'duo'\nkind = 'multistage'\nbalancer = 'vm'\nbalancers = 2\nbackends = 3\nengine = 'lxc'\n\
         [[group.nic]]\nname = 'west'\nattach = 'tap:t43x-west'\naddress = '192.0.2.1/24'\n\
         [[group.nic]]\nname = 'east'\nattach = 'tap:t43x-east'\naddress = '198.51.100.1/24'\n"
        .to_owned()
}

/// How many back ends, and how many balancers, serve.
fn serving(stage: &Stage) -> (usize, usize) {
    let told = said_at(stage, &["ps", "--json", "--members"]);
    // Another run may be there as well.
    let own = told.lines().find(|line| line.contains("\"duo_")).expect("the run");
    let status: serde_json::Value = serde_json::from_str(own).expect("JSON");
    let serves = |router: &&serde_json::Value| {
        router["member"].as_str().is_some_and(|told| told.starts_with("serving"))
    };
    let routers = status["routers"].as_array().expect("routers");
    let is_balancer =
        |router: &&serde_json::Value| router["name"].as_str().is_some_and(|name| name.contains("_lb"));
    let (balancers, backends): (Vec<_>, Vec<_>) = routers.iter().filter(serves).partition(is_balancer);
    (backends.len(), balancers.len())
}

fn all_serve(stage: &Stage, wanted: (usize, usize)) {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = serving(stage);
        if now == wanted {
            return;
        }
        assert!(Instant::now() < end, "{now:?} serve, not {wanted:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn all_resume(flows: &[Flow], what: &str) {
    for (n, flow) in flows.iter().enumerate() {
        let resumes = flow.resumes(PATIENCE);
        assert!(resumes.is_some(), "flow {n} does not go on after {what}: {:?}", flow.so_far());
    }
}

/// Containers are in control groups of the host, which other tests would take for their own.
mod alone {
    mod all {
        use super::super::*;

        #[test]
        fn container_routers_are_back_ends() {
            support::needs!(
                Root,
                Tun,
                Program("ip"),
                Program("busybox"),
                Program("nsenter"),
                Program("lxc-start")
            );
            let prepare = |home: &Namespace| home.set("net.ipv6.conf.default.disable_ipv6", "1");
            let started = Stage::start_with_groups_after(RINGROAD, &file(), &["--json"], prepare);
            let mut stage = started.expect("it starts").0;
            let west = stage.host("t43x-west", "192.0.2.2/24", "192.0.2.1").expect("west");
            let east = stage.host("t43x-east", "198.51.100.2/24", "198.51.100.1").expect("east");
            all_serve(&stage, (3, 2));
            let said = ping(west.command("busybox"), 3, &["198.51.100.2"]).expect("answered");
            assert_eq!(said.matches("ttl=63").count(), 3, "one hop: {said}");
            let start = |n| Flow::start(&west, &east, (EAST, PORT + n).into(), RATE).expect("a flow");
            let flows: Vec<Flow> = (0..FLOWS).map(start).collect();
            let all_forward = |counters: &support::Counters| {
                (0..3).all(|n| counters.get(&format!("duo_{n}.ip.forwarded")) > 0)
                    && (0..2).all(|n| counters.get(&format!("duo_lb{n}.vcpu0.balancer.spread")) > 0)
            };
            stage.wait_for_counters(all_forward).expect("all forward");
            transfer(&west, &east, (EAST, PORT - 1).into(), 2_000_000, PATIENCE);
            said_at(&stage, &["set", "duo", "balancers=1"]);
            all_serve(&stage, (3, 1));
            all_resume(&flows, "a balancer was cut");
            said_at(&stage, &["set", "duo", "backends=2"]);
            all_serve(&stage, (2, 1));
            all_resume(&flows, "a back end went");
            transfer(&west, &east, (EAST, PORT - 2).into(), 2_000_000, PATIENCE);
            drop(flows);
            stage.finish_troubled(vec![west, east]).expect("nothing is left");
        }
    }
}
