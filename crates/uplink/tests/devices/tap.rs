//! TAP devices in namespaces of their own, with the kernel as the peer.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::Arc;

use crate::support::{HEADERS, Way, collect, collect_from, datagram, deliver, devices, number, wait_for};
use port::steer::Hash;
use port::{Bell, Source};
use uplink::tap::LARGEST_FRAME;
use uplink::{
    Cable, Error, LinkTable, Links, Mac, Netns, Ownership, Tap, TapConfig, TapSink, TapSource, Traits,
};

const KERNEL: [Mac; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 2, 0]];
const OURS: [Mac; 2] = [[2, 0, 0, 0, 1, 9], [2, 0, 0, 0, 2, 9]];

const fn host(side: u8, host: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, side, host)
}

/// A namespace whose kernel forwards between two TAPs.
struct Site {
    netns: Netns,
    links: Links,
    ports: [(TapSource, Arc<TapSink>); 2],
}

fn site() -> Site {
    let netns = Netns::new().unwrap();
    let links = netns.settle(true).unwrap();
    let ports = [0, 1].map(|side| {
        let config = TapConfig { mac: Some(KERNEL[side]), netns: Some(&netns), ..TapConfig::default() };
        let name = format!("t{side}");
        let port = Tap::open(&name, &config).unwrap().into_ports().remove(0);
        links.add_address(&name, host(side as u8, 1), 24).unwrap();
        links.add_neighbour(&name, host(side as u8, 2), OURS[side]).unwrap();
        port
    });
    Site { netns, links, ports }
}

/// From a host of ours on one side to one on the other, through the kernel.
fn across(side: usize) -> Way {
    Way { from: (OURS[side], host(side as u8, 2)), to: (KERNEL[side], host(1 - side as u8, 2)) }
}

#[test]
fn frames_cross_the_kernel_between_two_taps_in_order_and_whole() {
    if !devices() {
        return;
    }
    let mut site = site();
    for (side, len) in [(0, 60), (0, 1514), (1, 60), (1, 1514)] {
        let mut sent: Vec<_> = (0..64).map(|n| datagram(across(side), len, n)).collect();
        assert_eq!(deliver(&*site.ports[side].1, &mut sent), 64);
        let came = collect(&mut site.ports[1 - side].0, 64);
        assert_eq!(came.len(), 64);
        for (n, (frame, sent)) in came.iter().zip(&sent).enumerate() {
            assert_eq!((frame.len(), number(frame)), (len, n as u32));
            assert_eq!(frame[..12], [OURS[1 - side], KERNEL[1 - side]].concat());
            assert_eq!(frame[22], 63, "the kernel routed it");
            assert_eq!(frame[26..], sent[26..]);
        }
    }
    for (source, sink) in &site.ports {
        let (read, written) = (source.counters(), sink.counters());
        assert_eq!((read.frames.get(), read.bytes.get()), (128, 64 * (60 + 1514)));
        assert_eq!(
            (written.frames.get(), written.bytes.get(), written.batches.get()),
            (128, 64 * (60 + 1514), 2)
        );
    }
}

#[test]
fn the_budget_bounds_a_burst_and_the_rest_waits() {
    if !devices() {
        return;
    }
    let mut site = site();
    deliver(&*site.ports[0].1, &mut (0..10).map(|n| datagram(across(0), 60, n)).collect::<Vec<_>>());
    let source = &mut site.ports[1].0;
    assert!(source.waits() && matches!(source.bell(), Bell::Readable(_)));
    assert!(source.arm(), "ten frames wait");
    let mut shown = Vec::new();
    for budget in [0, 4, 64, 64] {
        let mut calls = 0;
        let n = source.drain(budget, &mut |frames| {
            calls += 1;
            assert_eq!(frames.len(), budget.min(6));
        });
        assert_eq!(calls, usize::from(n > 0));
        shown.push(n);
    }
    assert_eq!(shown, [0, 4, 6, 0]);
    assert!(!source.arm(), "nothing waits");
}

