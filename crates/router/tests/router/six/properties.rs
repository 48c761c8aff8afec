//! Properties for arbitrary IPv6 frames: every loss is counted, no buffer is lost, and what leaves was only changed where
//! it has to be.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn address() -> impl Strategy<Value = u128> {
    prop_oneof![
        4 => (0u8..4, 0u64..5).prop_map(|(nic, host)| ip6(nic, host)),
        4 => (0usize..3, 0u128..9).prop_map(|(at, host)| BEYOND[at] + host),
        1 => Just(0u128),
        1 => Just(ipv6::ALL_NODES),
        1 => (0u8..3).prop_map(|nic| ipv6::link_local(own_mac(nic))),
        1 => (0u8..3).prop_map(|nic| ipv6::solicited_node(ip6(nic, 1))),
        1 => any::<u128>(),
    ]
}

/// Octets that begin like extension headers or messages.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(&[0u8, 6, 17, 43, 44, 51, 58, 59, 60, 128, 133, 135, 136, 130][..]);
    (kinds, 0u8..3, vec(any::<u8>(), 0..200)).prop_map(|(kind, len, rest)| [&[kind, len][..], &rest].concat())
}

fn any_frame() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let kinds = prop::sample::select(&[0u8, 17, 43, 44, 51, 58, 59, 60, 89][..]);
    let hops = prop_oneof![3 => Just(64u8), 2 => Just(255), 1 => 0u8..3];
    (0u8..3, address(), address(), kinds, hops, payload(), any::<bool>()).prop_map(
        |(nic, source, destination, next_header, hop_limit, mut payload, repaired)| {
            if repaired && next_header == next::ICMP && payload.len() >= 8 {
                let (header, _) = icmpv6::Header::parse_quoted(&payload).unwrap();
                header.write(&mut payload, (source, destination)).unwrap();
            }
            let header = ipv6::Header { hop_limit, ..ipv6::Header::new(next_header, source, destination, 0) };
            let group = ipv6::is_multicast(destination);
            let to = if group { ipv6::group_mac(destination) } else { own_mac(nic) };
            (nic, frame6_from((to, peer_mac(nic)), header, &payload))
        },
    )
}

proptest! {
    /// In = forwarded + consumed + named drops + held; out = forwarded + created; no buffer is lost.
    #[test]
    fn the_books_balance(
        rounds in vec((vec(any_frame(), 0..60), 0u64..4000), 1..8),
        buffers in prop_oneof![3 => Just(usize::MAX), 1 => 0usize..20],
    ) {
        let mut lab = Lab::six();
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
        for _ in 0..70 {
            lab.wait(1000);
            lab.router.poll(&mut lab.world);
        }
        prop_assert_eq!((lab.router.held(), lab.router.held_own()), (0, 0));
    }

    /// A plain packet to a known gateway leaves with one hop less, on the slow and on the hot path, and nothing else in it
    /// is changed.
    #[test]
    fn only_the_hop_limit_changes(host in 0u128..1000, hop_limit in 2u8.., label in 0u32..0x10_0000, rest in vec(any::<u8>(), 0..900)) {
        let mut lab = Lab::six();
        let header = ipv6::Header {
            hop_limit,
            flow_label: label,
            ..ipv6::Header::new(next::TCP, ip6(0, 2), BEYOND[1] + host, 0)
        };
        let frame = frame6(0, header, &rest);
        for _ in 0..2 {
            lab.push(0, frame.clone());
            let sent = lab.one_sent(2);
            let mut expected = frame.clone();
            expected[..12].copy_from_slice(&[peer_mac(2).0, own_mac(2).0].concat());
            expected[21] -= 1;
            prop_assert_eq!(sent, expected);
        }
    }
}
