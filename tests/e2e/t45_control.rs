//! Objective: routers with FRR as their control plane find their routes by OSPF, OSPFv3 and BGP, also unnumbered, and forward by them,
//! with each engine and NIC model; FRR's namespace forwards nothing, each question of a host has one answer, packets are forwarded
//! while zebra is killed and starts again, and flows leave a link at once that BFD does not hear. Kernel and container routers have
//! FRR where they forward; a group has one FRR for all its members. By VRRP a router takes over the addresses of another one.

mod cable;
mod flood;
mod group;
mod kernel;
mod life;
mod neighbours;
mod pair;
mod plain;
mod six;
mod vlan;
mod vrrp;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use api::{Adjacency, Answer, Client, ControlAnswer, ControlQuestion, ControlRoute, Request};
use rustix::process::{Pid, kill_process};
use support::{Counters, Namespace, Signal, Stage, needs, ping, run};

use plain::Plain;

const RINGROAD: &str = env!("CARGO_BIN_EXE_ringroad");
/// Timeout for protocols to converge, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Address behind the plain router.
const FAR: &str = "203.0.113.1";
/// Pings while zebra is killed and starts again: each takes some ten milliseconds.
const PINGS: usize = 200;

/// OSPF on a link with fast timers, but for the dead interval: a busy host may keep daemons from their CPU for seconds.
const LINK: &str = " ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 10\n";

/// LSAs are sent and taken soon after those that they replace: 5 s and 1 s are FRR's defaults.
const QUICK: &str = "router ospf\n timers throttle lsa all 200\n timers lsa min-arrival 100\nexit\n";

fn ospf(id: u8, links: &[&str], passive: &[&str]) -> String {
    let links = links.iter().map(|link| format!("interface {link}\n{LINK}exit\n"));
    let passive =
        passive.iter().map(|link| format!("interface {link}\n ip ospf area 0\n ip ospf passive\nexit\n"));
    let interfaces: String = links.chain(passive).collect();
    format!("{interfaces}router ospf\n ospf router-id 10.255.0.{id}\nexit\n")
}

/// Waits for something.
fn wait_for<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    wait_within(PATIENCE, what, found)
}

fn wait_within<T>(patience: Duration, what: &str, found: impl FnMut() -> Option<T>) -> T {
    support::until_some(patience, LOOK, what, found)
}

pub(super) fn ask(client: &mut Client, router: &str, question: ControlQuestion) -> ControlAnswer {
    let request = Request::Control { router: router.to_owned(), question };
    match client.ask(&request) {
        Ok(Answer::Control(answer)) => answer,
        other => panic!("{router}: {other:?}"),
    }
}

/// The route that packets to an address follow.
pub(super) fn route(client: &mut Client, router: &str, to: &str) -> Option<ControlRoute> {
    let to = to.parse().expect("an address");
    match ask(client, router, ControlQuestion::Route { to }) {
        ControlAnswer::Routes { mut routes, .. } => routes.pop(),
        other => panic!("{other:?}"),
    }
}

fn adjacencies(client: &mut Client, router: &str) -> Vec<Adjacency> {
    let request = ControlQuestion::Adjacencies { protocol: None };
    let request = Request::Control { router: router.to_owned(), question: request };
    match client.ask(&request) {
        Ok(Answer::Control(ControlAnswer::Adjacencies { adjacencies })) => adjacencies,
        // FRR does not run yet.
        _ => Vec::new(),
    }
}

/// Waits until a router has a route of this protocol, which zebra has sent since it was started last.
fn wait_for_route(client: &mut Client, router: &str, (to, protocol): (&str, &str)) -> ControlRoute {
    let is_it =
        |route: &ControlRoute| route.protocol == protocol && route.fate == "forwarded" && !route.stale;
    let question = ControlQuestion::Route { to: to.parse().expect("an address") };
    let request = Request::Control { router: router.to_owned(), question };
    wait_for(&format!("a route of {router} to {to} by {protocol}"), || match client.ask(&request) {
        Ok(Answer::Control(ControlAnswer::Routes { mut routes, .. })) => routes.pop().filter(is_it),
        // The control plane does not run yet.
        _ => None,
    })
}

