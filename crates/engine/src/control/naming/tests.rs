use std::sync::Mutex;

use config::learned::{LearnedMac, Lesson};
use frame::icmpv6;

use super::*;

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 9]);
const VIRTUAL: Mac = Mac([0, 0, 0x5e, 0, 1, 7]);
/// Addresses of the virtual router, and others of the router.
const SHARED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);
const SHARED_SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const OTHER_SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3);
const HOST_SIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

/// A sink that remembers.
#[derive(Default)]
struct Heard(Mutex<Vec<Vec<u8>>>);

impl Sink for Heard {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        self.0.lock().expect("no thread panicked").extend(frames.iter().map(octets));
        frames.len()
    }
}

fn octets(frame: &Frame<'_>) -> Vec<u8> {
    let mut octets = vec![0; frame.len()];
    frame.octets().copy_to_slice(&mut octets);
    octets
}

struct Bench {
    learned: Arc<Learned>,
    names: Arc<Names>,
}

impl Bench {
    /// The second NIC of a router that has learned nothing yet.
    fn new() -> Self {
        let learned = Arc::<Learned>::default();
        Self { names: Arc::new(Names::new(learned.clone(), 1)), learned }
    }

    /// The router is the master of the virtual router at this NIC.
    fn learn(&self, nic: u8) {
        let macs = vec![LearnedMac { nic, mac: VIRTUAL.0, ips: vec![SHARED.into(), SHARED_SIX.into()] }];
        self.learned.take(&Lesson { macs: Some(macs), ..Lesson::default() });
    }

    /// What leaves if a speaker sends these frames.
    fn heard(&self, speaker: Speaker, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let sink = Arc::new(Heard::default());
        let way = naming(sink.clone(), Some(&self.names), speaker);
        let mut octets = frames.to_vec();
        let shown: Vec<_> = octets.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
        assert_eq!(way.deliver(&shown), frames.len());
        assert_eq!(octets, frames, "only copies change");
        std::mem::take(&mut *sink.0.lock().expect("no thread panicked"))
    }
}

/// A frame from our NIC, or from a virtual router.
fn frame(source: Mac, ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; (ethernet::HEADER + packet.len()).max(ethernet::SHORTEST)];
    let header = ethernet::Header { destination: HOST, source, ethertype };
    header.write(&mut octets).expect("room");
    octets[ethernet::HEADER..][..packet.len()].copy_from_slice(packet);
    octets
}

/// ARP that tells a host where this address is.
fn arp(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
    let said = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: mac,
        sender_ip: ip.to_bits(),
        target_mac: HOST,
        target_ip: Ipv4Addr::new(192, 0, 2, 9).to_bits(),
    };
    let mut packet = [0; arp::LEN];
    said.write(&mut packet).expect("room");
    frame(mac, ethernet::ARP, &packet)
}

/// An ICMPv6 message, of which the payload is written before its header.
fn message(
    (mac, source): (Mac, Ipv6Addr),
    write: impl FnOnce(&mut [u8]) -> Result<(usize, icmpv6::Header), frame::Error>,
) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER + icmpv6::HEADER + 64];
    let (len, header) = write(&mut packet[ipv6::HEADER + icmpv6::HEADER..]).expect("room");
    packet.truncate(ipv6::HEADER + icmpv6::HEADER + len);
    packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, (icmpv6::HEADER + len) as u8, ipv6::next::ICMP, 255]);
    packet[8..24].copy_from_slice(&source.octets());
    packet[24..40].copy_from_slice(&HOST_SIX.octets());
    header.write(&mut packet[ipv6::HEADER..], (source.to_bits(), HOST_SIX.to_bits())).expect("room");
    frame(mac, ethernet::IPV6, &packet)
}

/// A neighbour advertisement that tells where this address is.
fn advert(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    let (target, target_mac) = (ip.to_bits(), Some(mac));
    let said = nd::Advert { target, target_mac, router: true, solicited: true, overrides: true };
    message((mac, ip), |payload| said.write(payload))
}

/// A neighbour solicitation from this address.
fn solicit(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    let asked = nd::Solicit { target: HOST_SIX.to_bits(), source_mac: Some(mac) };
    message((mac, ip), |payload| asked.write(payload))
}

fn tagged(octets: &[u8]) -> Vec<u8> {
    [&octets[..12], &[0x81, 0, 0, 5], &octets[12..]].concat()
}

/// All that may be told, by these Ethernet addresses: of what is shared, and of what is not.
fn all(shared: Mac, other: Mac) -> Vec<Vec<u8>> {
    vec![
        arp(shared, SHARED),
        frame(OURS, ethernet::IPV4, &[0x45; 40]),
        advert(shared, SHARED_SIX),
        arp(other, OTHER),
        tagged(&arp(shared, SHARED)),
        advert(other, OTHER_SIX),
        solicit(shared, SHARED_SIX),
        solicit(other, OTHER_SIX),
    ]
}

#[test]
fn the_addresses_of_a_virtual_router_are_told_by_its_master_alone() {
    let (bench, said) = (Bench::new(), all(OURS, OURS));
    assert_eq!(bench.heard(Speaker::Router, &said), said, "another one is the master");
    bench.learn(0);
    assert_eq!(bench.heard(Speaker::Router, &said), said, "it is at another NIC");
    bench.learn(1);
    assert_eq!(bench.heard(Speaker::Router, &said), all(VIRTUAL, OURS));
    bench.learned.take(&Lesson { macs: Some(Vec::new()), ..Lesson::default() });
    assert_eq!(bench.heard(Speaker::Router, &said), said, "the other one is the master again");
}

#[test]
fn the_control_plane_asks_by_arp_as_the_virtual_router() {
    let bench = Bench::new();
    bench.learn(1);
    let said = [arp(OURS, SHARED), solicit(OURS, SHARED_SIX), advert(OURS, SHARED_SIX), vec![0; 14]];
    let mut heard = said.to_vec();
    heard[0] = arp(VIRTUAL, SHARED);
    assert_eq!(bench.heard(Speaker::Control, &said), heard);
}

#[test]
fn what_is_cut_off_tells_nothing() {
    for whole in [arp(OURS, SHARED), advert(OURS, SHARED_SIX), solicit(OURS, SHARED_SIX)] {
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            let told = name(&mut cut, Speaker::Router, |_| Some(VIRTUAL.0));
            assert!(told.is_some() || cut == whole[..len], "{len} octets");
        }
    }
}
