//! VRFs of a router are VRFs of the kernel where it has them: each has its own networks, and none reaches the other; elsewhere they are
//! refused in one line.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use kernel_router::{Interface, Origin, PeerNamespace, RouterConfig, TypedRoute};
use netlink::{RouteKind, Settings};

use crate::host::{Host, has, interface, prefix, veth};

const RED: u32 = 1001;
const BLUE: u32 = 1002;

/// A router with the same two networks in each of two VRFs.
fn edge() -> RouterConfig {
    let nic = |name: &str, vrf: u32, own: [u8; 4]| {
        let station = veth("eth0", PeerNamespace::Router(format!("{name}-host")));
        Interface { vrf: Some(vrf), ..interface(name, station, own) }
    };
    let vrf = |name: &str, table: u32| Interface::new(name, Origin::Vrf { table });
    let interfaces = vec![
        nic("red1", RED, [10, 0, 1, 1]),
        nic("red2", RED, [10, 0, 2, 1]),
        nic("blue1", BLUE, [10, 0, 1, 1]),
        vrf("red", RED),
        vrf("blue", BLUE),
    ];
    let last = |table: u32| TypedRoute {
        to: prefix([0; 4], 0),
        kind: RouteKind::Unreachable,
        metric: 4_278_198_272,
        table,
    };
    RouterConfig { typed: vec![last(RED), last(BLUE)], ..RouterConfig::new("edge", interfaces) }
}

/// Host behind each NIC: its namespace, address and gateway.
const HOSTS: [(&str, [u8; 4], [u8; 4]); 3] = [
    ("red1-host", [10, 0, 1, 2], [10, 0, 1, 1]),
    ("red2-host", [10, 0, 2, 2], [10, 0, 2, 1]),
    ("blue1-host", [10, 0, 1, 2], [10, 0, 1, 1]),
];

fn settle(host: &Host) {
    for (station, own, gateway) in HOSTS {
        let kernel = host.others[station].netlink().expect("a socket");
        kernel.set_link("eth0", &Settings::default().up(true)).expect("up");
        let index = kernel.link("eth0").expect("a link").index;
        kernel.add_address(index, prefix(own, 24)).expect("an address");
        kernel.add_route(prefix([0; 4], 0), gateway.into()).expect("a route");
    }
}

fn socket(host: &Host, station: &str) -> UdpSocket {
    let bound = host.others[station].within(|| UdpSocket::bind("0.0.0.0:0"));
    let socket = bound.expect("inside").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    socket
}

#[test]
fn a_vrf_is_refused_in_one_line_or_forwards() {
    support::needs!(Root);
    let mut host = Host::new(&HOSTS.map(|(station, ..)| station));
    let mut router = match host.start(edge()) {
        Ok(router) => router,
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("no VRFs") && said.lines().count() == 1, "{said}");
            for (station, ..) in HOSTS {
                let kernel = host.others[station].netlink().expect("a socket");
                assert!(!has(&kernel, "eth0"), "nothing is left");
            }
            return;
        }
    };
    settle(&host);
    let [red, blue] = ["red1-host", "blue1-host"].map(|station| socket(&host, station));
    let at = socket(&host, "red2-host");
    let to = (Ipv4Addr::from([10, 0, 2, 2]), at.local_addr().expect("an address").port());
    let reaches = || {
        (0..600).any(|_| {
            // What leaks would be there before what is expected.
            let _ = blue.send_to(b"leak", to);
            let _ = red.send_to(b"through", to);
            let got = at.recv_from(&mut [0; 16]);
            assert!(!matches!(got, Ok((4, _))), "blue reaches a network of red");
            got.is_ok()
        })
    };
    assert!(reaches(), "nothing comes through");
    assert!(router.plan(&edge()).expect("a plan").is_empty(), "nothing is left to do");
    host.restart(&mut router);
    assert!(reaches(), "nothing comes through after a restart");
    // A VRF that is deleted comes back with its ports.
    let kernel = router.namespace().netlink().expect("a socket");
    kernel.delete_link("red").expect("deleted");
    assert!(host.repair(&mut router) > 0);
    assert!(reaches(), "nothing comes through after a repair");
    // Without VRFs the router is as it was before: red1 and red2 are in the main table.
    let mut plain = edge();
    plain.interfaces.retain(|interface| interface.vrf == Some(RED));
    plain.interfaces.iter_mut().for_each(|interface| interface.vrf = None);
    let plain = RouterConfig::new("edge", plain.interfaces);
    host.apply(&mut router, &plain).expect("applied");
    assert!(reaches(), "nothing comes through without a VRF");
    let priorities = || {
        let rules: Vec<netlink::Rule> = kernel.all().expect("a dump");
        let local = rules.into_iter().filter(|rule| rule.from.ip.is_ipv4() && rule.table == Some(255));
        local.map(|rule| rule.priority).collect::<Vec<_>>()
    };
    assert_eq!(priorities(), [0], "the rule of table local is the first one again");
}
