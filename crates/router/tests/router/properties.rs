//! Properties for arbitrary frames: every loss is counted, and packets go where the reference router sends them.

use frame::{arp, ipv4};
use proptest::collection::vec;
use proptest::prelude::*;

use router::Address;

use crate::reference::{Fate, fate};
use crate::world::*;

fn address() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => (0u8..4, 0u8..5).prop_map(|(nic, host)| ip(10, 0, nic, host)),
        4 => any::<u16>().prop_map(|low| ip(192, 168, 0, 0) | u32::from(low)),
        3 => (16u8..34, any::<u8>()).prop_map(|(b, d)| ip(172, b, 0, d)),
        1 => Just(u32::MAX),
        1 => (0u8..3).prop_map(|nic| ip(10, 0, nic, 255)),
        1 => any::<u8>().prop_map(|d| ip(198, 51, 100, d)),
        1 => any::<u8>().prop_map(|d| ip(203, 0, 113, d)),
        2 => any::<u32>(),
    ]
}

fn ipv4() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let ttl = prop_oneof![4 => Just(64u8), 1 => 0u8..3, 1 => any::<u8>()];
    let protocol = prop_oneof![4 => Just(17u8), 2 => Just(1u8), 1 => any::<u8>()];
    let len = prop_oneof![3 => 0usize..60, 1 => 500usize..600, 1 => 0usize..1400];
    let lengths = (5u8..8, len);
    let bits =
        (prop::bool::weighted(0.3), prop::bool::weighted(0.1), prop_oneof![9 => Just(0u16), 1 => 0u16..8000]);
    (0u8..3, address(), address(), ttl, protocol, lengths, bits).prop_map(
        |(nic, source, destination, ttl, protocol, (words, len), (dont_fragment, more_fragments, offset))| {
            let header = ipv4::Header {
                header_len: words * 4,
                total_len: u16::from(words) * 4 + len as u16,
                ttl,
                dont_fragment,
                more_fragments,
                fragment_offset: offset,
                ..ipv4::Header::new(protocol, source, destination, 0)
            };
            let payload: Vec<u8> = (0..len).map(|n| n as u8).collect();
            (nic, ipv4_frame(nic, header, &payload))
        },
    )
}

/// False for the one network with several gateways: which of them a packet takes depends on which of them answer.
fn has_one_gateway((_, frame): &(u8, Vec<u8>)) -> bool {
    const DESTINATION: usize = 14 + 16;
    frame[DESTINATION] != 23
}

fn echo() -> impl Strategy<Value = (u8, Vec<u8>)> {
    (0u8..3, address(), 0usize..1200).prop_map(|(nic, destination, len)| {
        let message = icmp_message(8, 0, 5, &vec![7; len]);
        let header = ipv4::Header::new(ipv4::ICMP, ip(10, 0, nic, 2), destination, message.len() as u16);
        (nic, ipv4_frame(nic, header, &message))
    })
}

fn arp() -> impl Strategy<Value = (u8, Vec<u8>)> {
    (0u8..3, any::<bool>(), any::<bool>(), any::<u8>(), address(), address()).prop_map(
        |(nic, request, all, mac, sender_ip, target_ip)| {
            let to = if all { frame::Mac::BROADCAST } else { own_mac(nic) };
            let operation = if request { arp::Operation::Request } else { arp::Operation::Reply };
            let sender_mac = frame::Mac([2, 0, 0, 0, 1, mac]);
            let packet = arp::Packet { operation, sender_mac, sender_ip, target_mac: to, target_ip };
            (nic, arp_frame(to, &packet))
        },
    )
}

fn any_frame() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let good = prop_oneof![6 => ipv4(), 2 => arp(), 1 => echo()];
    let noise = (0u8..3, vec(any::<u8>(), 0..100));
    let damaged = (good, any::<prop::sample::Index>(), any::<u8>(), prop::bool::ANY).prop_map(
        |((nic, mut frame), at, octet, cut)| {
            let at = at.index(frame.len());
            if cut {
                frame.truncate(at)
            } else {
                frame[at] = octet
            }
            (nic, frame)
        },
    );
    let good = prop_oneof![6 => ipv4(), 2 => arp(), 1 => echo()];
    prop_oneof![5 => good, 2 => damaged, 1 => noise]
}

/// A destination behind a known gateway.
const GATED: u32 = ip(192, 168, 1, 1);

/// A source address, possibly related to an address of the router.
#[derive(Clone, Debug)]
enum Source {
    Any(u32),
    Own(prop::sample::Index),
    First(prop::sample::Index),
    Last(prop::sample::Index),
    Beside(prop::sample::Index, bool),
}

