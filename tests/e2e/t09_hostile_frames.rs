//! Objective: whatever a network sends (truncated and giant frames, broken IP headers, options, fragments, invalid ARP,
//! noise, storms), the router continues to forward, and its ledger accounts for every frame.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

use support::{Counters, Mac, Namespace, Packet, PacketSocket, Stage, udp};

const NIC: Mac = [2, 0, 0, 0, 9, 1];
const HOST: Mac = [2, 0, 0, 0, 9, 0x11];
const BROADCAST: Mac = [0xff; 6];
const LEFT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const STORM: u32 = 200_000;
/// Timeout of every step, generous for a busy host.
const PATIENCE: Duration = Duration::from_secs(60);
/// Frames between two checks of how many the router has taken, and the most that may still be queued then: the kernel's
/// queue in front of the router holds 1000.
const CHUNK: u64 = 250;
const WAITING: u64 = 500;

const FILE: &str = "[[router]]\nname = \"t09\"\n\
    [[router.nic]]\nname = \"left\"\nattach = \"tap:t09-left\"\naddress = \"192.0.2.1/24\"\nmac = \"02:00:00:00:09:01\"\n\
    [[router.nic]]\nname = \"right\"\nattach = \"tap:t09-right\"\naddress = \"198.51.100.1/24\"\nmtu = 1200\n";

struct Site {
    stage: Stage,
    left: Namespace,
    right: Namespace,
    wire: PacketSocket,
    /// Number of frames that [`Site::send`] has sent.
    sent: Cell<u64>,
}

fn site() -> Site {
    let mut stage = Stage::start(env!("CARGO_BIN_EXE_ringroad"), FILE).expect("it starts");
    let left = stage.host("t09-left", "192.0.2.2/24", "192.0.2.1").expect("left");
    let right = stage.host("t09-right", "198.51.100.2/24", "198.51.100.1").expect("right");
    left.ip(&["link", "set", "t09-left", "address", "02:00:00:00:09:11"]).expect("an address");
    // The kernel must pass frames that are larger than the router's NIC accepts.
    left.ip(&["link", "set", "t09-left", "mtu", "16000"]).expect("a large MTU");
    let wire = PacketSocket::open(&left, "t09-left").expect("a packet socket");
    Site { stage, left, right, wire, sent: Cell::new(0) }
}

impl Site {
    /// Checks that the router still forwards in both directions. The host on the left may have to resolve its address
    /// again.
    fn works(&self) {
        for (from, to) in [(&self.left, RIGHT), (&self.right, LEFT)] {
            support::ping(from.command("busybox"), 3, &["-s", "1000", &to.to_string()]).expect("answers");
        }
    }

    /// Sends frames that must arrive, paced so that this host can take them.
    fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        for frame in frames {
            self.wire.send(&frame).expect("sent");
            self.sent.update(|sent| sent + 1);
            if self.sent.get().is_multiple_of(CHUNK) {
                self.keep_back();
            }
        }
    }

    /// Waits until few of the frames that were sent are still queued for the router.
    fn keep_back(&self) {
        let is_read = |name: &str| {
            let what = name.strip_prefix("t09.left.tap.read.");
            what.is_some_and(|what| what == "frames" || what.starts_with("drop_"))
        };
        let taken = |counters: &Counters| counters.sum(is_read) + WAITING >= self.sent.get();
        self.stage.wait_for_counters(taken).expect("the router takes them");
    }

    fn finish(self) -> Counters {
        self.finish_after(&[])
    }

    /// Ends a run that has printed exactly these messages, one per line.
    fn finish_after(mut self, told: &[&str]) -> Counters {
        self.works();
        for told in told {
            self.stage.run().wait_for_line(PATIENCE, |line| line.contains(told)).expect("it is told");
        }
        let done = self.stage.finish_troubled(vec![self.left, self.right]).expect("nothing is left");
        let lines: Vec<&str> = done.stderr.lines().collect();
        let as_said = lines.iter().zip(told).all(|(line, told)| line.contains(told));
        assert!(as_said && lines.len() == told.len(), "{lines:?}");
        let counters = Counters::of(done.stdout.lines()).expect("counters");
        assert_eq!(counters.faults("t09"), [""; 0]);
        // Every frame that the kernel handed over is in the ring, or dropped under a name.
        let read = counters.get("t09.left.tap.read.frames");
        let dropped = counters.sum(|name| name.starts_with("t09.left.rx.drop_"));
        assert_eq!(counters.get("t09.left.rx.frames") + dropped, read);
        counters
    }
}

