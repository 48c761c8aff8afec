//! Adjacencies under a flood into each NIC.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::setpriority_process;
use support::{Mac, Packet, udp};
use uplink::{Netns, PacketSender};

use super::*;

/// Frames of the flood that each NIC has to see before anything is judged.
const FLOOD: u64 = 100_000;
/// Frames of a call.
const BURST: usize = 64;

/// What is endured.
#[derive(Clone, Copy)]
struct Trial {
    /// Seconds of silence after which sessions of BFD go down: packets of 1 s, so many of them.
    multiplier: u32,
    /// Priority of the threads of the flood, as nice(2) has it.
    niceness: i32,
    /// How often each adjacency is to be heard in the flood.
    hellos: u64,
}

/// Beside other tests. The flood takes the CPUs of a busy host as well, which keeps daemons from theirs for seconds.
const BUSY: Trial = Trial { multiplier: 10, niceness: 0, hellos: 8 };

/// OSPF and BFD on these links, and BGP with these neighbours. OSPF and BGP endure many seconds of silence; that routers hear their
/// neighbours meanwhile is counted.
fn configuration(id: u8, multiplier: u32, links: &[&str], passive: &str, peers: &[(&str, u8)]) -> String {
    let bfd = format!(
        "bfd\n profile flood\n  detect-multiplier {multiplier}\n  receive-interval 1000\n  \
         transmit-interval 1000\n exit\nexit\n"
    );
    let timers = " ip ospf hello-interval 1\n ip ospf dead-interval 20\n";
    let links = links.iter().map(|link| {
        format!(
            "interface {link}\n ip ospf area 0\n ip ospf network point-to-point\n{timers} ip ospf bfd\n \
             ip ospf bfd profile flood\nexit\n"
        )
    });
    let peers = peers.iter().map(|(peer, id)| {
        format!(
            " neighbor {peer} remote-as 6500{id}\n neighbor {peer} timers 1 30\n \
             neighbor {peer} timers connect 1\n"
        )
    });
    let (links, peers): (String, String) = (links.collect(), peers.collect());
    format!(
        "{bfd}{links}interface {passive}\n ip ospf area 0\n ip ospf passive\nexit\n\
         router ospf\n ospf router-id 10.255.0.{id}\nexit\n\
         router bgp 6500{id}\n no bgp ebgp-requires-policy\n{peers}exit\n"
    )
}

