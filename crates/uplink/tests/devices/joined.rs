//! Ports connected by means of the host: a macvtap on one end of a veth in each mode, a TAP in a bridge, a
//! TAP in a bridge of Open vSwitch. Each in the conformance suite that every port passes, with a packet
//! socket at the other end of the veth.

mod open_vswitch;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use conformance::{Pattern, SinkBench, SourceBench, check_sink, check_source};
use port::{Sink, Source};
use rustix::thread::{CpuSet, sched_setaffinity};
use uplink::macvtap::Mode;
use uplink::{Error, Mac, Netns, Tap, TapConfig, TapSink, TapSource, bridge, macvtap};

use crate::far_end::PacketSocket;
use crate::support::{
    PATIENCE, Way, collect, datagram, deliver, devices, drained, frames_at, losses, wait_for,
    wait_until_running,
};

const OURS: Mac = [2, 0, 0, 0, 1, 9];
const THEIRS: Mac = [2, 0, 0, 0, 1, 0];
const MODES: [Mode; 4] = [Mode::Private, Mode::Vepa, Mode::Bridge, Mode::Passthru];
/// More than all frames of a check.
const QUEUE_LEN: u32 = 2000;

/// Runs `ip` in a namespace.
fn ip(netns: &Netns, words: &str) {
    let done = netns.command("ip").args(words.split(' ')).output().expect("ip");
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A namespace with a veth, `near` and `far`.
fn veth() -> Netns {
    let netns = Netns::new().expect("namespace");
    let _ = netns.settle(false).expect("settle");
    ip(&netns, "link add near type veth peer name far");
    ip(&netns, "link set far address 02:00:00:00:01:00 up");
    ip(&netns, "link set near up");
    ["near", "far"].iter().for_each(|name| wait_until_running(&netns, name));
    netns
}

/// A port, and a socket at the other end of the veth behind it.
struct Bench {
    far: PacketSocket,
    source: TapSource,
    sink: Arc<TapSink>,
    /// Index of an interface on the path from which a process reads frames, which it loses if it is too slow.
    taken_at: Option<u32>,
    _netns: Netns,
}

impl Bench {
    fn of(netns: Netns, tap: Tap) -> Self {
        let (source, sink) = tap.split();
        let far = netns.run(|| PacketSocket::open("far")).expect("enter").expect("packet socket");
        Self { far, source, sink, taken_at: None, _netns: netns }
    }

    fn macvtap(mode: Mode) -> Self {
        let netns = veth();
        let tap = macvtap::open("m0", ("near", mode), &macvtap_config(&netns)).expect("macvtap");
        Self::of(netns, tap)
    }

    fn bridge() -> Self {
        let netns = veth();
        ip(&netns, "link add br0 type bridge");
        ip(&netns, "link set br0 up");
        ip(&netns, "link set near master br0");
        let tap = bridge::open("t0", "br0", &tap_config(&netns)).expect("TAP in a bridge");
        ["near", "t0", "br0"].iter().for_each(|name| wait_until_running(&netns, name));
        Self::of(netns, tap)
    }
}

const ON_NEAR: (&str, Mode) = ("near", Mode::Bridge);

fn macvtap_config(netns: &Netns) -> TapConfig<'_> {
    TapConfig { mac: Some(OURS), ..tap_config(netns) }
}

fn tap_config(netns: &Netns) -> TapConfig<'_> {
    TapConfig { queue_len: QUEUE_LEN, netns: Some(netns), ..TapConfig::default() }
}

impl SinkBench for Bench {
    fn sink(&self) -> &dyn Sink {
        &*self.sink
    }

    fn received(&mut self) -> Option<Vec<Vec<u8>>> {
        let frames = frames_at(&self.far);
        self.taken_at.is_none().then_some(frames)
    }

    fn lost(&self) -> u64 {
        losses(&*self.sink.counters())
    }