impl Source {
    fn of(&self, own: &[Address]) -> u32 {
        let hosts = |own: &Address| u32::MAX.checked_shr(own.prefix.into()).unwrap_or(0);
        match self {
            Self::Any(ip) => *ip,
            Self::Own(at) => at.get(own).ip,
            Self::First(at) => at.get(own).ip & !hosts(at.get(own)),
            Self::Last(at) => at.get(own).ip | hosts(at.get(own)),
            Self::Beside(at, up) => at.get(own).ip.wrapping_add(if *up { 1 } else { u32::MAX }),
        }
    }
}

fn source() -> impl Strategy<Value = Source> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        3 => any::<u32>().prop_map(Source::Any),
        2 => at().prop_map(Source::Own),
        1 => at().prop_map(Source::First),
        1 => at().prop_map(Source::Last),
        1 => (at(), any::<bool>()).prop_map(|(at, up)| Source::Beside(at, up)),
    ]
}

proptest! {
    /// In = forwarded + consumed + named drops + held; out = forwarded + created; no buffer is lost.
    #[test]
    fn the_books_balance(
        rounds in vec((vec(any_frame(), 0..80), 0u64..4000), 1..8),
        buffers in prop_oneof![3 => Just(usize::MAX), 1 => 0usize..20],
    ) {
        let mut lab = Lab::default();
        lab.world.free = buffers;
        let mut sent = lab.counters.originated.get();
        for (frames, pause) in rounds {
            for (nic, frame) in frames {
                lab.world.rx[usize::from(nic)].push_back(frame);
            }
            while lab.router.poll(&mut lab.world) > 0 {
                lab.balance();
            }
            lab.wait(pause);
            sent += (0..3).map(|nic| lab.world.sent(nic).len() as u64).sum::<u64>();
            prop_assert_eq!(sent, lab.counters.forwarded.get() + lab.counters.originated.get());
        }
        // Fragments for the router wait longest.
        for _ in 0..40 {
            lab.wait(1000);
            lab.router.poll(&mut lab.world);
        }
        prop_assert_eq!(lab.router.held(), 0);
        prop_assert_eq!(lab.router.held_own(), 0);
    }

    /// Whatever addresses a router has, it forwards no packet from its own addresses, from a broadcast or network
    /// address of its networks, or from an address that is no host; it forwards all others.
    #[test]
    fn a_source_that_cannot_be_is_not_forwarded(
        own in vec((any::<u32>().prop_filter("a host", |ip| !ipv4::is_martian(*ip)), 1u8..=32), 1..24),
        sources in vec(source(), 1..40),
    ) {
        let own: Vec<Address> = own.into_iter().map(|(ip, prefix)| Address { ip, prefix }).collect();
        let mut lab = Lab::with_addresses(&own);
        for source in sources {
            let source = source.of(&own);
            let wide = |own: &Address| own.prefix < 31 && {
                let hosts = u32::MAX.checked_shr(own.prefix.into()).unwrap_or(0);
                source == own.ip & !hosts || source == own.ip | hosts
            };
            let expected = if own.iter().any(|own| own.ip == source) {
                Some("drop_own_source")
            } else if matches!(source >> 24, 0 | 127 | 224..) || own.iter().any(wide) {
                Some("drop_martian")
            } else {
                None
            };
            let before = lab.counters.forwarded.get();
            let came = expected.map(|name| lab.counter(name));
            lab.push(0, ipv4_frame(0, udp_header(source, GATED, 18), &datagram(18)));
            match expected {
                Some(name) => prop_assert_eq!(Some(lab.counter(name)), came.map(|came| came + 1), "{:x}", source),
                None => prop_assert_eq!(lab.counters.forwarded.get(), before + 1, "{:x}", source),
            }
        }
    }

    /// Bursts of valid packets leave in order, and identical to those of the reference router.
    #[test]
    fn packets_go_where_the_reference_sends_them(
        bursts in vec(vec(ipv4().prop_filter("one gateway", has_one_gateway), 0..64), 1..4),
    ) {
        let mut lab = Lab::default();
        for burst in bursts {
            let mut expected = vec![Vec::new(); 3];
            for nic in 0..3 {
                for (_, frame) in burst.iter().filter(|(to, _)| *to == nic) {
                    lab.world.rx[usize::from(nic)].push_back(frame.clone());
                    if let Fate::Leaves(out, frames) = fate(nic, frame) {
                        expected[out].extend(frames);
                    }
                }
            }
            lab.router.poll(&mut lab.world);
            lab.balance();
            for (nic, expected) in expected.into_iter().enumerate() {
                let forwarded: Vec<_> =
                    lab.world.sent(nic).into_iter().filter(|frame| !is_created(frame)).collect();
                prop_assert_eq!(forwarded, expected);
            }
        }
    }
}

/// Returns true if the router created this frame: ARP, or ICMP from one of its addresses. The generated packets have
/// such sources too, but no correct ICMP checksum.
fn is_created(frame: &[u8]) -> bool {
    if frame[12..14] != [8, 0] {
        return true;
    }
    let (_, packet) = read_ipv4(frame);
    packet.header().tos == 0xc0
}
