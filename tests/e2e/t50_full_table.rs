//! Objective: a full table, a million IPv4 and a quarter of a million IPv6 routes with the Internet's prefix lengths, which gobgpd
//! replays, is what the router has, what zebra has, and what packets follow; no packet is lost while zebra and bgpd are killed; after
//! a storm of flapping routes, and after everything was withdrawn, the router still has what zebra has.

mod fib;
mod packets;

use std::fs::{self, File};
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use api::Client;
use lab::full_table::{Dump, Family, FullTable, Gobgpd, Speaker, TableRoute};
use support::{Flow, Namespace, Stage, needs, run};

use super::t45_control::{kill, process, route};
use fib::Routes;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
const ROUTER: &str = "t50";
/// Timeout of each step: daemons take minutes for a full table on a busy host.
const PATIENCE: Duration = Duration::from_secs(1200);
const LOOK: Duration = Duration::from_secs(1);
/// Seed of all tables.
const SEED: u64 = 22;
/// Next hops of the routes: two of each peer.
const HOPS: [&str; 4] = ["10.0.1.2", "10.0.1.3", "10.0.2.2", "10.0.2.3"];
const HOPS_SIX: [&str; 4] = ["2001:db8:1::2", "2001:db8:1::3", "2001:db8:2::2", "2001:db8:2::3"];
const HOPS_OF_PEER: usize = 2;
/// Address behind the first peer, and its network.
const FAR: [u8; 4] = [203, 0, 113, 1];
const FAR_NETWORK: TableRoute = TableRoute { to: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 0)), len: 24, hop: 0 };
/// Datagrams a second to that address.
const RATE: u32 = 200;

const FRR: &str = "hostname t50
router bgp 65001
 bgp router-id 10.0.1.1
 no bgp ebgp-requires-policy
 bgp graceful-restart
 bgp graceful-restart preserve-fw-state
 bgp graceful-restart rib-stale-time 3600
 neighbor 10.0.1.2 remote-as 65010
 neighbor 10.0.1.2 timers connect 5
 neighbor 10.0.2.2 remote-as 65020
 neighbor 10.0.2.2 timers connect 5
 address-family ipv4 unicast
  network 192.0.2.0/24
 exit-address-family
 address-family ipv6 unicast
  neighbor 10.0.1.2 activate
  neighbor 10.0.2.2 activate
 exit-address-family
exit
";

/// Waits until something holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        sleep(LOOK);
    }
    println!("{what}: after {:.1} s", start.elapsed().as_secs_f64());
}

/// The router, a host, and two peers, at each of which any address can be reached.
struct Scene {
    stage: Stage,
    lan: Namespace,
    peers: [Namespace; 2],
    folder: tempfile::TempDir,
}

