//! Objective: tshark finds no fault in the frames that an e1000 makes from offloaded ones (segmentation of 15 KB and 64 KB, with
//! IPv4 and TCP checksums), in every transmit mode and with both engines.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use bootinfo::{Role, TrafficInfo};
use config::Engine;
use engine::{Confinement, ExecutionBackend, Guest, GuestTask, Idle, IoThread, Pump};
use support::{Capture, Dissected, Namespace, alone, dissect};
use uplink::{Tap, TapConfig};

const TAP: &str = "t19-segments";
const SOURCE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SINK: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// Octets of Ethernet, IPv4 and TCP headers.
const HEADERS: usize = 54;
/// Octets of a segment on the wire.
const SEGMENT: usize = 1514;
/// Fewest segments that are examined; the source repeats the same octets.
const MANY: usize = 60;

/// Captures the frames of a source of large frames at a TAP for a while.
fn captured(engine: Engine, mode: &str, payload: usize, file: &Path) {
    let host = Namespace::add(TAP).expect("a namespace");
    // Without offloads on the TAP, the device has to segment.
    let tap = Tap::open(TAP, &TapConfig { offload: false, ..TapConfig::default() }).expect("a TAP");
    host_takes(&host);
    let capture = Capture::start(&host, TAP, file).expect("a capture");
    let mut guest = source(engine, mode, payload);
    guest.start().expect("it starts");
    let (_, sink) = tap.split();
    let nic = &guest.nics()[0];
    nic.transmit_in_access(sink.clone());
    let pumps = vec![Pump { source: nic.source(), sink }];
    let io = IoThread::spawn("t19/vhost", &[], pumps, Idle::Poll, Confinement::Off).expect("a thread");
    capture.wait_for(MANY, |_| true).expect("segments come");
    assert_eq!(guest.fault(), None);
    guest.stop();
    // The interface disappears with the I/O thread that serves it. The source sends as fast as it can, and each segment is
    // examined separately.
    capture.stop_with_some().expect("it ends");
    drop(io);
}

/// Moves the TAP into the namespace.
fn host_takes(host: &Namespace) {
    let mut ip = std::process::Command::new("ip");
    let done = support::run(ip.args(["link", "set", TAP, "netns", host.name()]), Duration::from_secs(60))
        .expect("it ends");
    assert!(done.status.success(), "{}", done.stderr);
    host.ip(&["link", "set", TAP, "up"]).expect("up");
}

fn source(engine: Engine, mode: &str, payload: usize) -> Guest {
    let text = format!(
        "[[router]]\nname = 't19'\nengine = '{}'\n\
         [[router.nic]]\nname = 'nic'\nmodel = 'e1000'\nmode = '{mode}'\nattach = 'null'\n",
        engine.name()
    );
    let plan = config::parse(&text, "t19.toml").expect("a good file").routers.remove(0);
    let traffic = TrafficInfo {
        frame_len: (payload + HEADERS) as u32,
        segment_len: SEGMENT as u32,
        flows: 4,
        from_ip: SOURCE.to_bits(),
        to_ip: SINK.to_bits(),
        to_mac: [2, 0, 0, 0, 0x19, 9, 0, 0],
        ..TrafficInfo::default()
    };
    let backend = ExecutionBackend::open(engine).expect("an engine");
    Guest::new(&plan, GuestTask { role: Role::Source, traffic }, &backend).expect("a guest")
}

const FIELDS: &[&str] = &[
    "ip.src",
    "ip.dst",
    "ip.len",
    "ip.checksum.status",
    "tcp.len",
    "tcp.checksum.status",
    "tcp.flags.fin",
    "tcp.flags.push",
];

/// Describes what is wrong with a segment; none if it is a valid segment of a frame.
fn fault(segment: &Dissected, payload: usize) -> Option<String> {
    let number = |field| segment.number(field).unwrap_or(u64::MAX) as usize;
    let octets = number("tcp.len");
    let is_whole = octets == SEGMENT - HEADERS || octets == payload % (SEGMENT - HEADERS);
    let is_right = segment.get("ip.src") == Some("192.0.2.1")
        && segment.get("ip.dst") == Some("192.0.2.2")
        && number("ip.checksum.status") == 1
        && number("tcp.checksum.status") == 1
        && number("ip.len") == octets + 40
        && is_whole;
    (!is_right).then(|| format!("{segment:?}"))
}

fn every_mode(engine: Engine, modes: &[&str]) {
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    for payload in [15_000, 65_480] {
        for mode in modes {
            let file = folder.path().join(format!("{mode}-{payload}.pcap"));
            captured(engine, mode, payload, &file);
            let segments = dissect(&file, "ip", FIELDS).expect("it reads");
            assert!(segments.len() >= MANY, "{mode}, {payload}: {} segments", segments.len());
            let wrong: Vec<_> =
                segments.iter().filter_map(|segment| fault(segment, payload)).take(3).collect();
            assert_eq!(wrong, [""; 0], "{mode}, {payload}");
            let broken = dissect(&file, "_ws.malformed or _ws.short", FIELDS).expect("it reads");
            assert_eq!(broken, [], "{mode}, {payload}");
        }
    }
}

mod all {
    use super::*;

    #[test]
    fn segments_under_kvm() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        every_mode(Engine::Kvm, &["base", "async", "send-combining", "csb", "coalesced"]);
    }

    #[test]
    fn segments_of_a_process() {
        support::needs!(Root, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        every_mode(Engine::Process, &["base", "async", "send-combining", "csb"]);
    }
}
