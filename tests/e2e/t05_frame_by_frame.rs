//! Objective: tshark, which shares no code with the router, finds every forwarded frame to be what was sent, with the TTL
//! decremented by one, right checksums, the next link's addresses and an unchanged payload; ICMP errors are well formed; there is
//! nothing else but ARP.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use support::{
    Capture, Counters, Dissected, Mac, Namespace, Packet, PacketSocket, Stage, differences, dissect, udp,
};

const LEFT_NIC: Mac = [2, 0, 0, 0, 5, 1];
const RIGHT_NIC: &str = "02:00:00:00:05:02";
const FILE_NIC: &str = "02:00:00:00:05:03";
const LEFT_HOST: Mac = [2, 0, 0, 0, 5, 0x11];
const RIGHT_HOST: &str = "02:00:00:00:05:12";
const FILE_HOST: &str = "02:00:00:00:05:13";
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const BEHIND_FILE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const PORT: u16 = 4005;
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);

fn file() -> String {
    format!(
        "[[router]]\nname = \"t05\"\n\
         [[router.nic]]\nname = \"left\"\nattach = \"tap:t05-left\"\naddress = \"192.0.2.1/24\"\nmac = \"02:00:00:00:05:01\"\n\
         [[router.nic]]\nname = \"right\"\nattach = \"tap:t05-right\"\naddress = \"198.51.100.1/24\"\nmac = \"{RIGHT_NIC}\"\n\
         [[router.nic]]\nname = \"file\"\nattach = \"pcap:out.pcap\"\naddress = \"203.0.113.1/24\"\nmac = \"{FILE_NIC}\"\nmtu = 1400\n\
         [[router.neighbour]]\naddress = \"{BEHIND_FILE}\"\nmac = \"{FILE_HOST}\"\n"
    )
}

struct Site {
    stage: Stage,
    left: Namespace,
    right: Namespace,
    wire: PacketSocket,
}

fn site() -> Site {
    let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), &file()).expect("it starts");
    let left = stage.host("t05-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t05-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    left.ip(&["link", "set", "t05-left", "address", "02:00:00:00:05:11"]).expect("an address");
    right.ip(&["link", "set", "t05-right", "address", RIGHT_HOST]).expect("an address");
    let wire = PacketSocket::open(&left, "t05-left").expect("a packet socket");
    Site { stage, left, right, wire }
}

/// Returns the nth packet: lengths, TTLs, DSCP, flags and options all differ.
fn packet(n: u16, destination: Ipv4Addr) -> Packet {
    let data: Vec<u8> = (0..usize::from(n) * 34).map(|at| (at * 31 + usize::from(n)) as u8).collect();
    Packet {
        to: LEFT_NIC,
        from: LEFT_HOST,
        source: LEFT,
        destination,
        ttl: if n == 0 { 2 } else { (n * 6 + 3) as u8 },
        tos: (n * 5) as u8,
        id: n.wrapping_mul(2953),
        fragment: if n.is_multiple_of(2) { 0x4000 } else { 0 },
        // Three no-operation options, and the end of the list.
        options: if n.is_multiple_of(7) { vec![1, 1, 1, 0] } else { vec![] },
        protocol: 17,
        payload: udp(LEFT, destination, (1000 + n, PORT), &data),
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

const FIELDS: &[&str] = &[
    "eth.src",
    "eth.dst",
    "ip.ttl",
    "ip.dsfield",
    "ip.id",
    "ip.len",
    "ip.hdr_len",
    "ip.checksum.status",
    "udp.srcport",
    "udp.checksum.status",
    "udp.payload",
];

/// Fields that tshark must report for a packet behind the router.
fn expected(sent: &Packet, from: &str, to: &str) -> Vec<(&'static str, String)> {
    let header = 20 + sent.options.len();
    let mut fields = vec![
        ("eth.src", from.to_owned()),
        ("eth.dst", to.to_owned()),
        ("ip.ttl", (sent.ttl - 1).to_string()),
        ("ip.dsfield", format!("0x{:02x}", sent.tos)),
        ("ip.id", format!("0x{:04x}", sent.id)),
        ("ip.len", (header + sent.payload.len()).to_string()),
        ("ip.hdr_len", header.to_string()),
        ("ip.checksum.status", "1".to_owned()),
        ("udp.srcport", u16::from_be_bytes([sent.payload[0], sent.payload[1]]).to_string()),
        ("udp.checksum.status", "1".to_owned()),
    ];
    if sent.payload.len() > 8 {
        fields.push(("udp.payload", hex(&sent.payload[8..])));
    }
    fields
}

#[test]
fn every_forwarded_frame() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
    let mut site = site();
    // A socket listens on the port, so that the host sends no ICMP error.
    let listen = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT));
    let listener = site.right.inside(listen).expect("inside").expect("bind");
    listener.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let path = site.stage.path("right.pcap");
    let capture = Capture::start(&site.right, "t05-right", &path).expect("a capture");
    let to_right: Vec<Packet> = (0..41).map(|n| packet(n, RIGHT)).collect();
    let to_file: Vec<Packet> = (0..38).map(|n| packet(n, BEHIND_FILE)).collect();
    // The first packet waits in the router while that resolves the neighbour's address.
    site.wire.send(&to_right[0].frame()).expect("sent");
    listener.recv(&mut []).expect("the first one comes");
    for sent in to_right[1..].iter().chain(&to_file) {
        site.wire.send(&sent.frame()).expect("sent");
    }
    // IPv4 with at most one word of options, and UDP.
    let is_udp = |frame: &[u8]| frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17);
    capture.wait_for(to_right.len(), is_udp).expect("all come");
    // The packets for the file attachment came last.
    let all = (to_right.len() + to_file.len()) as u64;
    let forwarded = |counters: &Counters| counters.get("t05.vcpu0.forwarded") >= all;
    site.stage.wait_for_counters(forwarded).expect("all are forwarded");
    capture.stop().expect("it ends");
    site.stage.stop().expect("it ends");
    check(&path, &to_right, RIGHT_NIC, RIGHT_HOST);
    check(&site.stage.path("out.pcap"), &to_file, FILE_NIC, FILE_HOST);
    let counters = site.stage.finish(vec![site.left, site.right]).expect("nothing is left");
    assert_eq!((all, counters.get("t05.vcpu0.forwarded")), (79, 79), "{counters:?}");
    assert_eq!(counters.faults("t05"), [""; 0]);
}