#[test]
fn a_frame_the_kernel_refuses_costs_no_other_frame() {
    if !devices() {
        return;
    }
    let mut site = site();
    let mut sent = vec![datagram(across(0), 60, 0), vec![1; 13], Vec::new(), datagram(across(0), 60, 1)];
    assert_eq!(deliver(&*site.ports[0].1, &mut sent), 4);
    let written = site.ports[0].1.counters();
    assert_eq!((written.frames.get(), written.drop_malformed.get()), (2, 2));
    assert_eq!(collect(&mut site.ports[1].0, 2).iter().map(|f| number(f)).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_is_sent_into_a_device_that_is_down_is_counted_and_it_works_again_when_up() {
    if !devices() {
        return;
    }
    let mut site = site();
    site.links.set_up("t0", false).unwrap();
    let mut sent: Vec<_> = (0..5).map(|n| datagram(across(0), 60, n)).collect();
    assert_eq!(deliver(&*site.ports[0].1, &mut sent), 0);
    assert_eq!(site.ports[0].1.counters().drop_down.get(), 5);
    let source = &mut site.ports[0].0;
    assert_eq!(source.drain(64, &mut |_| panic!("a frame from nowhere")), 0);
    assert!(!source.arm(), "a device that is down is quiet");
    assert_eq!((source.counters().polls_empty.get(), source.counters().read_errors.get()), (1, 0));
    site.links.set_up("t0", true).unwrap();
    assert_eq!(deliver(&*site.ports[0].1, &mut sent), 5);
    assert_eq!(collect(&mut site.ports[1].0, 5).len(), 5);
}

#[test]
fn a_deleted_device_stays_dead_until_another_one_takes_its_place() {
    if !devices() || Command::new("ip").arg("-V").output().is_err() {
        println!("SKIPPED: needs root, /dev/net/tun and the program ip (iproute2)");
        return;
    }
    let mut site = site();
    let mut delete = Command::new("ip");
    delete.args(["link", "delete", "t0"]);
    assert!(site.netns.attach(&mut delete).status().unwrap().success());
    let (source, sink) = &mut site.ports[0];
    let mut sent: Vec<_> = (0..3).map(|n| datagram(across(0), 60, n)).collect();
    assert_eq!((deliver(&**sink, &mut sent), deliver(&**sink, &mut sent)), (0, 0));
    assert_eq!(sink.counters().drop_gone.get(), 6);
    assert_eq!(source.drain(64, &mut |_| panic!("a frame from nowhere")), 0);
    assert!(!source.arm() && matches!(source.bell(), Bell::Event(_)));
}

#[test]
fn another_device_takes_the_place_of_one_that_was_deleted_under_whoever_serves_it() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let (tap, links) = lone_tap(&netns, 2);
    let mut ports = tap.try_clone().unwrap().into_ports();
    assert!(tap.is_there());
    let mut delete = netns.command("ip");
    assert!(delete.args(["link", "delete", "t0"]).status().unwrap().success());
    assert!(!tap.is_there());
    assert_eq!(ports[0].0.drain(64, &mut |_| panic!("a frame from nowhere")), 0);
    let (again, links) = {
        drop(links);
        lone_tap(&netns, 2)
    };
    tap.replace(&again).unwrap();
    drop(again);
    assert!(tap.is_there());
    let Bell::Readable(_) = ports[0].0.bell() else { panic!("it is there again") };
    let socket = netns.run(|| UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    socket.send_to(b"here", "198.18.0.2:9").unwrap();
    assert_eq!(collect_from(&mut sources(&mut ports), 1).len(), 1);
    let (other, _) = {
        drop(links);
        lone_tap(&Netns::new().unwrap(), 1)
    };
    assert!(matches!(tap.replace(&other), Err(Error::Range { found: 1, .. })));
}

#[test]
fn a_source_alone_notices_that_its_device_was_deleted() {
    if !devices() || Command::new("ip").arg("-V").output().is_err() {
        println!("SKIPPED: needs root, /dev/net/tun and the program ip (iproute2)");
        return;
    }
    let mut site = site();
    let mut delete = Command::new("ip");
    delete.args(["link", "delete", "t1"]);
    assert!(site.netns.attach(&mut delete).status().unwrap().success());
    assert_eq!(site.ports[1].0.drain(64, &mut |_| panic!("a frame from nowhere")), 0);
    assert!(matches!(site.ports[1].0.bell(), Bell::Event(_)), "its descriptor would ring for ever");
}

#[test]
fn a_name_that_is_taken_is_refused_and_its_owner_goes_on() {
    if !devices() {
        return;
    }
    let mut site = site();
    for ownership in [Ownership::New, Ownership::NewOrExisting] {
        let config = TapConfig { netns: Some(&site.netns), ownership, ..TapConfig::default() };
        let refused = Tap::open("t0", &config).expect_err("it is ours already");
        assert!(matches!(refused, Error::InUse { .. }), "{refused}");
        assert!(refused.to_string().contains("`t0` exists already"), "{refused}");
    }
    let config =
        TapConfig { netns: Some(&site.netns), ownership: Ownership::NewOrExisting, ..TapConfig::default() };
    let refused = Tap::open("lo", &config).expect_err("no TAP");
    assert!(matches!(refused, Error::NotTap { .. }), "{refused}");
    deliver(&*site.ports[0].1, &mut [datagram(across(0), 60, 7)]);
    assert_eq!(collect(&mut site.ports[1].0, 1).len(), 1);
}

#[test]
fn a_device_that_was_there_before_gets_its_settings_back() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let run = |words: &str| {
        netns.command("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
    };
    if !run("tuntap add t9 mode tap multi_queue") {
        println!("SKIPPED: needs iproute2");
        return;
    }
    assert!(run("link set t9 mtu 1300 txqueuelen 77"));
    let shows = |texts: [&str; 2]| {
        let shown = netns.command("ip").args(["-o", "link", "show", "t9"]).output().expect("ip").stdout;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        assert!(texts.iter().all(|text| shown.contains(text)), "{texts:?}: {shown}");
        shown.contains(",UP")
    };
    let config = TapConfig {
        queues: 2,
        mtu: 1400,
        queue_len: 500,
        hash: Some(Hash::Flow),
        ownership: Ownership::NewOrExisting,
        netns: Some(&netns),
        ..TapConfig::default()
    };
    for _ in 0..2 {
        let tap = Tap::open("t9", &config).unwrap();
        assert!(shows(["mtu 1400 ", "qlen 500"]), "it is up");
        drop(tap);
        assert!(!shows(["mtu 1300 ", "qlen 77"]), "it is down as before");
    }
}

#[test]
fn numbers_that_the_device_does_not_take_are_refused_before_anything_is_made() {
    let wrong = [
        TapConfig { mtu: 67, ..TapConfig::default() },
        TapConfig { mtu: 9217, ..TapConfig::default() },
        TapConfig { queues: 0, ..TapConfig::default() },
        TapConfig { queues: 257, ..TapConfig::default() },
    ];
    for config in wrong {
        let refused = Tap::open("never", &config).expect_err("out of range");
        assert!(matches!(refused, Error::Range { .. }), "{refused}");
    }
}

#[test]
fn the_device_goes_with_its_last_port() {
    if !devices() {
        return;
    }
    let site = site();
    let [(source, sink), other] = site.ports;
    drop(source);
    assert!(site.links.exists("t0").unwrap());
    drop(sink);
    // A program being started by another test inherits our descriptors until exec.
    wait_for("its end", || !site.links.exists("t0").unwrap());
    assert!(site.links.exists("t1").unwrap());
    drop(other);
}

#[test]
fn the_device_is_as_it_was_ordered() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let config = TapConfig { mtu: 1280, mac: Some(KERNEL[1]), netns: Some(&netns), ..TapConfig::default() };
    let tap = Tap::open("fifteen-octets-", &config).unwrap();
    let links = netns.links().unwrap();
    assert_eq!(links.mtu(tap.name()).unwrap(), 1280);
    assert_eq!(links.mac(tap.name()).unwrap(), KERNEL[1]);
    assert!(!Links::here().unwrap().exists(tap.name()).unwrap(), "it lies in its namespace only");
}

#[test]
fn a_frame_larger_than_the_buffers_is_lost_under_its_own_name() {
    if !devices() {
        return;
    }
    let mut site = site();
    site.links.set_mtu("t0", 16_000).unwrap();
    let socket = site.netns.run(|| UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    let sizes = [LARGEST_FRAME - HEADERS, LARGEST_FRAME + 1 - HEADERS, 15_000, 100];
    for size in sizes {
        socket.send_to(&vec![0; size], "198.18.0.2:9").unwrap();
    }
    let came: Vec<_> = collect(&mut site.ports[0].0, 2).iter().map(Vec::len).collect();
    assert_eq!(came, [LARGEST_FRAME, 100 + HEADERS]);
    assert_eq!(site.ports[0].0.counters().drop_too_long.get(), 2);
}

#[test]
fn the_queues_of_one_device_share_its_frames() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let links = netns.settle(true).unwrap();
    let config = TapConfig { queues: 2, mac: Some(KERNEL[0]), netns: Some(&netns), ..TapConfig::default() };
    let mut ports = Tap::open("t0", &config).unwrap().into_ports();
    links.add_address("t0", host(0, 1), 24).unwrap();
    links.add_neighbour("t0", host(0, 2), OURS[0]).unwrap();
    let socket =
        netns.run(|| (0..32).map(|_| UdpSocket::bind("198.18.0.1:0").unwrap()).collect::<Vec<_>>()).unwrap();
    for socket in &socket {
        socket.send_to(&[0; 20], "198.18.0.2:9").unwrap();
    }
    assert_eq!(collect_from(&mut sources(&mut ports), 32).len(), 32);
    for (_, sink) in &ports {
        assert_eq!(deliver(&**sink, &mut [datagram(across(0), 60, 1)]), 1);
    }
}

/// `t0` with this address on the kernel's side, and the interfaces around it.
fn sources(ports: &mut [(TapSource, Arc<TapSink>)]) -> Vec<&mut dyn Source> {
    ports.iter_mut().map(|(source, _)| source as &mut dyn Source).collect()
}

fn lone_tap(netns: &Netns, queues: u16) -> (Tap, Links) {
    let links = netns.settle(false).unwrap();
    let config = TapConfig { queues, mac: Some(KERNEL[0]), netns: Some(netns), ..TapConfig::default() };
    let tap = Tap::open("t0", &config).unwrap();
    links.add_address("t0", host(0, 1), 24).unwrap();
    links.add_neighbour("t0", host(0, 2), OURS[0]).unwrap();
    (tap, links)
}

#[test]
fn what_the_kernel_counts_is_found_wherever_a_device_was_moved() {
    if !devices() {
        return;
    }
    let (home, away) = (Netns::new().unwrap(), Netns::new().unwrap());
    let (tap, _links) = lone_tap(&home, 1);
    let counted = || tap.kernel_counters(&home.run(LinkTable::here).unwrap().unwrap());
    assert_eq!(counted().unwrap().tx_drops, 0);
    let there = format!("/proc/{}/fd/{}", std::process::id(), away.as_fd().as_raw_fd());
    let mut ip = home.command("ip");
    assert!(ip.args(["link", "set", "t0", "netns", &there, "name", "t9"]).status().unwrap().success());
    let links = away.settle(false).unwrap();
    links.add_address("t9", host(0, 1), 24).unwrap();
    links.add_neighbour("t9", host(0, 2), OURS[0]).unwrap();
    links.set_up("t9", true).unwrap();
    let socket = away.run(|| UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    let waits = 1000;
    for _ in 0..waits + 7 {
        // The kernel may or may not report the loss to the sender.
        let _ = socket.send_to(b"here", "198.18.0.2:9");
    }
    assert_eq!(counted().unwrap().tx_drops, 7);
    drop(links);
    assert!(away.command("ip").args(["link", "delete", "t9"]).status().unwrap().success());
    assert_eq!(counted(), None);
}

#[test]
fn a_clone_keeps_the_device_and_the_frames_that_wait_in_it() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let (tap, links) = lone_tap(&netns, 1);
    let kept = tap.try_clone().unwrap();
    let mut first = tap.split();
    let socket = netns.run(|| UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    socket.send_to(b"one", "198.18.0.2:9").unwrap();
    assert_eq!(collect(&mut first.0, 1).len(), 1);
    drop(first);
    assert!(links.exists("t0").unwrap(), "the clone holds it");
    socket.send_to(b"two", "198.18.0.2:9").unwrap();
    let (mut source, sink) = kept.split();
    let came = collect(&mut source, 1);
    assert_eq!(came.iter().map(|frame| &frame[HEADERS..]).collect::<Vec<_>>(), [b"two"]);
    drop((source, sink));
    wait_for("the last one to take it away", || !links.exists("t0").unwrap());
}

#[test]
fn a_device_of_another_process_is_known_by_its_descriptors() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let (tap, links) = lone_tap(&netns, 2);
    let sent: Vec<_> = tap.descriptors().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    assert_eq!(sent.len(), 2);
    let traits = tap.traits().clone();
    drop(tap);
    let mut there = Tap::from_descriptors("t0", sent, traits).unwrap();
    there = there.try_clone().unwrap();
    let mut ports = there.into_ports();
    let socket = netns.run(|| UdpSocket::bind("198.18.0.1:0").unwrap()).unwrap();
    socket.send_to(b"here", "198.18.0.2:9").unwrap();
    assert_eq!(ports.len(), 2);
    assert_eq!(collect_from(&mut sources(&mut ports), 1).len(), 1);
    drop(ports);
    // A process being started by another test has all descriptors until exec.
    wait_for("its end", || !links.exists("t0").unwrap());
}

#[test]
fn descriptors_that_can_be_no_device_are_refused() {
    assert!(matches!(
        Tap::from_descriptors("t0", Vec::new(), Traits::default()),
        Err(Error::Range { found: 0, .. })
    ));
    assert!(matches!(Tap::from_descriptors("a/b", Vec::new(), Traits::default()), Err(Error::Name { .. })));
}

#[test]
fn a_cable_shows_its_carrier_its_mtu_and_who_is_at_its_end_wherever_its_device_lies() {
    if !devices() {
        return;
    }
    let (netns, other) = (Netns::new().unwrap(), Netns::new().unwrap());
    let (tap, _) = lone_tap(&netns, 1);
    // The interfaces here, and those of a namespace that the device was moved out of.
    for links in
        [netns.run(|| Links::here().unwrap()).unwrap(), other.run(|| Links::here().unwrap()).unwrap()]
    {
        let cable = || tap.cable(&links);
        let ip = |words: &[&str]| assert!(netns.command("ip").args(words).status().unwrap().success());
        let mac = cable().expect("it is there").mac;
        let mtu = Some(1500);
        assert_eq!(cable(), Some(Cable { running: true, mac, mtu }));
        ip(&["link", "set", "t0", "down"]);
        assert_eq!(cable(), Some(Cable { running: false, mac, mtu }));
        ip(&["link", "set", "t0", "up", "mtu", "1400"]);
        assert_eq!(cable(), Some(Cable { running: true, mac, mtu: Some(1400) }));
        ip(&["link", "set", "t0", "mtu", "1500"]);
        let new = [2, 0, 0, 0, 7, mac.expect("an address")[5].wrapping_add(1)];
        ip(&["link", "set", "t0", "address", &format!("02:00:00:00:07:{:02x}", new[5])]);
        assert_eq!(cable(), Some(Cable { running: true, mac: Some(new), mtu }));
    }
    assert!(netns.command("ip").args(["link", "delete", "t0"]).status().unwrap().success());
    assert_eq!(tap.cable(&Links::here().unwrap()), None);
}

#[test]
fn a_carrier_comes_and_goes_as_it_is_ordered() {
    if !devices() {
        return;
    }
    let netns = Netns::new().unwrap();
    let (tap, links) = lone_tap(&netns, 1);
    for is_there in [false, true, false] {
        tap.set_carrier(is_there).unwrap();
        // The kernel tells it later, in a thread of its own.
        wait_for("the carrier changes", || tap.cable(&links).expect("it is there").running == is_there);
    }
}
