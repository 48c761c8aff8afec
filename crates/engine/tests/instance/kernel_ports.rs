//! Ports of switches that lead to kernel routers, between two network namespaces, and by a tunnel to another host.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use attach::HandedOver;
use config::{KernelPath, KernelPort};
use engine::{HostServices, Instance};
use frame::{Mac, arp, ethernet};
use uplink::{Netns, Tap, TapConfig};

use crate::traffic::{alone, counters, plan, wait_for};

/// The data plane's plan for kernel routers with these names on one switch.
fn kernel_ports(names: &[&str]) -> config::Plan {
    let router = |name: &&str| {
        format!(
            "[[router]]\nname = '{name}'\nengine = 'kernel'\n[[router.nic]]\nname = 'lan'\nattach = 'switch:lan'\n"
        )
    };
    plan(&("[switch.lan]\n".to_owned() + &names.iter().map(router).collect::<String>())).of_data_plane()
}

fn runs(netns: &Netns, words: &[&str]) -> bool {
    let (program, words) = words.split_first().expect("a program");
    netns.command(program).args(words).output().is_ok_and(|done| done.status.success())
}

/// Opens a TAP with these addresses, as the supervisor hands it over. A TAP in place of another one has its Ethernet address, or
/// neighbours would ask for it only when they no longer take the former one for reachable, after half a minute.
fn tap(netns: &Netns, address: &str, mac: &str) -> HandedOver {
    let config = TapConfig { netns: Some(netns), ..TapConfig::default() };
    let tap = Tap::open("lan", &config).expect("a TAP");
    assert!(runs(netns, &["ip", "link", "set", "dev", "lan", "address", mac]));
    assert!(runs(netns, &["ip", "address", "add", address, "dev", "lan"]));
    HandedOver::of(attach::link(tap).hand_over()).expect("descriptors")
}

#[test]
fn frames_pass_between_namespaces_as_the_plan_says() {
    let (west, east) = match (Netns::new(), Netns::new()) {
        (Ok(west), Ok(east)) => (west, east),
        (Err(error), _) | (_, Err(error)) => return println!("SKIPPED: {error}"),
    };
    let _turn = alone();
    let answers = || runs(&west, &["busybox", "ping", "-c", "1", "-W", "1", "10.1.0.2"]);
    let of_west = || tap(&west, "10.1.0.1/24", "02:00:00:00:01:01");
    let of_east = || tap(&east, "10.1.0.2/24", "02:00:00:00:01:02");
    let opened = [("west.lan".to_owned(), of_west()), ("east.lan".to_owned(), of_east())];
    let supplies = HostServices { opened: opened.into(), ..HostServices::default() };
    let mut instance = Instance::start(&kernel_ports(&["west", "east"]), supplies).expect("it starts");
    wait_for("an answer", answers);
    let counted = counters(&instance);
    let of = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert!(of("west.lan.tap.read.frames") > 0 && of("east.lan.tap.write.frames") > 0, "{counted:?}");
    assert!(counted.keys().any(|name| name.starts_with("switch.lan.east.lan.")), "{counted:?}");

    instance.apply(&kernel_ports(&["west"]), HostServices::default()).expect("it is applied");
    assert!(!answers() && !counters(&instance).keys().any(|name| name.starts_with("east.")));
    let refused = instance
        .apply(&kernel_ports(&["west", "east"]), HostServices::default())
        .expect_err("there is no TAP");
    assert_eq!(format!("{refused:#}"), "nothing was changed: nobody has opened the TAP of NIC east.lan");
    // The kernel has removed the device with its last descriptor.
    let opened = [("east.lan".to_owned(), of_east())].into();
    let supplies = HostServices { opened, ..HostServices::default() };
    instance.apply(&kernel_ports(&["west", "east"]), supplies).expect("it is applied");
    wait_for("an answer", answers);

    // Replace a deleted TAP, as the supervisor does.
    assert!(runs(&east, &["ip", "link", "delete", "lan"]));
    instance.replace("east.lan", of_east()).expect("it is replaced");
    wait_for("an answer", answers);
}

/// A frame in which a station with this address asks for that of another one.
fn request(sender_ip: u32, target_ip: u32) -> [u8; ethernet::SHORTEST] {
    let (sender_mac, target_mac) = (Mac([2, 0, 0, 0, 1, 9]), Mac::default());
    let packet =
        arp::Packet { operation: arp::Operation::Request, sender_mac, sender_ip, target_mac, target_ip };
    let header =
        ethernet::Header { destination: Mac::BROADCAST, source: sender_mac, ethertype: ethernet::ARP };
    let mut octets = [0; ethernet::SHORTEST];
    header.write(&mut octets).expect("room");
    packet.write(&mut octets[ethernet::HEADER..]).expect("room");
    octets
}