fn packet(data: usize) -> Packet {
    Packet {
        to: NIC,
        from: HOST,
        source: LEFT,
        destination: RIGHT,
        ttl: 64,
        tos: 0,
        id: 9,
        fragment: 0,
        options: vec![],
        protocol: 17,
        payload: udp(LEFT, RIGHT, (9, 9), &vec![0x99; data]),
    }
}

fn changed(change: impl FnOnce(&mut Packet)) -> Vec<u8> {
    let mut packet = packet(100);
    change(&mut packet);
    packet.frame()
}

/// Returns a frame with one octet of its IP header overwritten, and the checksum unchanged.
fn broken(place: usize, octet: u8) -> Vec<u8> {
    let mut frame = packet(100).frame();
    frame[14 + place] = octet;
    frame
}

#[test]
fn broken_frames_and_headers() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let site = site();
    site.works();
    // Every length up to the UDP header; the packet socket itself refuses less than an Ethernet header.
    let whole = packet(100).frame();
    site.send((14..60).map(|length| whole[..length].to_vec()));
    // Frames for other stations.
    site.send([changed(|p| p.to = [2, 0, 0, 0, 9, 9]), changed(|p| p.to = [0; 6])]);
    // A frame longer than its header says, with arbitrary padding.
    site.send([[&whole[..], &[0xee; 200]].concat()]);
    // Frames larger than the outgoing link accepts, than the router's NIC accepts, and than the TAP reads.
    site.send(
        [1300, 1450, 1472, 1473, 2000, 8000, 9300, 12_000, 15_000].map(|octets| packet(octets).frame()),
    );
    // Invalid versions, header lengths, total lengths, flags, checksums.
    let places = [0, 2, 3, 6, 10];
    site.send((0..=255).flat_map(|octet| places.map(|place| broken(place, octet))));
    let counters = site.finish();
    assert!(counters.get("t09.vcpu0.drop_ip_header") >= 1000, "{counters:?}");
    assert!(counters.get("t09.vcpu0.drop_ethernet") >= 1, "{counters:?}");
    let giants = counters.get("t09.left.tap.read.drop_too_long") + counters.get("t09.left.rx.drop_too_long");
    assert!(giants >= 3, "{counters:?}");
}

/// Builds an ARP frame for IPv4 over Ethernet.
fn arp(to: Mac, operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    let head = [&to[..], &sender.0, &[8, 6, 0, 1, 8, 0, 6, 4], &operation.to_be_bytes()].concat();
    [&head[..], &sender.0, &sender.1.octets(), &target.0, &target.1.octets()].concat()
}

#[test]
fn arp_garbage() {
    support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
    let site = site();
    site.works();
    let good = arp(BROADCAST, 1, (HOST, LEFT), ([0; 6], ROUTER));
    site.send((14..42).map(|length| good[..length].to_vec()));
    // Overwrite each octet of the header with each of some values.
    for place in 12..22 {
        site.send([0, 1, 2, 7, 0x7f, 0x80, 0xff].map(|octet| {
            let mut frame = good.clone();
            frame[place] = octet;
            frame
        }));
    }
    // Claims to be the router, no one, everyone; unsolicited answers.
    for address in [ROUTER, Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, RIGHT] {
        for operation in [0, 1, 2, 3, 0xffff] {
            for mac in [HOST, BROADCAST, NIC, [0; 6]] {
                site.send([arp(NIC, operation, (mac, address), (NIC, ROUTER))]);
            }
        }
    }
    // More stations than any table holds.
    site.send((0..20_000u32).map(|n| {
        let [.., a, b] = n.to_be_bytes();
        let mac = [2, 9, 9, 9, a, b];
        arp(BROADCAST, 1, (mac, Ipv4Addr::new(192, 0, 2, b)), ([0; 6], ROUTER))
    }));
    site.stage.settle();
    // The host announces its address again.
    site.send([arp(BROADCAST, 1, (HOST, LEFT), (HOST, LEFT))]);
    let counters = site.finish_after(&["says that it has 192.0.2.1, which is this router's"]);
    assert!(counters.get("t09.vcpu0.arp_conflicts") > 0, "{counters:?}");
}

/// Another station claims the router's address: one event names the station, and a counter increases.
#[test]
fn another_station_with_the_router_s_address_is_told_of() {
    support::needs!(Root, Kvm, Tun, Program("ip"));
    let site = site();
    // ARP announcement (RFC 5227, section 2.3).
    let own = ROUTER.octets();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &HOST, &own, &[0; 6], &own].concat();
    let claim = [&BROADCAST[..], &HOST, &[8, 6], &arp, &[0; 18]].concat();
    for _ in 0..5 {
        site.wire.send(&claim).expect("sent");
    }
    let told = "NIC left: another station (02:00:00:00:09:11) says that it has 192.0.2.1";
    let counters = site.finish_after(&[told]);
    assert_eq!(counters.get("t09.vcpu0.arp_conflicts"), 5, "{counters:?}");
}