impl Scene {
    fn set() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let frr = folder.path().join("frr.conf");
        fs::write(&frr, FRR).expect("written");
        let nic = |name: &str, four: &str, six: &str| {
            format!(
                "[[router.nic]]\nname = \"{name}\"\nattach = \"tap:{ROUTER}-{name}\"\n\
                 address = [\"{four}\", \"{six}\"]\n"
            )
        };
        let control = format!("control = {{ frr = \"{}\" }}", frr.display());
        let file = [
            format!("[[router]]\nname = \"{ROUTER}\"\nengine = \"process\"\n{control}\n"),
            nic("lan", "192.0.2.1/24", "2001:db8::1/64"),
            nic("one", "10.0.1.1/24", "2001:db8:1::1/64"),
            nic("two", "10.0.2.1/24", "2001:db8:2::1/64"),
        ];
        let mut stage = Stage::start(RINGROAD, &file.concat()).expect("it starts");
        let lan = stage.host("t50-lan", "192.0.2.2/24", "192.0.2.1").expect("a host");
        lan.add_six("t50-lan", "2001:db8::2/64", "2001:db8::1").expect("IPv6");
        let peers = [("t50-one", 1), ("t50-two", 2)].map(|(link, number)| {
            let (own, gateway) = (format!("10.0.{number}.2/24"), format!("10.0.{number}.1"));
            let peer = stage.host(link, &own, &gateway).expect("a peer");
            furnish(&peer, link, number);
            peer
        });
        Self { stage, lan, peers, folder }
    }

    /// Starts the speaker of a peer.
    fn speaker(&self, peer: usize) -> Gobgpd {
        let name = self.peers[peer].name().to_owned();
        let place = move |program: &str| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &name, program]);
            command
        };
        let number = peer as u8 + 1;
        let speaker = Speaker {
            number: 65000 + u32::from(number) * 10,
            address: [10, 0, number, 2].into(),
            neighbour_number: 65001,
            neighbour: [10, 0, number, 1].into(),
        };
        Gobgpd::start(place, &speaker, self.folder.path()).expect("gobgpd")
    }

    /// Writes a dump of routes of one family.
    fn dump(&self, name: &str, routes: &[TableRoute], transit: usize) -> PathBuf {
        let path = self.folder.path().join(name);
        let mut file = BufWriter::new(File::create(&path).expect("a file"));
        let hops: Vec<IpAddr> =
            HOPS.iter().chain(&HOPS_SIX).map(|hop| hop.parse().expect("an address")).collect();
        Dump { routes, hops: &hops, transit }.write(&mut file).expect("written");
        path
    }

    /// Waits until zebra and the router have exactly these routes of BGP, and checks that the kernel has them, too.
    fn has(&self, what: &str, client: &mut Client, table: &FullTable) {
        let wanted = Routes::of_table(table);
        let families = Family::ALL.map(|family| Some(table.of(family).len() as u64));
        let some = table.addresses(50, SEED);
        // A look at a few is cheap.
        let is_right = |client: &mut Client, ip: &IpAddr| {
            let found = route(client, ROUTER, &ip.to_string()).filter(|found| !found.stale);
            let hop = found.and_then(|found| found.hops.first()?.via);
            hop.is_some() && hop == table.find(*ip).map(hop_of)
        };
        until(what, || {
            some.iter().all(|ip| is_right(client, ip))
                && fib::counted_by_zebra() == families
                && Routes::of_router(client).differ_from(&wanted).is_none()
        });
        assert_eq!(Routes::of_kernel().differ_from(&wanted), None, "what zebra has put into its kernel");
        let counters = self.stage.wait_for_counters(|_| true).expect("counters");
        assert_eq!(counters.get("t50.fpm.group_unknown"), 0);
    }
}

/// Gives a peer its other addresses, and has it take packets to any address.
fn furnish(peer: &Namespace, link: &str, number: u8) {
    for (key, value) in [
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv4.conf.all.accept_local", "1"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        // It must not answer for the router's addresses.
        ("net.ipv4.conf.all.arp_ignore", "1"),
    ] {
        peer.set(key, value).expect("a parameter");
    }
    peer.ip(&["address", "add", &format!("10.0.{number}.3/24"), "dev", link]).expect("an address");
    for host in [2, 3] {
        let own = format!("2001:db8:{number}::{host}/64");
        peer.ip(&["address", "add", &own, "dev", link, "nodad"]).expect("an address");
    }
    peer.ip(&["route", "delete", "default"]).expect("deleted");
    for (family, all) in [("-4", "0.0.0.0/0"), ("-6", "::/0")] {
        // In table `local` it would be for what the peer sends as well.
        let words = [family, "route", "add", "local", all, "dev", "lo", "table", "main", "metric", "1"];
        peer.ip(&words).expect("a route");
    }
}

/// Next hop of a route.
fn hop_of(route: &TableRoute) -> IpAddr {
    let hops = if route.to.is_ipv4() { HOPS } else { HOPS_SIX };
    hops[route.hop].parse().expect("an address")
}

/// A thousand routes that come and go: better ways of the table's networks by the other peer, and parts of these.
fn flapping(table: &FullTable) -> Vec<TableRoute> {
    let routes = table.of(Family::V4);
    let some = routes.iter().step_by(routes.len() / 1000).take(1000).enumerate();
    let flap = |(number, route): (usize, &TableRoute)| {
        let hop = (route.hop + HOPS_OF_PEER) % HOPS.len();
        let len = if number % 10 == 0 { 25 } else { route.len };
        TableRoute { hop, len, ..*route }
    };
    some.filter(|(_, route)| **route != FAR_NETWORK).map(flap).collect()
}

