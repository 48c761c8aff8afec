//! Creation of interfaces, and moves between two network namespaces of the test's threads, against a real kernel.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use netlink::{
    Generic, Kind, Link, MacvtapMode, Netlink, NextHop, Prefix, Queue, QueueKind, QueueState, Route, RouteId,
    RouteKind, Settings,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Namespace of a thread that has exited: its file, and sockets that were opened in it.
struct Namespace {
    file: File,
    kernel: Netlink,
    generic: Generic,
}

/// Returns `None` with a message if no namespace can be created.
fn namespace() -> Option<Namespace> {
    let make = || -> io::Result<Namespace> {
        // SAFETY: a new network namespace affects neither memory nor descriptors, and only this thread.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        let file = File::open("/proc/thread-self/ns/net")?;
        Ok(Namespace { file, kernel: Netlink::open()?, generic: Generic::open()? })
    };
    match thread::scope(|scope| scope.spawn(make).join().expect("no panic")) {
        Ok(namespace) => Some(namespace),
        Err(e) => {
            eprintln!("SKIPPED: no network namespace can be made ({e})");
            None
        }
    }
}

const MTU: u32 = 1400;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A veth pair, `near` in one namespace and `far` in the other one, both up.
fn pair(here: &Namespace, there: &Namespace) -> Option<(Link, Link)> {
    let near = Settings::default().name("near").mtu(MTU).mac(MAC).up(true);
    let far = Settings::default().name("far").mtu(MTU).group(77);
    match here.kernel.make_veth(&near, &far, Some(there.file.as_fd())) {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            eprintln!("SKIPPED: this kernel makes no veth");
            return None;
        }
        Err(e) => panic!("a pair of veths: {e}"),
    }
    there.kernel.set_link("far", &Settings::default().up(true)).expect("up");
    Some((here.kernel.link("near").expect("near"), there.kernel.link("far").expect("far")))
}

/// Waits until a condition holds: the kernel reports carrier changes with a delay.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn errno<T>(outcome: io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|e| e.raw_os_error())
}

#[test]
fn a_pair_has_an_end_in_each_namespace() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, far)) = pair(&here, &there) else { return };
    assert_eq!((near.mtu, near.mac, near.up), (MTU, Some(MAC), true));
    assert_eq!((far.mtu, far.group, far.up), (MTU, 77, true));
    until("both ends run", || {
        here.kernel.link("near").expect("near").running && there.kernel.link("far").expect("far").running
    });
    assert_eq!(errno(here.kernel.link("far")), Some(libc::ENODEV));
    let again = here.kernel.make_veth(
        &Settings::default().name("other"),
        &Settings::default().name("far"),
        Some(there.file.as_fd()),
    );
    assert_eq!(errno(again), Some(libc::EEXIST));
    assert_eq!(errno(here.kernel.link("other")), Some(libc::ENODEV), "no half of a pair");
    here.kernel.delete_link("near").expect("deleted");
    assert_eq!(errno(there.kernel.link("far")), Some(libc::ENODEV), "both ends go");
}

#[test]
fn what_a_pair_carries_is_counted_at_both_ends() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, far)) = pair(&here, &there) else { return };
    let of = |namespace: &Namespace, index: u32| {
        let all = namespace.kernel.statistics().expect("statistics");
        all.into_iter().find(|(found, _)| *found == index).expect("an interface").1
    };
    // Resolving a neighbour takes a frame: an ARP request.
    here.kernel
        .add_address(near.index, Prefix::new([192, 0, 2, 1], 24).expect("a prefix"))
        .expect("an address");
    let ask = || {
        let socket = std::net::UdpSocket::bind("192.0.2.1:0").expect("a socket");
        let _ = socket.send_to(&[0], "192.0.2.2:9");
    };
    until("a frame is counted", || {
        inside(&here, ask);
        let (sent, received) = (of(&here, near.index), of(&there, far.index));
        sent.tx_frames > 0 && sent.tx_bytes > 0 && received.rx_frames > 0 && received.rx_bytes > 0
    });
    let sent = here.kernel.statistics_of(near.index).expect("statistics");
    assert!(sent.tx_frames > 0, "{sent:?}");
    assert_eq!(errno(here.kernel.statistics_of("none")), Some(libc::ENODEV));
}