/// Packets that the namespace of a router's control plane has forwarded, of both families.
fn forwarded_by_kernel(router: &str) -> u64 {
    let read = |file: &str| {
        let mut command = Command::new(RINGROAD);
        let done = run(command.args(["exec", router, "--", "cat", file]), PATIENCE).expect("it ends");
        assert!(done.status.success(), "{}", done.stderr);
        done.stdout
    };
    let snmp = read("/proc/net/snmp");
    let mut rows = snmp.lines().filter_map(|line| line.strip_prefix("Ip: ")).map(str::split_whitespace);
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let four: BTreeMap<&str, &str> = names.zip(values).collect();
    let six = read("/proc/net/snmp6");
    let six = six.lines().find_map(|line| line.strip_prefix("Ip6OutForwDatagrams")).map(str::trim);
    [four["ForwDatagrams"], six.unwrap_or("0")]
        .map(|count| count.parse::<u64>().expect("a number"))
        .iter()
        .sum()
}

/// Waits until a ping to an address is answered: each router on the way takes its routes into use when it sees fit.
fn wait_for_answer(host: &Namespace, to: &str) {
    wait_for(&format!("an answer from {to}"), || {
        support::answers(host.command("busybox"), &[to]).then_some(())
    });
}

/// Checks that each question of a host has one answer: echo requests and ARP requests for its router. Both programs wait only a
/// second for the answer to their last question, less than a busy host may take; then they ask anew.
fn each_question_has_one_answer(tool: impl Fn(&str) -> Command, (link, router): (&str, &str)) {
    let said = |words: &[&str]| {
        let done = run(tool("busybox").args(words), PATIENCE).expect("it ends");
        println!("{}{}", done.stdout, done.stderr);
        done.stdout
    };
    wait_for("an answer to each echo request", || {
        let told = said(&["ping", "-c", "3", "-W", "30", router]);
        assert!(!told.contains("duplicates"), "{told}");
        told.contains("3 packets received").then_some(())
    });
    let (mut asked, mut answers) = (0, 0);
    wait_for("an answer to each ARP request", || {
        let told = said(&["arping", "-c", "3", "-I", link, router]);
        let received = told.split("Received ").nth(1).and_then(|rest| rest.split(' ').next());
        let received: u32 = received.and_then(|count| count.parse().ok()).expect("a count");
        (asked, answers) = (asked + 3, answers + received);
        assert!(answers <= asked, "{answers} answers to {asked} ARP requests");
        (received == 3).then_some(())
    });
}

/// Checks that each frame of a NIC was for the router, for its control plane, or for both; returns how many were for the control
/// plane alone.
fn sorted_for_control(counters: &Counters, nic: &str) -> u64 {
    let get = |name: &str| counters.get(&format!("{nic}.sorted.{name}"));
    assert_eq!(get("frames"), get("for_router") + get("for_control") + get("for_both"), "{nic}");
    get("for_control")
}

/// Checks that too at a NIC by which the control plane has neighbours.
fn sorted_adds_up(counters: &Counters, nic: &str) {
    assert!(sorted_for_control(counters, nic) > 0, "{nic}: nothing was for its control plane");
}

/// How the routers of a chain run, and their addresses as the file gives them: at the host, at both ends of the link between
/// them, and at the plain router.
#[derive(Clone, Copy)]
struct Way {
    engine: &'static str,
    model: &'static str,
    addresses: [&'static str; 4],
}

/// Processes with virtio-net, and IPv4 alone.
const USUAL: Way = Way {
    engine: "process",
    model: "virtio-net",
    addresses: ["\"192.0.2.1/24\"", "\"10.0.12.1/30\"", "\"10.0.12.2/30\"", "\"10.0.23.1/30\""],
};

/// Host, two routers, and a plain one with an address behind it.
struct Chain {
    stage: Stage,
    near: Namespace,
    plain: Namespace,
    _files: tempfile::TempDir,
}

impl Chain {
    /// `west` is the router next to the host; both routers run FRR with the configurations that are given.
    fn start(first: (&str, &str), second: (&str, &str)) -> Self {
        Self::start_as(&USUAL, first, second)
    }