#[test]
fn frames_pass_between_a_namespace_and_the_other_end_of_a_tunnel() {
    let west = match Netns::new() {
        Ok(west) => west,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let _turn = alone();
    let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let (near, far) = (socket(), socket());
    near.connect(far.local_addr().expect("an address")).expect("connected");
    far.connect(near.local_addr().expect("an address")).expect("connected");
    far.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
    let mut plan = kernel_ports(&["west"]);
    let [router, nic, switch] = ["far", "lan", "lan"].map(str::to_owned);
    let path = KernelPath::Tunnel(0);
    plan.kernel_ports.push(KernelPort { router, nic, switch, path, of_group: false });
    let tunnel = HandedOver { what: serde_json::Value::Null, descriptors: vec![near.into()] };
    let opened = [
        ("west.lan".to_owned(), tap(&west, "10.1.0.1/24", "02:00:00:00:01:01")),
        ("far.lan".to_owned(), tunnel),
    ];
    let supplies = HostServices { opened: opened.into(), ..HostServices::default() };
    let mut instance = Instance::start(&plan, supplies).expect("it starts");
    let (own, other) = (Ipv4Addr::new(10, 1, 0, 9).to_bits(), Ipv4Addr::new(10, 1, 0, 1).to_bits());
    let is_answer = |octets: &[u8]| {
        let packet = octets.get(ethernet::HEADER..).and_then(|packet| arp::Packet::parse(packet).ok());
        packet.is_some_and(|packet| packet.operation == arp::Operation::Reply && packet.sender_ip == other)
    };
    wait_for("an answer through the tunnel", || {
        far.send(&request(own, other)).expect("sent");
        let mut octets = [0; 2048];
        // What else the namespace says comes as well.
        let heard = || far.recv(&mut octets).ok().map(|len| is_answer(&octets[..len]));
        std::iter::from_fn(heard).any(|is_it| is_it)
    });
    // A frame is counted after it was sent.
    wait_for("counters of both directions", || {
        let counted = counters(&instance);
        let of = |name: &str| counted.get(name).copied().unwrap_or_default();
        of("far.lan.udp.read.frames") > 0 && of("far.lan.udp.write.frames") > 0
    });
    let counted = counters(&instance);
    assert!(counted.keys().any(|name| name.starts_with("switch.lan.far.lan.")), "{counted:?}");

    instance.apply(&kernel_ports(&["west"]), HostServices::default()).expect("it is applied");
    assert!(!counters(&instance).keys().any(|name| name.starts_with("far.")));
}

#[test]
fn what_is_said_of_neighbours_to_everybody_does_not_come_to_a_member_of_a_group() {
    let _turn = alone();
    let port = |router: &str| {
        let [nic, switch] = ["lan", "lan"].map(str::to_owned);
        let path = KernelPath::Tunnel(0);
        KernelPort { router: router.to_owned(), nic, switch, path, of_group: true }
    };
    let mut plan = kernel_ports(&["west"]);
    plan.kernel_ports = vec![port("core_63"), port("core_62")];
    let socket = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let tunnel = || {
        let (near, far) = (socket(), socket());
        near.connect(far.local_addr().expect("an address")).expect("connected");
        far.connect(near.local_addr().expect("an address")).expect("connected");
        far.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
        (HandedOver { what: serde_json::Value::Null, descriptors: vec![near.into()] }, far)
    };
    let [(of_first, first), (of_second, second)] = [tunnel(), tunnel()];
    let opened = [("core_63.lan".to_owned(), of_first), ("core_62.lan".to_owned(), of_second)];
    let supplies = HostServices { opened: opened.into(), ..HostServices::default() };
    let instance = Instance::start(&plan, supplies).expect("it starts");
    let asks = request(1, 2);
    let mut other = asks;
    other[12..14].copy_from_slice(&[8, 0]);
    wait_for("what is no ARP", || {
        for octets in [asks, other] {
            first.send(&octets).expect("sent");
        }
        let mut octets = [0; 2048];
        let heard = || second.recv(&mut octets).ok().map(|len| octets[..len].to_vec());
        let heard: Vec<Vec<u8>> = std::iter::from_fn(heard).collect();
        assert!(heard.iter().all(|octets| octets[..] == other[..]), "{heard:?}");
        !heard.is_empty()
    });
    wait_for("the counter", || {
        counters(&instance).get("core_62.lan.group.arp_withheld").is_some_and(|n| *n > 0)
    });
}
