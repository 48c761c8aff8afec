//! The way of packets: datagrams to many addresses, and at which peer each arrives.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lab::full_table::FullTable;
use support::Namespace;

use super::{HOPS_OF_PEER, PATIENCE};

const PORT: u16 = 7050;
/// Datagrams sent before the receivers are read.
const BURST: usize = 100;
/// Time without a datagram after which those of a burst have come or are lost.
const QUIET: Duration = Duration::from_millis(50);

/// Sends datagrams to these addresses until each has arrived, and checks that it has done so at the peer of its route.
pub(super) fn follow(from: &Namespace, peers: &[Namespace; 2], table: &FullTable, addresses: &[IpAddr]) {
    let receivers = [0, 1].map(|peer: usize| {
        let any = (Ipv6Addr::UNSPECIFIED, PORT);
        let socket = peers[peer].inside(|| UdpSocket::bind(any)).expect("inside").expect("bound");
        socket.set_read_timeout(Some(QUIET)).expect("a timeout");
        socket
    });
    let bind = |any: IpAddr| from.inside(|| UdpSocket::bind((any, 0))).expect("inside").expect("bound");
    let (four, six) = (bind(Ipv4Addr::UNSPECIFIED.into()), bind(Ipv6Addr::UNSPECIFIED.into()));
    let (start, mut came) = (Instant::now(), BTreeMap::new());
    while came.len() < addresses.len() {
        let missing: Vec<usize> = (0..addresses.len()).filter(|number| !came.contains_key(number)).collect();
        assert!(start.elapsed() < PATIENCE, "nothing came to {:?}", addresses[missing[0]]);
        for burst in missing.chunks(BURST) {
            for number in burst {
                let to = SocketAddr::from((addresses[*number], PORT));
                let socket = if to.is_ipv4() { &four } else { &six };
                // One that is refused meanwhile is sent again.
                let _ = socket.send_to(&(*number as u32).to_be_bytes(), to);
            }
            receivers.iter().enumerate().for_each(|(peer, socket)| receive(socket, peer, &mut came));
        }
    }
    for (number, at) in came {
        let route = table.find(addresses[number]).expect("a route");
        assert_eq!(at, route.hop / HOPS_OF_PEER, "{} by {route:?}", addresses[number]);
    }
}

/// Takes all datagrams that have come to a peer.
fn receive(socket: &UdpSocket, peer: usize, came: &mut BTreeMap<usize, usize>) {
    let mut octets = [0; 4];
    while let Ok((4, _)) = socket.recv_from(&mut octets) {
        came.insert(u32::from_be_bytes(octets) as usize, peer);
    }
}