    fn pattern(&self) -> Pattern {
        Pattern { destination: THEIRS, source: OURS, ..Pattern::default() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

impl SourceBench for Bench {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }

    fn feed(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut fed = 0;
        for frame in frames {
            if rustix::io::write(&self.far, frame) != Ok(frame.len()) {
                break;
            }
            fed += 1;
            if let (Some(interface), 0) = (self.taken_at, fed % 8) {
                wait_for("the frames are taken", || waiting_at(interface) == 0);
            }
        }
        fed
    }

    fn pattern(&self) -> Pattern {
        Pattern { destination: OURS, source: THEIRS, ..Pattern::default() }
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Returns the octets that wait in packet sockets of an interface (/proc/net/packet).
fn waiting_at(interface: u32) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/packet").expect("sockets");
    let sockets = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let its = sockets.filter(|fields| fields[4] == interface.to_string());
    its.map(|fields| fields[6].parse::<u64>().expect("a number")).sum()
}

/// Returns true if the kernel supports macvtaps.
fn macvtaps() -> bool {
    devices() && {
        let netns = veth();
        match macvtap::open("m0", ON_NEAR, &macvtap_config(&netns)) {
            Err(error) if error.to_string().contains("modprobe macvtap") => {
                println!("SKIPPED: {error}");
                false
            }
            other => other.map(drop).map(|()| true).expect("macvtap"),
        }
    }
}

/// Binds this thread and those that it starts to one CPU. Frames sent over a veth wait in a queue of the
/// sending CPU, so the frames of a thread that migrates may be reordered in the kernel.
fn stay_on_one_cpu() {
    let mut cpu = CpuSet::new();
    cpu.set(rustix::thread::sched_getcpu());
    sched_setaffinity(None, &cpu).expect("affinity");
}

#[test]
fn a_macvtap_is_a_port_in_every_mode() {
    if macvtaps() {
        stay_on_one_cpu();
        for mode in MODES {
            check_sink(|| Bench::macvtap(mode));
            check_source(|| Bench::macvtap(mode));
        }
    }
}

#[test]
fn a_tap_in_a_bridge_is_a_port() {
    if devices() {
        stay_on_one_cpu();
        check_sink(Bench::bridge);
        check_source(Bench::bridge);
    }
}

#[test]
fn a_macvtap_goes_with_whoever_holds_it_and_its_queue_is_as_long_as_was_said() {
    if !macvtaps() {
        return;
    }
    let netns = veth();
    let links = netns.links().expect("links");
    let config = TapConfig { queues: 3, queue_len: 7, ..macvtap_config(&netns) };
    let tap = macvtap::open("m0", ON_NEAR, &config).expect("macvtap");
    assert_eq!(tap.descriptors().len(), 3);
    assert_eq!(links.mac("m0").expect("address"), OURS);
    let far = netns.run(|| PacketSocket::open("far")).expect("enter").expect("packet socket");
    let copy = tap.try_clone().expect("copy");
    let mut ports = copy.into_ports();
    // One flow uses one queue.
    let frame = [&OURS[..], &THEIRS, &[8, 0], &[0; 46]].concat();
    for _ in 0..20 {
        let _ = rustix::io::write(&far, &frame);
    }
    let mut came = [0; 3];
    let mut look = || {
        for (came, (source, _)) in came.iter_mut().zip(&mut ports) {
            *came += drained(source).len();
        }
        came
    };
    wait_for("as many as its queue holds", || look().iter().sum::<usize>() >= 7);
    let came = look();
    assert_eq!((came.iter().sum::<usize>(), came.iter().filter(|count| **count > 0).count()), (7, 1));
    drop(ports);
    assert!(links.exists("m0").expect("ask"), "what was copied does not take it away");
    drop(tap);
    assert!(!links.exists("m0").expect("ask"));
}

/// A datagram of BFD over several hops from one end to the other.
fn of_bfd(from: Mac, to: Mac, number: u32) -> Vec<u8> {
    let [here, there] = [1, 2].map(|host| Ipv4Addr::new(198, 18, 0, host));
    let mut frame = datagram(Way { from: (from, here), to: (to, there) }, 60, number);
    frame[36..38].copy_from_slice(&4784_u16.to_be_bytes());
    frame
}

#[test]
fn urgent_frames_come_past_a_full_queue_of_a_macvtap_and_each_comes_once() {
    if !macvtaps() {
        return;
    }
    let netns = veth();
    let config = TapConfig { queue_len: 8, urgent: true, ..macvtap_config(&netns) };
    let tap = macvtap::open("m0", ON_NEAR, &config).expect("macvtap");
    if !tap.traits().has_urgent_queue() {
        return println!("SKIPPED: the kernel takes no program that finds urgent frames");
    }
    let far = netns.run(|| PacketSocket::open("far")).expect("enter").expect("packet socket");
    let send = |frame: Vec<u8>| assert_eq!(rustix::io::write(&far, &frame), Ok(frame.len()));
    let mut ports = tap.try_clone().expect("copy").into_ports();
    let (mut urgent, _) = ports.pop().expect("the queue of copies");
    let (mut plain, sink) = ports.pop().expect("a queue");
    // What leaves does not come back, and what comes is in both queues, and shown by one of them.
    assert_eq!(deliver(&*sink, &mut [of_bfd(OURS, THEIRS, 1)]), 1);
    send(of_bfd(THEIRS, OURS, 2));
    assert_eq!(collect(&mut urgent, 1), [of_bfd(THEIRS, OURS, 2)]);
    wait_for("the other one", || {
        assert!(drained(&mut plain).is_empty(), "it came twice");
        plain.counters().copied.get() == 1
    });
    for _ in 0..100 {
        send([&OURS[..], &THEIRS, &[8, 0], &[0; 46]].concat());
    }
    send(of_bfd(THEIRS, OURS, 3));
    assert_eq!(collect(&mut urgent, 1), [of_bfd(THEIRS, OURS, 3)]);
    assert_eq!(tap.lost_copies(), 0);
    (0..10_000).for_each(|number| send(of_bfd(THEIRS, OURS, number)));
    wait_for("a loss to be counted", || tap.lost_copies() > 0);
}

#[test]
fn what_has_its_vlan_tag_beside_it_is_not_copied_and_comes_with_the_tag() {
    if !macvtaps() {
        return;
    }
    let netns = veth();
    let config = TapConfig { urgent: true, ..macvtap_config(&netns) };
    let tap = macvtap::open("m0", ON_NEAR, &config).expect("macvtap");
    if !tap.traits().has_urgent_queue() {
        return println!("SKIPPED: the kernel takes no program that finds urgent frames");
    }
    let open = |name: &str| netns.run(|| PacketSocket::open(name)).expect("enter").expect("packet socket");
    let (far, beside) = (open("far"), open("m0"));
    let send = |frame: Vec<u8>| assert_eq!(rustix::io::write(&far, &frame), Ok(frame.len()));
    let mut ports = tap.try_clone().expect("copy").into_ports();
    let (mut urgent, _) = ports.pop().expect("the queue of copies");
    let (mut plain, _) = ports.pop().expect("a queue");
    let whole = of_bfd(THEIRS, OURS, 1);
    let tagged = [&whole[..12], &[0x81, 0, 0, 7], &whole[12..]].concat();
    send(tagged.clone());
    // The kernel shows packet sockets the frame without its tag, which is in the metadata (PACKET_AUXDATA).
    let mut shown = Vec::new();
    wait_for("the frame without its tag", || {
        shown.extend(frames_at(&beside));
        shown.contains(&whole)
    });
    // A macvtap puts the tag back. The frame is of a VLAN, so that it is urgent for nobody; the one behind it is.
    assert_eq!(collect(&mut plain, 1), [tagged]);
    send(of_bfd(THEIRS, OURS, 2));
    assert_eq!(collect(&mut urgent, 1), [of_bfd(THEIRS, OURS, 2)]);
    wait_for("the other one", || {
        assert!(drained(&mut plain).is_empty(), "it came twice");
        plain.counters().copied.get() == 1
    });
}

#[test]
fn what_cannot_carry_a_macvtap_is_named_and_nothing_is_left() {
    if !macvtaps() {
        return;
    }
    let netns = veth();
    let links = netns.links().expect("links");
    let fails = |name: &str, on, config: &TapConfig<'_>| {
        macvtap::open(name, on, config).expect_err("refused").to_string()
    };
    let good = macvtap_config(&netns);
    let absent = fails("m0", ("nowhere", Mode::Bridge), &good);
    assert_eq!(absent, "looking for `nowhere`: there is no such interface");
    let large = fails("m0", ON_NEAR, &TapConfig { mtu: 9000, ..good.clone() });
    assert!(large.contains("its MTU of 9000 is more than that of `near`"), "{large}");
    let taken = macvtap::open("far", ON_NEAR, &good).expect_err("refused");
    assert!(matches!(taken, Error::InUse { .. }), "{taken}");
    let _one = macvtap::open("m0", ON_NEAR, &good).expect("macvtap");
    let passthru = fails("m1", ("near", Mode::Passthru), &TapConfig { mac: Some(THEIRS), ..good.clone() });
    assert!(passthru.contains("takes none in this mode"), "{passthru}");
    ip(&netns, "link add br0 type bridge");
    ip(&netns, "link set far master br0");
    let busy = fails("m1", ("far", Mode::Bridge), &good);
    assert!(busy.contains("`far` is in a bridge"), "{busy}");
    assert!(!links.exists("m1").expect("ask"));
}

#[test]
fn a_macvtap_that_was_left_behind_is_replaced_and_anybody_elses_is_not() {
    if !macvtaps() {
        return;
    }
    let netns = veth();
    let good = macvtap_config(&netns);
    // As after a kill: it is not deleted.
    std::mem::forget(macvtap::open("m0", ON_NEAR, &good).expect("macvtap"));
    let again = macvtap::open("m0", ON_NEAR, &good).expect("in its place");
    drop(again);
    ip(&netns, "link add link near name m0 type macvtap mode bridge");
    assert!(matches!(macvtap::open("m0", ON_NEAR, &good), Err(Error::InUse { .. })));
    netns.run(|| uplink::Undo::of_macvtap("m0").now()).expect("enter");
    assert!(netns.links().expect("links").exists("m0").expect("ask"), "it is somebody else's");
}

#[test]
fn what_is_no_bridge_takes_no_tap() {
    if !devices() {
        return;
    }
    let netns = veth();
    let links = netns.links().expect("links");
    let fails =
        |bridge: &str| bridge::open("t0", bridge, &tap_config(&netns)).expect_err("refused").to_string();
    assert_eq!(fails("br9"), "looking for `br9`: there is no such interface");
    let no_bridge = fails("near");
    assert!(no_bridge.contains("`near` is no bridge"), "{no_bridge}");
    wait_for("its end", || !links.exists("t0").expect("ask"));
}