/// Sends a frame as fast as an interface takes it, until dropped. With a low priority it still fills queues, but does not keep those who
/// send and receive for control planes from their CPU.
struct Flood {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start((host, interface): (&Namespace, &str), frame: Vec<u8>, niceness: i32) -> Self {
        let netns = Netns::open(format!("/run/netns/{}", host.name())).expect("a namespace");
        let wire = PacketSender::open(&netns, interface).expect("a packet socket");
        let stop = Arc::<AtomicBool>::default();
        let is_over = stop.clone();
        let thread = spawn(move || {
            // Of this thread alone.
            setpriority_process(None, niceness).expect("a priority");
            while !is_over.load(Ordering::Relaxed) {
                if wire.repeat(&frame, BURST) == 0 {
                    std::thread::yield_now();
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ethernet address of a router's NIC.
fn address(client: &mut Client, router: &str, nic: &str) -> Mac {
    let Ok(Answer::Show(shown)) = client.ask(&Request::Show { router: router.to_owned() }) else {
        panic!("{router} is not shown")
    };
    let found = shown.nics.iter().find(|found| found.name == nic).expect("a NIC");
    found.mac.parse::<config::Mac>().expect("an address").0
}

/// A frame of the flood, from one host to the other.
fn frame(to: Mac, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let (source, destination) = (source.into(), destination.into());
    let payload = udp(source, destination, (9, 9), &[0; 18]);
    let from = [2, 0, 0, 0, 0, 0x99];
    let (tos, id, fragment, options) = (0, 0, 0, Vec::new());
    Packet { to, from, source, destination, ttl: 64, tos, id, fragment, options, protocol: 17, payload }
        .frame()
}

/// What a router has heard: packets of BFD, and frames of routing protocols by each NIC.
fn heard(counters: &Counters, router: &str, nics: &[&str]) -> Vec<u64> {
    let routing = nics.iter().map(|nic| counters.get(&format!("{router}.{nic}.punt.routing")));
    [counters.get(&format!("{router}.bfd.taken"))].into_iter().chain(routing).collect()
}

/// Sessions of BFD that have gone down.
fn lost(counters: &Counters, [west, east]: [&str; 2]) -> u64 {
    counters.get(&format!("{west}.bfd.down")) + counters.get(&format!("{east}.bfd.down"))
}

/// Floods all NICs of two routers until each adjacency has been heard often enough meanwhile.
fn flooded([west, east]: [&str; 2], Trial { multiplier, niceness, hellos }: Trial) {
    let first = configuration(1, multiplier, &["core"], "lan", &[("10.0.12.2", 2)]);
    let second = configuration(2, multiplier, &["core", "out"], "lo", &[("10.0.12.1", 1), ("10.0.23.2", 3)]);
    let chain = Chain::start((west, &first), (east, &second));
    let plain = Plain::start(&chain.plain, &configuration(3, multiplier, &[east], "lo", &[("10.0.23.1", 2)]));
    let mut client = chain.client();
    let routers = [(west, &["core"][..]), (east, &["core", "out"][..])];
    // Of OSPF, BGP and BFD with each neighbour.
    let all_up = |client: &mut Client| {
        routers.iter().all(|(router, nics)| {
            adjacencies(client, router).iter().filter(|one| one.up).count() == 3 * nics.len()
        })
    };
    wait_for("all adjacencies", || all_up(&mut client).then_some(()));
    wait_for_route(&mut client, west, (FAR, "ospf"));
    wait_for_answer(&chain.near, FAR);

    let floods = [
        (&chain.near, west, address(&mut client, west, "lan"), [192, 0, 2, 2], [203, 0, 113, 1]),
        (&chain.plain, east, address(&mut client, east, "out"), [203, 0, 113, 1], [192, 0, 2, 2]),
    ];
    let before = chain.stage.wait_for_counters(|_| true).expect("counters");
    let begun = Instant::now();
    let floods =
        floods.map(|(host, link, mac, from, to)| Flood::start((host, link), frame(mac, from, to), niceness));
    let nics = [(west, "lan"), (west, "core"), (east, "core"), (east, "out")];
    let seen = wait_for("the flood at each NIC", || {
        let counters = chain.stage.wait_for_counters(|_| true).expect("counters");
        let of = |counters: &Counters, (router, nic): (&str, &str)| {
            counters.get(&format!("{router}.{nic}.sorted.frames"))
        };
        nics.iter().all(|nic| of(&counters, *nic) >= of(&before, *nic) + FLOOD).then_some(counters)
    });
    let patience = PATIENCE + Duration::from_secs(10 * hellos);
    let after = wait_within(patience, "what is heard in the flood", || {
        let counters = chain.stage.wait_for_counters(|_| true).expect("counters");
        let goes_on = |(router, nics): &(&str, &[&str])| {
            // Each session of BFD counts.
            let wanted = heard(&seen, router, nics);
            let wanted = wanted.iter().map(|count| count + hellos * nics.len() as u64);
            heard(&counters, router, nics).into_iter().zip(wanted).all(|(now, wanted)| now >= wanted)
        };
        routers.iter().all(goes_on).then_some(counters)
    });
    let flooded_for = begun.elapsed().as_secs();
    assert_eq!(lost(&after, [west, east]), lost(&before, [west, east]), "sessions of BFD");
    for (router, nics) in routers {
        // In the flood daemons take their time to answer, some of them too long.
        let all = wait_for("answers of all daemons", || {
            let all = adjacencies(&mut client, router);
            (all.iter().filter(|one| one.up).count() == 3 * nics.len()).then_some(all)
        });
        let is_old = |one: &Adjacency| one.seconds.is_none_or(|seconds| seconds >= flooded_for);
        assert!(all.iter().all(is_old), "none is younger than the flood: {flooded_for} s: {all:?}");
    }
    drop(floods);
    // The first ones may be lost in queues that the flood has left full.
    wait_for_answer(&chain.near, FAR);
    ping(chain.near.command("busybox"), 3, &[FAR]).expect("answered");
    drop(plain);
    chain.stage.finish_troubled(vec![chain.near, chain.plain]).expect("nothing is left");
}

/// Ethernet address of a neighbour that a host has spoken to.
fn neighbour(host: &Namespace, ip: &str) -> Mac {
    let known = host.ip(&["neighbour", "show", ip]).expect("neighbours");
    let found = known.split("lladdr ").nth(1).and_then(|rest| rest.split_whitespace().next());
    found.expect("it is known").parse::<config::Mac>().expect("an address").0
}

/// Floods both NICs of a group until its neighbour has been heard often enough meanwhile.
fn group_is_flooded(name: &str, kind: &group::Kind) {
    let Trial { multiplier, niceness, hellos } = BUSY;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("frr.conf");
    let text = configuration(1, multiplier, &["out"], "lan", &[("10.0.23.2", 3)]);
    fs::write(&path, text).expect("written");
    let text = group::file(name, kind, "process", &path.display().to_string());
    let mut stage = Stage::start(RINGROAD, &text).expect("it starts");
    let [lan, out] = ["lan", "out"].map(|nic| format!("{name}{nic}"));
    let near = stage.host(&lan, "192.0.2.2/24", "192.0.2.1").expect("a host");
    let behind = stage.host(&out, "10.0.23.2/30", "10.0.23.1").expect("a host");
    // It has to learn its routes.
    behind.ip(&["route", "delete", "default"]).expect("deleted");
    behind.ip(&["address", "add", &format!("{FAR}/32"), "dev", "lo"]).expect("added");
    let plain = Plain::start(&behind, &configuration(3, multiplier, &[&out], "lo", &[("10.0.23.1", 1)]));
    let mut client = wait_for("the run", || stage.client().ok());
    // Of OSPF, BGP and BFD.
    let all_up = |client: &mut Client| adjacencies(client, name).iter().filter(|one| one.up).count() == 3;
    wait_for("all adjacencies", || all_up(&mut client).then_some(()));
    wait_for_route(&mut client, name, (FAR, "ospf"));
    wait_for_answer(&near, FAR);

    let floods = [
        (&near, &lan, "192.0.2.1", [192, 0, 2, 2], [203, 0, 113, 1]),
        (&behind, &out, "10.0.23.1", [203, 0, 113, 1], [192, 0, 2, 2]),
    ];
    let before = stage.wait_for_counters(|_| true).expect("counters");
    let floods = floods.map(|(host, link, router, from, to)| {
        Flood::start((host, link.as_str()), frame(neighbour(host, router), from, to), niceness)
    });
    let sorted = |counters: &Counters, nic: &str| counters.get(&format!("{name}.{nic}.sorted.frames"));
    let seen = wait_for("the flood at each NIC", || {
        let now = stage.wait_for_counters(|_| true).expect("counters");
        ["lan", "out"].iter().all(|nic| sorted(&now, nic) >= sorted(&before, nic) + FLOOD).then_some(now)
    });
    let wanted: Vec<u64> = heard(&seen, name, &["out"]).iter().map(|count| count + hellos).collect();
    let after =
        wait_within(PATIENCE + Duration::from_secs(10 * hellos), "what is heard in the flood", || {
            let now = stage.wait_for_counters(|_| true).expect("counters");
            heard(&now, name, &["out"]).iter().zip(&wanted).all(|(now, wanted)| now >= wanted).then_some(now)
        });
    let down = |counters: &Counters| counters.get(&format!("{name}.bfd.down"));
    assert_eq!(down(&after), down(&before), "sessions of BFD");
    wait_for("answers of all daemons", || all_up(&mut client).then_some(()));
    drop(floods);
    wait_for_answer(&near, FAR);
    drop(plain);
    stage.finish_troubled(vec![near, behind]).expect("nothing is left");
}

/// Sessions that three lost packets end depend on the time that daemons wait for a CPU, which other tests would take.
mod alone {
    use super::*;

    #[test]
    fn adjacencies_with_bfd_of_three_seconds_outlive_a_flood_into_each_nic() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        flooded(["t45-w12", "t45-e12"], Trial { multiplier: 3, niceness: 19, hellos: 5 });
    }
}

mod all {
    use super::*;

    #[test]
    fn adjacencies_of_members_in_parallel_outlive_a_flood() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        group_is_flooded("t45g", &group::PARALLEL);
    }

    #[test]
    fn adjacencies_of_back_ends_outlive_a_flood() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        group_is_flooded("t45h", &group::MULTISTAGE);
    }

    #[test]
    fn adjacencies_outlive_a_flood_into_each_nic() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        flooded(["t45-w5", "t45-e5"], BUSY);
    }
}

mod long {
    use super::*;

    #[test]
    fn adjacencies_outlive_minutes_of_a_flood() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        flooded(["t45-w6", "t45-e6"], Trial { hellos: 150, ..BUSY });
    }
}
