//! A VLAN, of one tag or two, is an interface of a router where the kernel has 802.1Q; elsewhere it is refused in one line.

use std::net::UdpSocket;
use std::time::Duration;

use kernel_router::{Interface, Origin, PeerNamespace, RouterConfig};
use netlink::{Kind, Settings};

use crate::host::{Host, has, interface, prefix, veth};

/// A router with a VLAN, whose frames have one tag or two.
fn edge(has_two_tags: bool) -> RouterConfig {
    let trunk = Interface::new("trunk", veth("eth0", PeerNamespace::Router("alice".to_owned())));
    let lan = interface("lan", veth("eth0", PeerNamespace::Router("bob".to_owned())), [10, 0, 2, 1]);
    let service = Origin::ServiceVlan { lower: "trunk".to_owned(), id: 200 };
    let service = has_two_tags.then(|| Interface::new("service", service));
    let lower = if has_two_tags { "service" } else { "trunk" }.to_owned();
    let guests = interface("guests", Origin::Vlan { lower, id: 7 }, [10, 0, 1, 1]);
    RouterConfig::new("edge", [trunk, lan].into_iter().chain(service).chain([guests]).collect())
}

#[test]
fn a_vlan_is_refused_in_one_line_or_forwards() {
    support::needs!(Root);
    is_refused_or_forwards(false);
}

#[test]
fn a_vlan_with_two_tags_is_refused_in_one_line_or_forwards() {
    support::needs!(Root);
    is_refused_or_forwards(true);
}

fn is_refused_or_forwards(has_two_tags: bool) {
    let edge = || edge(has_two_tags);
    let mut host = Host::new(&["alice", "bob"]);
    let mut router = match host.start(edge()) {
        Ok(router) => router,
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains("no VLANs (802.1Q)") && said.lines().count() == 1, "{said}");
            for station in ["alice", "bob"] {
                let kernel = host.others[station].netlink().expect("a socket");
                assert!(!has(&kernel, "eth0"), "nothing is left");
            }
            return;
        }
    };
    // Alice is in the VLAN, Bob behind the other interface.
    let settle = |station: &str, link: &str, own: [u8; 4], gateway: [u8; 4]| {
        let kernel = host.others[station].netlink().expect("a socket");
        kernel.set_link("eth0", &Settings::default().up(true)).expect("up");
        let mut lower = kernel.link("eth0").expect("a link").index;
        if link != "eth0" {
            if has_two_tags {
                let up = Settings::default().name("service").up(true);
                kernel.make_link(Kind::ServiceVlan { lower, id: 200 }, &up).expect("a service VLAN");
                lower = kernel.link("service").expect("a link").index;
            }
            kernel.make_link(Kind::Vlan { lower, id: 7 }, &Settings::default().name(link)).expect("a VLAN");
            kernel.set_link(link, &Settings::default().up(true)).expect("up");
        }
        kernel.add_address(kernel.link(link).expect("a link").index, prefix(own, 24)).expect("an address");
        kernel.add_route(prefix([0; 4], 0), gateway.into()).expect("a route");
    };
    settle("alice", "eth0.7", [10, 0, 1, 2], [10, 0, 1, 1]);
    settle("bob", "eth0", [10, 0, 2, 2], [10, 0, 2, 1]);
    let socket = |station: &str| {
        let bound = host.others[station].within(|| UdpSocket::bind("0.0.0.0:0"));
        let socket = bound.expect("inside").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        socket
    };
    let (from, at) = (socket("alice"), socket("bob"));
    let to = ([10, 0, 2, 2], at.local_addr().expect("an address").port());
    let reaches = || {
        (0..600).any(|_| {
            let _ = from.send_to(b"through", (std::net::Ipv4Addr::from(to.0), to.1));
            at.recv_from(&mut [0; 16]).is_ok_and(|(len, _)| len == 7)
        })
    };
    assert!(reaches(), "nothing comes through");
    assert!(router.plan(&edge()).expect("a plan").is_empty(), "nothing is left to do");
    // It outlives a cable that is pulled, and a restart.
    let mut pulled = edge();
    pulled.interfaces[0].up = false;
    let site = kernel_router::Surroundings { home: &host.home, others: &host.others };
    router.apply(pulled, &site, &mut |_| {}).expect("applied");
    router.apply(edge(), &site, &mut |_| {}).expect("applied");
    assert!(reaches(), "nothing comes through after the cable is back");
    router.restart(&site, &mut |_| {}).expect("restarted");
    assert!(reaches(), "nothing comes through after a restart");
}