fn check(path: &std::path::Path, sent: &[Packet], from: &str, to: &str) {
    let forwarded = dissect(path, &format!("udp.dstport == {PORT}"), FIELDS).expect("it reads");
    let expected: Vec<_> = sent.iter().map(|sent| expected(sent, from, to)).collect();
    assert_eq!(differences(&forwarded, &expected), [""; 0], "{}", path.display());
    let others = dissect(path, &format!("not arp and not udp.dstport == {PORT}"), FIELDS).expect("it reads");
    assert_eq!(others, [], "{}", path.display());
    let broken = dissect(path, "_ws.malformed or _ws.short", FIELDS).expect("it reads");
    assert_eq!(broken, [], "{}", path.display());
}

/// Packets that provoke an ICMP error, with its type and code, and the router's address that must be its source.
fn provocations() -> Vec<(Packet, [u8; 2], &'static str)> {
    let expired = Packet { ttl: 1, ..packet(2, RIGHT) };
    let nowhere = packet(3, Ipv4Addr::new(233 - 100, 5, 6, 7));
    // 14 + 20 + 8 + 1360 octets: a frame that fits the link before the router but not the one behind it; with DF.
    let too_large = Packet { fragment: 0x4000, ..packet(43, BEHIND_FILE) };
    let no_port = packet(4, Ipv4Addr::new(192, 0, 2, 1));
    let no_protocol = Packet { protocol: 253, ..packet(6, Ipv4Addr::new(192, 0, 2, 1)) };
    let no_answer = packet(5, Ipv4Addr::new(198, 51, 100, 77));
    vec![
        (expired, [11, 0], "192.0.2.1"),
        (nowhere, [3, 0], "192.0.2.1"),
        (too_large, [3, 4], "192.0.2.1"),
        (no_port, [3, 3], "192.0.2.1"),
        (no_protocol, [3, 2], "192.0.2.1"),
        (no_answer, [3, 1], "192.0.2.1"),
    ]
}

fn error_fields([kind, code]: [u8; 2], from: &str) -> Vec<(&'static str, String)> {
    vec![
        ("eth.src", "02:00:00:00:05:01".to_owned()),
        ("eth.dst", "02:00:00:00:05:11".to_owned()),
        ("ip.src", from.to_owned()),
        ("ip.dst", LEFT.to_string()),
        ("ip.checksum.status", "1".to_owned()),
        ("icmp.type", kind.to_string()),
        ("icmp.code", code.to_string()),
        ("icmp.checksum.status", "1".to_owned()),
    ]
}

/// Checks that the packet quoted in an error is the one that was sent, as received.
fn check_quotation(error: &Dissected, sent: &Packet) {
    let inner = |field: &str| error.each(field).nth(1).unwrap_or("missing").to_owned();
    let found = [inner("ip.src"), inner("ip.dst"), inner("ip.ttl"), inner("ip.id")];
    let wanted =
        [LEFT.to_string(), sent.destination.to_string(), sent.ttl.to_string(), format!("0x{:04x}", sent.id)];
    assert_eq!(found, wanted);
}

mod all {
    use super::*;

    #[test]
    fn every_icmp_error() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("tcpdump"), Program("tshark"));
        let site = site();
        let path = site.stage.path("left.pcap");
        let capture = Capture::start(&site.left, "t05-left", &path).expect("a capture");
        let provocations = provocations();
        let is_icmp = |frame: &[u8]| frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&1);
        // One after the other, because the router keeps few errors that wait for the host's Ethernet address. The last error comes
        // when the router has given up resolving the neighbour.
        for (number, (sent, ..)) in provocations.iter().enumerate() {
            site.wire.send(&sent.frame()).expect("sent");
            capture.wait_for(number + 1, is_icmp).expect("each comes");
        }
        capture.stop().expect("it ends");
        let fields = &[
            "eth.src",
            "eth.dst",
            "ip.src",
            "ip.dst",
            "ip.ttl",
            "ip.id",
            "ip.checksum.status",
            "icmp.type",
            "icmp.code",
            "icmp.checksum.status",
            "icmp.mtu",
        ];
        let errors = dissect(&path, "icmp", fields).expect("it reads");
        let expected: Vec<_> = provocations.iter().map(|(_, kind, from)| error_fields(*kind, from)).collect();
        assert_eq!(differences(&errors, &expected), [""; 0]);
        for (error, (sent, ..)) in errors.iter().zip(&provocations) {
            check_quotation(error, sent);
        }
        assert_eq!(errors[2].number("icmp.mtu"), Some(1400));
        assert_eq!(dissect(&path, "not arp and not icmp", fields).expect("it reads"), []);
        assert_eq!(dissect(&path, "_ws.malformed", fields).expect("it reads"), []);
        let counters = site.stage.finish(vec![site.left, site.right]).expect("nothing is left");
        assert_eq!(counters.faults("t05"), [""; 0]);
    }
}