/// Runs `work` in a thread inside the namespace.
fn inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let enter = || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(namespace.file.as_fd(), Some(kind)).expect("inside");
            work()
        };
        scope.spawn(enter).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn a_macvlan_is_made_in_another_namespace_than_what_it_stands_on() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let Some(third) = namespace() else { return };
    for (n, mode) in [MacvtapMode::Bridge, MacvtapMode::Private, MacvtapMode::Vepa].into_iter().enumerate() {
        let name = format!("m{n}");
        let kind = Kind::Macvlan { lower: near.index, mode };
        let settings = Settings::default().name(&name).mtu(MTU).mac([2, 0, 0, 0, 1, n as u8]).up(true);
        match here.kernel.make_link_in(kind, &settings, third.file.as_fd()) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return eprintln!("SKIPPED: this kernel makes no macvlan");
            }
            made => made.expect("a macvlan"),
        }
        let made = third.kernel.link(name.as_str()).expect("made");
        assert_eq!((made.mtu, made.mac), (MTU, Some([2, 0, 0, 0, 1, n as u8])));
        assert!(made.is_macvlan);
        assert_eq!(errno(here.kernel.link(name.as_str())), Some(libc::ENODEV));
    }
    here.kernel.delete_link(near.index).expect("deleted");
    assert_eq!(errno(third.kernel.link("m0")), Some(libc::ENODEV), "it goes with what it stood on");
}

#[test]
fn a_vlan_stands_on_an_interface() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let kind = Kind::Vlan { lower: near.index, id: 100 };
    match here.kernel.make_link(kind, &Settings::default().name("guests").up(true)) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            return eprintln!("SKIPPED: this kernel makes no VLAN");
        }
        made => made.expect("a VLAN"),
    }
    let made = here.kernel.link("guests").expect("made");
    assert_eq!((made.lower, made.mac, made.mtu), (Some(near.index), Some(MAC), MTU));
    assert!(!made.is_macvlan && !near.is_macvlan);
    // With a service tag this number means another VLAN, which carries VLANs itself.
    let service = Kind::ServiceVlan { lower: near.index, id: 100 };
    here.kernel.make_link(service, &Settings::default().name("service").up(true)).expect("a service VLAN");
    let lower = here.kernel.link("service").expect("made").index;
    let inner = Settings::default().name("customers");
    here.kernel.make_link(Kind::Vlan { lower, id: 100 }, &inner).expect("a VLAN");
    assert_eq!(here.kernel.link("customers").expect("made").lower, Some(lower));
    here.kernel.delete_link(lower).expect("deleted");
    assert_eq!(errno(here.kernel.link("customers")), Some(libc::ENODEV), "it goes with what it stands on");
}

#[test]
fn a_vrf_has_ports() {
    const TABLE: u32 = 0x5200_0001;
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    match here.kernel.make_link(Kind::Vrf { table: TABLE }, &Settings::default().name("red").up(true)) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            return eprintln!("SKIPPED: this kernel makes no VRF");
        }
        made => made.expect("a VRF"),
    }
    let red = here.kernel.link("red").expect("red");
    assert_eq!((red.lower, red.up), (None, true));
    here.kernel.set_link("near", &Settings::default().master(red.index)).expect("a port");
    assert_eq!(here.kernel.link("near").expect("near").master, Some(red.index));
    // The network of an address is in the table of the VRF.
    let own = Prefix::new([192, 0, 2, 1], 24).expect("a prefix");
    here.kernel.add_address(near.index, own).expect("an address");
    let routes: Vec<Route> = here.kernel.all().expect("a dump");
    let network = Prefix::new([192, 0, 2, 0], 24).expect("a prefix");
    let tables = routes.iter().filter(|route| route.id.to == network).map(|route| route.id.table);
    assert_eq!(tables.collect::<Vec<_>>(), [TABLE]);
    here.kernel.set_link("near", &Settings::default().master(0)).expect("no port");
    assert_eq!(here.kernel.link("near").expect("near").master, None);
    here.kernel.delete_link("red").expect("deleted");
}

#[test]
fn an_interface_moves_and_has_another_name_there() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let Some(third) = namespace() else { return };
    let settings = Settings::default().name("wan").mtu(1300).alias("ours");
    here.kernel.move_link(near.index, third.file.as_fd(), &settings).expect("moved");
    let moved = third.kernel.link("wan").expect("moved");
    assert_eq!((moved.mtu, moved.mac, moved.up), (1300, Some(MAC), false));
    assert_eq!(moved.alias, "ours");
    assert_eq!(errno(here.kernel.link("near")), Some(libc::ENODEV));
    assert_eq!(
        errno(here.kernel.move_link("lo", third.file.as_fd(), &Settings::default())),
        Some(libc::EINVAL)
    );
}