/// Returns a frame for the router's NIC with random content, half of the time with the EtherType of IPv4.
fn noise(state: &mut u32) -> Vec<u8> {
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        *state
    };
    let length = 2 + next() as usize % 200;
    let mut rest: Vec<u8> = (0..length).map(|_| next() as u8).collect();
    if next() % 2 == 0 {
        rest[..2].copy_from_slice(&[8, 0]);
    }
    [&NIC[..], &HOST, &rest].concat()
}

mod all {
    use super::*;

    #[test]
    fn noise_and_storms() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let site = site();
        site.works();
        let to_all = Packet { to: BROADCAST, destination: Ipv4Addr::BROADCAST, ..packet(10) }.frame();
        let expired = Packet { ttl: 1, ..packet(10) }.frame();
        let for_router = Packet { destination: ROUTER, ..packet(10) }.frame();
        let through = packet(10).frame();
        let asks = arp(BROADCAST, 1, (HOST, LEFT), ([0; 6], ROUTER));
        // A neighbour that does not exist: each of these packets waits for an answer that does not come.
        let into_the_void = Packet { destination: Ipv4Addr::new(198, 51, 100, 99), ..packet(10) }.frame();
        let mut state = 0x9e37_79b9u32;
        for n in 0..STORM {
            let frame = match n % 8 {
                0 => &to_all,
                1 => &expired,
                2 => &for_router,
                3 => &asks,
                4 => &into_the_void,
                5 => &noise(&mut state),
                _ => &through,
            };
            site.wire.send(frame).expect("sent");
        }
        // Packets wait for neighbours that do not answer; then they are dropped under a name.
        let lost = |counters: &Counters| counters.get("t09.vcpu0.drop_no_neighbour") > 0;
        site.stage.wait_for_counters(lost).expect("the router gives up");
        let counters = site.finish();
        let read = counters.get("t09.left.tap.read.frames") + counters.get("t09.left.tap.read.drop_too_long");
        println!("{read} of {STORM} frames reached the router's TAP");
        assert!(counters.get("t09.vcpu0.forwarded") > 1000, "{counters:?}");
        for cause in ["drop_ttl", "drop_local", "drop_no_neighbour", "icmp_suppressed"] {
            assert!(counters.get(&format!("t09.vcpu0.{cause}")) > 0, "{cause}: {counters:?}");
        }
    }

    #[test]
    fn addresses_options_and_fragments() {
        support::needs!(Root, Kvm, Tun, Program("ip"), Program("busybox"));
        let site = site();
        let strange = [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.5",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.255",
            "198.51.100.255",
        ];
        for address in strange.map(|text| text.parse::<Ipv4Addr>().expect("an address")) {
            site.send([changed(|p| p.destination = address), changed(|p| p.source = address)]);
            site.send([changed(|p| (p.destination, p.to) = (address, BROADCAST))]);
        }
        site.send([changed(|p| p.source = ROUTER), changed(|p| (p.source, p.destination) = (RIGHT, LEFT))]);
        // Options: record route, loose source route, invalid lengths, only padding.
        for kind in [0, 1, 7, 68, 131, 137, 148, 255] {
            for length in [0, 1, 3, 7, 40, 255] {
                let mut options = vec![kind, length, 4, 0];
                options.resize(40, kind);
                site.send([changed(|p| p.options = options.clone())]);
                site.send([changed(|p| (p.options, p.ttl) = (options.clone(), 1))]);
                site.send([changed(|p| (p.options, p.destination) = (options, ROUTER))]);
            }
        }
        // Fragments: first, middle, overlapping, beyond 65535, to the router and through it; small and too large.
        for offset in [0, 1, 2, 100, 8189, 8191] {
            for flags in [0, 0x2000, 0x4000, 0x6000, 0x8000] {
                let fragment = flags | offset;
                site.send([
                    changed(|p| p.fragment = fragment),
                    changed(|p| (p.fragment, p.destination) = (fragment, ROUTER)),
                ]);
                site.send([
                    Packet { fragment, ..packet(1400) }.frame(),
                    changed(|p| (p.fragment, p.ttl) = (fragment, 1)),
                ]);
            }
        }
        // Every protocol, to the router and through it.
        for protocol in 0..=255 {
            site.send([
                changed(|p| p.protocol = protocol),
                changed(|p| (p.protocol, p.destination) = (protocol, ROUTER)),
            ]);
        }
        let counters = site.finish();
        assert!(counters.get("t09.vcpu0.drop_martian") >= 10, "{counters:?}");
        assert!(counters.get("t09.vcpu0.drop_ttl") >= 40, "{counters:?}");
    }
}