    fn start_as(way: &Way, (west, first): (&str, &str), (east, second): (&str, &str)) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let path = |name: &str, text: &str| {
            let path = files.path().join(format!("{name}.conf"));
            fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let (first, second) = (path(west, first), path(east, second));
        let router = |name: &str, frr: &str| {
            let engine = way.engine;
            format!("[[router]]\nname = \"{name}\"\nengine = \"{engine}\"\ncontrol = {{ frr = \"{frr}\" }}\n")
        };
        let nic = |name: &str, attach: &str, address: &str| {
            let model = way.model;
            format!(
                "[[router.nic]]\nname = \"{name}\"\nmodel = \"{model}\"\nattach = \"{attach}\"\naddress = {address}\n"
            )
        };
        let [lan, core, other, out] = way.addresses;
        let file = [
            format!("[switch.{west}]\n"),
            router(west, &first),
            nic("lan", &format!("tap:{west}"), lan),
            nic("core", &format!("switch:{west}"), core),
            router(east, &second),
            nic("core", &format!("switch:{west}"), other),
            nic("out", &format!("tap:{east}"), out),
        ];
        let mut stage = Stage::start(RINGROAD, &file.concat()).expect("it starts");
        let near = stage.host(west, "192.0.2.2/24", "192.0.2.1").expect("a host");
        let plain = stage.host(east, "10.0.23.2/30", "10.0.23.1").expect("a host");
        // It has to learn its routes.
        plain.ip(&["route", "delete", "default"]).expect("deleted");
        plain.ip(&["address", "add", &format!("{FAR}/32"), "dev", "lo"]).expect("added");
        Self { stage, near, plain, _files: files }
    }

    fn client(&self) -> Client {
        self.stage.client().expect("the run answers")
    }
}

#[test]
fn two_routers_and_a_plain_one_find_their_way_by_ospf() {
    needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
    all_find_their_way_by_ospf(&USUAL, ("t45-west", "t45-east"));
}

fn all_find_their_way_by_ospf(way: &Way, (west, east): (&str, &str)) {
    let quick = |id, links: &[&str], passive: &[&str]| ospf(id, links, passive) + QUICK;
    let (first, second) = (quick(1, &["core"], &["lan"]), quick(2, &["core", "out"], &[]));
    let chain = Chain::start_as(way, (west, &first), (east, &second));
    let plain = Plain::start(&chain.plain, &quick(3, &[east], &["lo"]));
    let mut client = chain.client();
    let found = wait_for_route(&mut client, west, (FAR, "ospf"));
    let [hop] = found.hops.as_slice() else { panic!("{found:?}") };
    assert_eq!((hop.via, hop.link.as_str()), (Some([10, 0, 12, 2].into()), "core"));
    wait_for("the plain router's way back", || {
        let routes = chain.plain.ip(&["route", "show"]).expect("routes");
        routes.contains("192.0.2.0/24").then_some(())
    });
    wait_for_answer(&chain.near, FAR);
    ping(chain.near.command("busybox"), 5, &[FAR]).expect("answered");
    each_question_has_one_answer(|program| chain.near.command(program), (west, "192.0.2.1"));
    let full = wait_for("adjacencies", || {
        let all = adjacencies(&mut client, east);
        (all.len() == 2 && all.iter().all(|one| one.up)).then_some(all)
    });
    assert!(full.iter().all(|one| one.protocol == "ospf"), "{full:?}");
    assert_eq!([west, east].map(forwarded_by_kernel), [0, 0]);
    let counters = chain.stage.wait_for_counters(|_| true).expect("counters");
    let counted = |name: &str| counters.get(&format!("{west}.{name}"));
    assert!(counted("core.punt.routing") > 0);
    assert!(counted("fpm.routes_added") > 0, "zebra has sent routes");
    assert!(counted("control.routes_set") > 0, "the router was told of them");
    sorted_adds_up(&counters, &format!("{west}.core"));
    drop(plain);
    let counters = chain.stage.finish(vec![chain.near, chain.plain]).expect("nothing is left");
    assert_eq!([west, east].map(|router| counters.faults(router)), [Vec::<String>::new(), Vec::new()]);
}

fn a_route_of_bgp_is_forwarded_by(way: &Way, (west, east): (&str, &str)) {
    let speaker = |own: u16, peer: (&str, u16), more: &str| {
        format!(
            "router bgp {own}\n no bgp ebgp-requires-policy\n neighbor {0} remote-as {1}\n \
             neighbor {0} timers connect 1\n{more}",
            peer.0, peer.1
        )
    };
    let family = |lines: &str| format!(" address-family ipv4 unicast\n{lines} exit-address-family\nexit\n");
    let other = " neighbor 10.0.23.2 remote-as 65003\n neighbor 10.0.23.2 timers connect 1\n";
    let first = speaker(65001, ("10.0.12.2", 65002), &family("  network 192.0.2.0/24\n"));
    let second = speaker(65002, ("10.0.12.1", 65001), &(other.to_owned() + &family("")));
    let chain = Chain::start_as(way, (west, &first), (east, &second));
    let far = format!("  network {FAR}/32\n");
    let plain = Plain::start(&chain.plain, &speaker(65003, ("10.0.23.1", 65002), &family(&far)));
    let mut client = chain.client();
    wait_for_route(&mut client, east, (FAR, "bgp"));
    wait_for_route(&mut client, west, (FAR, "bgp"));
    wait_for("the plain router's way back", || {
        let routes = chain.plain.ip(&["route", "show"]).expect("routes");
        routes.contains("192.0.2.0/24").then_some(())
    });
    wait_for_answer(&chain.near, FAR);
    ping(chain.near.command("busybox"), 5, &[FAR]).expect("answered");
    wait_for("both peers", || {
        let peers = adjacencies(&mut client, east);
        (peers.iter().filter(|one| one.protocol == "bgp" && one.up).count() == 2).then_some(())
    });
    drop(plain);
    wait_for("the withdrawal", || route(&mut client, west, FAR).is_none().then_some(()));
    chain.stage.finish(vec![chain.near, chain.plain]).expect("nothing is left");
}

/// Process of a daemon of a router.
pub(super) fn process(daemon: &str, router: &str) -> Option<u32> {
    let is_it = |id: &u32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&str> =
            line.split(|octet| *octet == 0).filter_map(|word| str::from_utf8(word).ok()).collect();
        let [program, "-N", name, ..] = words.as_slice() else { return false };
        program.ends_with(&format!("/{daemon}")) && *name == router
    };
    let all = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_it)
}

