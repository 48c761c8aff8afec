//! Objective: with several vCPUs and a thread for each pair of queues every vCPU forwards, each flow stays in order, both
//! directions of a flow use the same pair where the file says so, and the ledgers add up; on TAPs and on switches, with
//! both engines.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use support::{Counters, Flow, Namespace, Stage};

/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
const EAST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const EAST_PORT: u16 = 7016;
/// Flows of numbered datagrams: senders times ports of the receiver.
const SENDERS: usize = 250;
const PORTS: u16 = 8;
/// Datagrams of each flow.
const DATAGRAMS: u32 = 25;
/// Time without a datagram after which no more are expected.
const QUIET: Duration = Duration::from_secs(4);

/// One router between two TAPs.
fn between_taps(engine: &str, vcpus: u32, hash: &str) -> String {
    format!(
        "[[router]]\nname = \"r\"\nengine = \"{engine}\"\nvcpus = {vcpus}\nmemory = \"64M\"\nvhost = \"per-queue\"\n\
         [[router.nic]]\nname = \"west\"\nattach = \"tap:t16-west\"\naddress = \"192.0.2.1/24\"\nhash = \"{hash}\"\n\
         [[router.nic]]\nname = \"east\"\nattach = \"tap:t16-east\"\naddress = \"198.51.100.1/24\"\nhash = \"{hash}\"\n"
    )
}

/// Two routers with a switch between them.
fn over_a_switch(deliver: &str) -> String {
    let router = |name: &str, vcpus: u32| {
        format!("[[router]]\nname = \"{name}\"\nvcpus = {vcpus}\nmemory = \"64M\"\nvhost = \"per-queue\"\n")
    };
    let core = |address: &str| {
        format!(
            "[[router.nic]]\nname = \"core\"\nattach = \"switch:core\"\naddress = \"{address}/30\"\ndeliver = \"{deliver}\"\n"
        )
    };
    let lan = |side: &str, address: &str| {
        format!("[[router.nic]]\nname = \"lan\"\nattach = \"tap:t16-{side}\"\naddress = \"{address}/24\"\n")
    };
    let route = |to: &str, via: &str| format!("[[router.route]]\nto = \"{to}/24\"\nvia = \"{via}\"\n");
    [
        "[switch.core]\n".to_owned(),
        router("west", 4) + &lan("west", "192.0.2.1") + &core("203.0.113.1"),
        route("198.51.100.0", "203.0.113.2"),
        router("east", 2) + &core("203.0.113.2") + &lan("east", "198.51.100.1"),
        route("192.0.2.0", "203.0.113.1"),
    ]
    .concat()
}

/// Running file with a host at either end.
struct World {
    stage: Stage,
    west: Namespace,
    east: Namespace,
}