/// Networks that bgpd has received from a peer.
fn received(peer: &str, family: &str) -> Option<u64> {
    let question = format!("show bgp {family} unicast summary json");
    let done = run(Command::new(RINGROAD).args(["cli", ROUTER, "-c", &question]), PATIENCE).ok()?;
    let told: serde_json::Value = serde_json::from_str(&done.stdout).ok()?;
    fib::within(&told, peer)?["pfxRcd"].as_u64()
}

mod long {
    use super::*;

    #[test]
    fn a_full_table_is_taken_outlives_zebra_and_bgpd_flaps_and_goes() {
        needs!(Root, Tun, Program("ip"), Program("vtysh"), Program("gobgpd"), Program("gobgp"));
        let scene = Scene::set();
        let mut table = FullTable::new((1_000_000, 250_000), HOPS.len(), SEED);
        table.put([FAR_NETWORK]);
        let mut client = scene.stage.client().expect("the run answers");
        let [first, second] = [0, 1].map(|peer| scene.speaker(peer));
        until("both sessions", || first.is_established() && second.is_established());
        for (family, name) in [(Family::V4, "four.mrt"), (Family::V6, "six.mrt")] {
            let file = scene.dump(name, table.of(family), 3);
            first.inject(&file, family, table.of(family).len()).expect("taken");
        }
        scene.has("the whole table", &mut client, &table);
        let samples = table.addresses(2000, SEED);
        packets::follow(&scene.lan, &scene.peers, &table, &samples);

        scene.peers[0].ip(&["address", "add", "203.0.113.1/32", "dev", "lo"]).expect("an address");
        let to = SocketAddr::from((FAR, 7051));
        let flow = Flow::start(&scene.lan, &scene.peers[0], to, RATE).expect("a way");
        let counts = Family::ALL.map(|family| Some(table.of(family).len() as u64));
        for daemon in ["zebra", "bgpd"] {
            let former = process(daemon, ROUTER).expect("it runs");
            kill(former);
            until(daemon, || process(daemon, ROUTER).is_some_and(|id| id != former));
            until("bgpd has everything again", || {
                ["ipv4", "ipv6"].map(|family| received("10.0.1.2", family)) == counts
            });
            scene.has("the whole table again", &mut client, &table);
        }
        let tally = flow.stop().expect("it ends");
        assert!(tally.sent > 0 && tally.lost() == 0, "{tally:?}");

        let flaps = flapping(&table);
        let file = scene.dump("flaps.mrt", &flaps, 0);
        let (start, mut storms) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(60) {
            second.inject(&file, Family::V4, flaps.len()).expect("taken");
            second.withdraw(Family::V4).expect("taken back");
            storms += 1;
        }
        println!("{storms} times {} routes came and went", flaps.len());
        second.inject(&file, Family::V4, flaps.len()).expect("taken");
        let mut with_flaps = table.clone();
        with_flaps.put(flaps.iter().copied());
        scene.has("the table with the flapping routes", &mut client, &with_flaps);
        packets::follow(&scene.lan, &scene.peers, &with_flaps, &samples);

        for family in Family::ALL {
            [&first, &second].into_iter().for_each(|speaker| speaker.withdraw(family).expect("taken back"));
        }
        scene.has("no route", &mut client, &FullTable::new((0, 0), 1, SEED));
        let counters = scene.stage.wait_for_counters(|_| true).expect("counters");
        let refused = counters.sum(|name| name.starts_with("t50.fpm.refused_"));
        assert_eq!((refused, counters.get("t50.fpm.sessions_broken")), (0, 0));
        drop((first, second));
        let Scene { stage, lan, peers, folder: _folder } = scene;
        let [one, two] = peers;
        stage.finish_troubled(vec![lan, one, two]).expect("nothing is left");
    }
}