/// Kills a process.
pub(super) fn kill(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::KILL).expect("killed");
}

mod all {
    use super::*;

    #[test]
    fn ospf_by_e1000s() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        all_find_their_way_by_ospf(&Way { model: "e1000", ..USUAL }, ("t45-w7", "t45-e7"));
    }

    #[test]
    fn ospf_by_virtual_machines() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        all_find_their_way_by_ospf(&Way { engine: "kvm", ..USUAL }, ("t45-w8", "t45-e8"));
    }

    #[test]
    fn ospf_by_virtual_machines_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        let way = Way { engine: "kvm", model: "e1000", ..USUAL };
        all_find_their_way_by_ospf(&way, ("t45-w9", "t45-e9"));
    }

    #[test]
    fn no_packet_is_lost_while_zebra_is_killed() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        let (west, east) = ("t45-w2", "t45-e2");
        let chain =
            Chain::start((west, &ospf(1, &["core"], &["lan"])), (east, &ospf(2, &["core", "out"], &[])));
        let plain = Plain::start(&chain.plain, &ospf(3, &[east], &["lo"]));
        let mut client = chain.client();
        wait_for_route(&mut client, west, (FAR, "ospf"));
        wait_for("the plain router's way back", || {
            let routes = chain.plain.ip(&["route", "show"]).expect("routes");
            routes.contains("192.0.2.0/24").then_some(())
        });
        wait_for_answer(&chain.near, FAR);
        let first = process("zebra", west).expect("zebra runs");
        let busybox = chain.near.command("busybox");
        let pings = spawn(move || ping(busybox, PINGS, &[FAR]));
        kill(first);
        let next = wait_for("another zebra", || process("zebra", west).filter(|id| *id != first));
        assert!(next != first);
        wait_for_route(&mut client, west, (FAR, "ospf"));
        pings.join().expect("it ends").expect("all are answered");
        ping(chain.near.command("busybox"), 3, &[FAR]).expect("answered");
        drop(plain);
        let done = chain.stage.finish_troubled(vec![chain.near, chain.plain]).expect("nothing is left");
        let told = format!("{west}: notice: zebra has ended (signal: 9");
        assert!(done.stderr.lines().any(|line| line.contains(&told)), "{}", done.stderr);
    }

    #[test]
    fn two_routers_and_a_plain_one_find_their_way_by_bgp() {
        needs!(Root, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        a_route_of_bgp_is_forwarded_by(&USUAL, ("t45-w3", "t45-e3"));
    }

    #[test]
    fn bgp_by_virtual_machines_with_e1000s() {
        needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"), Program("vtysh"));
        let way = Way { engine: "kvm", model: "e1000", ..USUAL };
        a_route_of_bgp_is_forwarded_by(&way, ("t45-w15", "t45-e15"));
    }
}