#[test]
fn features_are_shown_and_set() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let has = |name: &str| here.generic.features(near.index).expect("features").iter().any(|on| on == name);
    for on in [true, false] {
        let wanted = [("rx-gro", on), ("tx-tcp-segmentation", !on)];
        here.generic.set_features(near.index, &wanted).expect("set");
        assert_eq!((has("rx-gro"), has("tx-tcp-segmentation")), (on, !on));
    }
    assert_eq!(errno(here.generic.features(9999)), Some(libc::ENODEV));
    assert!(here.generic.set_features(near.index, &[("no-such-thing", true)]).is_err());
}

#[test]
fn a_napi_instance_is_there_while_somebody_needs_it() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let napis = || here.generic.napis(near.index);
    match napis() {
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
            return eprintln!("SKIPPED: this kernel does not tell its NAPI instances");
        }
        none => assert!(none.expect("a dump").is_empty(), "a veth polls nothing by itself"),
    }
    here.generic.set_features(near.index, &[("rx-gro", true)]).expect("set");
    let some = napis().expect("a dump");
    assert!(!some.is_empty() && some.iter().all(|napi| napi.index == near.index), "{some:?}");
    assert!(some.iter().all(|napi| napi.thread.is_none()), "{some:?}");
    assert_eq!(errno(here.generic.napis(9999)), Some(libc::ENODEV));
}

#[test]
fn routes_of_a_protocol_go_in_and_out() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    here.kernel
        .add_address(near.index, Prefix::new([192, 0, 2, 1], 24).expect("a prefix"))
        .expect("an address");
    let route = |to: [u8; 4], len, via: Option<[u8; 4]>, metric| {
        let to = Prefix::new(to, len).expect("a prefix");
        let next_hops = vec![NextHop { via: via.map(Into::into), index: near.index, weight: 1 }];
        let id = RouteId { table: 254, to, tos: 0, metric };
        Route { id, kind: RouteKind::Unicast, next_hops, group: None, protocol: 114 }
    };
    let all = [
        route([0; 4], 0, Some([192, 0, 2, 254]), 0),
        route([10, 0, 0, 0], 8, Some([192, 0, 2, 254]), 50),
        route([10, 0, 0, 0], 8, Some([192, 0, 2, 253]), 60),
        route([198, 51, 100, 0], 24, None, 0),
    ];
    let shown = || -> Vec<Route> {
        let all: Vec<Route> = here.kernel.all().expect("a dump");
        all.into_iter().filter(|route| route.protocol == 114).collect()
    };
    for route in &all {
        here.kernel.insert_route(route).expect("inserted");
        assert!(shown().contains(route), "{route:?}");
        assert_eq!(errno(here.kernel.insert_route(route)), Some(libc::EEXIST));
    }
    let of_protocol = |protocol| here.kernel.routes_of_protocol(protocol, |_| true).expect("a dump");
    assert_eq!((of_protocol(114), of_protocol(115)), (shown(), Vec::new()));
    assert!(of_protocol(2).iter().all(|route| route.protocol == 2) && !of_protocol(2).is_empty());
    let other = Route { protocol: 115, ..all[1].clone() };
    assert_eq!(errno(here.kernel.remove_route(&other)), Some(libc::ESRCH), "it is not of this protocol");
    for route in &all {
        here.kernel.remove_route(route).expect("removed");
        assert!(!shown().contains(route), "{route:?}");
    }
    let lost = route([10, 0, 0, 0], 8, Some([203, 0, 113, 1]), 0);
    assert_eq!(errno(here.kernel.insert_route(&lost)), Some(libc::ENETUNREACH));
}

#[test]
fn a_queue_is_given_changed_and_taken_away() {
    let (Some(here), Some(there)) = (namespace(), namespace()) else { return };
    let Some((near, _)) = pair(&here, &there) else { return };
    let queue = |kind, limit| Queue { kind, limit };
    let is = || here.kernel.queue(near.index).expect("a state").queue;
    assert_eq!(is(), None, "a veth has none of its own");
    for wanted in [
        queue(QueueKind::Pfifo, 300),
        queue(QueueKind::Pfifo, 7),
        queue(QueueKind::Bfifo, 90_000),
        queue(QueueKind::FqCodel, 500),
    ] {
        match here.kernel.set_queue(near.index, wanted) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => {
                eprintln!("SKIPPED: this kernel has no {}", wanted.kind.name());
            }
            outcome => {
                outcome.expect("set");
                assert_eq!(is(), Some(wanted));
            }
        }
    }
    here.kernel.remove_queue(near.index).expect("removed");
    assert_eq!(here.kernel.queue(near.index).expect("a state"), QueueState::default());
    assert_eq!(errno(here.kernel.remove_queue(near.index)), Some(libc::ENOENT), "it has the default one");
    assert_eq!(errno(here.kernel.set_queue(9999, queue(QueueKind::Pfifo, 1))), Some(libc::ENODEV));
}