impl World {
    fn start(text: &str) -> Self {
        let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), text).expect("it starts");
        let west = stage.host("t16-west", "192.0.2.2/24", "192.0.2.1").expect("west");
        let east = stage.host("t16-east", "198.51.100.2/24", "198.51.100.1").expect("east");
        // From here on neighbours are resolved: a busy host gives up resolving them while other threads run.
        drop(Flow::start(&west, &east, (EAST, EAST_PORT - 1).into(), 1).expect("a flow"));
        Self { stage, west, east }
    }

    fn finish(self) -> Counters {
        self.stage.finish(vec![self.west, self.east]).expect("nothing is left")
    }

    /// Sends numbered datagrams in thousands of flows from west to east; returns how many arrived. Panics if one arrived
    /// twice, or after a later one of its flow.
    fn flows(&self) -> usize {
        let bind = |port| self.east.inside(|| UdpSocket::bind((EAST, port))).expect("inside").expect("bind");
        let receivers: Vec<_> = (0..PORTS).map(|n| bind(EAST_PORT + n)).collect();
        let came = AtomicUsize::new(0);
        thread::scope(|scope| {
            let counts: Vec<_> =
                receivers.iter().map(|socket| scope.spawn(|| receive(socket, &came))).collect();
            self.west.inside(|| send(&came)).expect("inside").expect("it sends");
            counts.into_iter().map(|count| count.join().expect("in order")).sum()
        })
    }

    /// Opens one connection from west to east, and sends octets in both directions.
    fn one_connection(&self) {
        const OCTETS: usize = 3_000_000;
        let listener =
            self.east.inside(|| TcpListener::bind((EAST, EAST_PORT))).expect("inside").expect("bind");
        let target = SocketAddr::from((EAST, EAST_PORT));
        let near = self.west.inside(|| TcpStream::connect_timeout(&target, PATIENCE)).expect("inside");
        let ends = [near.expect("it connects"), listener.accept().expect("a connection").0];
        thread::scope(|scope| {
            for mut end in ends {
                end.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                end.set_write_timeout(Some(PATIENCE)).expect("a timeout");
                let mut other = end.try_clone().expect("a duplicate");
                scope.spawn(move || end.write_all(&vec![7; OCTETS]).expect("the stream goes on"));
                scope.spawn(move || other.read_exact(&mut vec![0; OCTETS]).expect("the stream goes on"));
            }
        });
    }
}

/// Most datagrams in flight: fewer than a queue holds.
const WINDOW: usize = 800;
/// Time after which a missing datagram counts as lost: a busy host may stall for more than a second.
const LOST: Duration = Duration::from_secs(4);

/// Waits until few of the `sent` datagrams are in flight, or the remaining ones must be lost; returns the number lost.
fn keep_back(sent: usize, lost: usize, came: &AtomicUsize) -> usize {
    let on_their_way = || sent.saturating_sub(lost + came.load(Relaxed));
    let start = Instant::now();
    while on_their_way() > WINDOW {
        if start.elapsed() > LOST {
            return lost + on_their_way();
        }
        thread::sleep(Duration::from_micros(300));
    }
    lost
}

/// Sends each flow's datagrams in order, one of each flow in turn, no faster than this host currently forwards them.
fn send(came: &AtomicUsize) -> std::io::Result<()> {
    let (mut sent, mut lost) = (0, 0);
    let senders = (0..SENDERS).map(|_| UdpSocket::bind("0.0.0.0:0")).collect::<Result<Vec<_>, _>>()?;
    for number in 0..DATAGRAMS {
        for sender in &senders {
            for port in 0..PORTS {
                sender.send_to(&number.to_be_bytes(), (EAST, EAST_PORT + port))?;
                sent += 1;
            }
            lost = keep_back(sent, lost, came);
        }
    }
    Ok(())
}

/// Counts the datagrams until none arrive any more; each must follow the earlier ones of its flow.
fn receive(socket: &UdpSocket, all: &AtomicUsize) -> usize {
    let (mut last, mut count) = (HashMap::<SocketAddr, u32>::new(), 0);
    let started = Instant::now();
    loop {
        // Before the first datagram the neighbours may have to be resolved.
        let patience = if count == 0 { PATIENCE.saturating_sub(started.elapsed()) } else { QUIET };
        socket.set_read_timeout(Some(patience.max(QUIET))).expect("a timeout");
        let mut data = [0; 4];
        let Ok((4, from)) = socket.recv_from(&mut data) else { return count };
        let number = u32::from_be_bytes(data);
        if let Some(before) = last.insert(from, number) {
            assert!(before < number, "{from}: {number} came after {before}");
        }
        count += 1;
        all.fetch_add(1, Relaxed);
    }
}

/// Frames forwarded by each vCPU.
fn forwarded(counters: &Counters, router: &str, vcpus: u32) -> Vec<u64> {
    (0..vcpus).map(|vcpu| counters.get(&format!("{router}.vcpu{vcpu}.forwarded"))).collect()
}

