use std::io;
use std::os::fd::AsFd;

use bpf::Purpose;
use netlink::{Prefix, Route, RouteId, RouteKind};

use super::*;

/// A message of this type, with this protocol where a route has it, behind 14 octets that a test run takes for an Ethernet header.
fn message(kind: u16, protocol: u8) -> [u8; 64] {
    let mut octets = [0; 64];
    octets[14 + 4..14 + 6].copy_from_slice(&kind.to_ne_bytes());
    octets[14 + 21] = protocol;
    octets
}

fn is_zebras(protocol: u8) -> bool {
    let to = Prefix::new([10, 0, 0, 0], 8).expect("a prefix");
    let id = RouteId { table: 254, to, tos: 0, metric: 0 };
    fpm::is_zebras(&Route { id, kind: RouteKind::Unicast, next_hops: Vec::new(), group: None, protocol })
}

#[test]
fn routes_of_zebra_are_dropped_and_nothing_else() {
    let program = match bpf::load(Purpose::SocketFilter, &without_routes_of_zebra()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return println!("SKIPPED: needs the right to use bpf(2)");
        }
        loaded => loaded.expect("the kernel accepts it"),
    };
    let passes = |kind, protocol| bpf::run(program.as_fd(), &message(kind, protocol)).expect("it runs") != 0;
    for protocol in 0..=255 {
        for kind in ROUTES {
            assert_eq!(passes(kind, protocol), !is_zebras(protocol), "type {kind}, protocol {protocol}");
        }
        assert!(passes(16, protocol) && passes(28, protocol), "links and neighbours have no protocol there");
    }
}