/// Checks that every vCPU had work, and that every thread moved frames.
fn all_took_part(counters: &Counters, router: &str, vcpus: u32) {
    let all = forwarded(counters, router, vcpus);
    let fair = all.iter().sum::<u64>() / u64::from(vcpus);
    assert!(all.iter().all(|own| *own > fair / 2), "{router}: {all:?}");
    for thread in 0..vcpus {
        assert!(counters.get(&format!("{router}/q{thread}.frames")) > fair / 2, "{router}/q{thread}");
    }
    assert_eq!(counters.faults(router), [""; 0]);
}

/// Checks that most datagrams arrived; a busy host may lose some in a socket.
fn came(count: usize) {
    let sent = SENDERS * usize::from(PORTS) * DATAGRAMS as usize;
    assert!(count > sent / 2 && count <= sent, "{count} of {sent}");
}

fn try_between_taps(engine: &str) {
    let world = World::start(&between_taps(engine, 4, "flow"));
    came(world.flows());
    world.one_connection();
    let counters = world.finish();
    all_took_part(&counters, "r", 4);
    // Frames read from all queues of a TAP went into the NIC or were dropped under a name there.
    for nic in ["west", "east"] {
        let get = |name: &str| counters.get(&format!("r.{nic}.{name}"));
        let dropped = counters.sum(|name| name.starts_with(&format!("r.{nic}.rx.drop_")));
        assert_eq!(get("tap.read.frames"), get("rx.frames") + dropped, "{nic}");
        assert_eq!(
            get("tx.frames"),
            get("tap.write.frames")
                + counters.sum(|name| name.starts_with(&format!("r.{nic}.tap.write.drop_")))
        );
    }
}

#[test]
fn four_vcpus_between_taps() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    try_between_taps("kvm");
}

fn try_over_a_switch(deliver: &str) {
    let world = World::start(&over_a_switch(deliver));
    came(world.flows());
    world.one_connection();
    let counters = world.finish();
    all_took_part(&counters, "west", 4);
    all_took_part(&counters, "east", 2);
    let port = |port: &str, name: &str| counters.get(&format!("switch.core.{port}.{name}"));
    for (one, other) in [("west.core", "east.core"), ("east.core", "west.core")] {
        let router = one.split('.').next().unwrap_or_default();
        assert_eq!(port(one, "in_frames"), counters.get(&format!("{router}.core.tx.frames")), "{one}");
        let copies = port(one, "forwarded") + port(one, "flood_copies");
        assert_eq!(port(other, "out_frames") + port(other, "drop_full"), copies, "{one} to {other}");
    }
}

mod all {
    use super::*;

    #[test]
    fn four_vcpus_of_a_process_between_taps() {
        support::needs!(Root, Tun, Program("ip"));
        try_between_taps("process");
    }

    #[test]
    fn four_and_two_vcpus_over_a_switch_with_queues() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_over_a_switch("queued");
    }

    #[test]
    fn four_and_two_vcpus_over_a_switch_direct() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        try_over_a_switch("direct");
    }

    #[test]
    fn both_directions_of_a_flow_share_a_vcpu() {
        support::needs!(Root, Kvm, Tun, Program("ip"));
        let world = World::start(&between_taps("kvm", 4, "symmetric"));
        // Some of the datagrams that resolved the path are counted too, the more the later the router came up.
        world.stage.settle();
        let before = world.stage.wait_for_counters(|_| true).expect("counters");
        let before = forwarded(&before, "r", 4);
        world.one_connection();
        let counters = world.finish();
        let all = forwarded(&counters, "r", 4);
        let all: Vec<u64> = all.iter().zip(before).map(|(all, before)| all - before).collect();
        let most = all.iter().max().copied().unwrap_or_default();
        // A stream of six million octets takes at least ninety frames, even the largest ones.
        assert!(most > 90 && all.iter().sum::<u64>() - most < 20, "{all:?}");
    }
}
