//! Links that are kept while their configuration changes, in a namespace of their own.

use std::path::Path;
use std::time::{Duration, Instant};

use uplink::{Links, Netns};

use super::*;
use crate::requirements::tests::{ports, wanted};

/// Returns a namespace with an interface for macvtaps, if the host permits it; otherwise prints why not.
fn namespace() -> Option<Netns> {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/net/tun").exists();
    let netns = Netns::new().ok().filter(|_| able);
    if netns.is_none() {
        println!("SKIPPED: needs root, /dev/net/tun and network namespaces");
    }
    netns
}

fn ip(netns: &Netns, words: &str) -> bool {
    netns.command("ip").args(words.split(' ')).output().expect("ip").status.success()
}

/// Opens the link of a NIC in a namespace.
fn link(netns: &Netns, wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    Ok(netns.run(|| wanted.open()).expect("a thread there")?.expect("it is outside"))
}

/// Adapts a link to changed requirements, as a thread would.
fn resize(held: &dyn HostResource, before: &NicRequirements, now: &NicRequirements) -> Result<()> {
    held.resize(before, now).expect("something is to be done")()
}

#[test]
fn a_held_macvtap_takes_another_address_and_size() {
    let Some(netns) = namespace() else { return };
    assert!(ip(&netns, "link add low type veth peer name far"));
    let before = wanted("macvtap:low");
    let held = match link(&netns, &before) {
        Ok(held) => held,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let links = netns.run(|| Links::here().expect("links")).expect("a thread there");
    let shown =
        |links: &Links| (links.mac("edge.wan").expect("there"), links.mtu("edge.wan").expect("there"));
    assert_eq!(shown(&links), (before.mac, 1500));
    let now = NicRequirements { mac: [2, 0, 0, 0, 0, 9], mtu: 1400, ..before.clone() };
    resize(&*held, &before, &now).expect("it takes them");
    assert_eq!(shown(&links), (now.mac, 1400));
    // Settings without a change of requirements are not touched, even if another program has changed them.
    assert!(ip(&netns, "link set edge.wan mtu 1300"));
    assert!(held.resize(&now, &now).is_none());
    assert_eq!(shown(&links), (now.mac, 1300));
}

#[test]
fn a_held_tap_leaves_to_the_kernel_what_its_nic_wants_now_and_spreads_by_its_hash() {
    let Some(netns) = namespace() else { return };
    let before = NicRequirements { queues: 2, pairs: 2, ..wanted("tap:t0") };
    let held = link(&netns, &before).expect("a TAP");
    let now = NicRequirements { hash: Hash::Symmetric, offload: false, mtu: 1400, ..before.clone() };
    resize(&*held, &before, &now).expect("it takes another size and hash, or has no hash of ours");
    let links = netns.run(|| Links::here().expect("links")).expect("a thread there");
    assert_eq!(links.mtu("t0").expect("there"), 1400);
    // As in the data plane, which keeps what it was handed first.
    let handed = HandedOver::of(held.hand_over()).expect("descriptors");
    let served = before.serve(Some(handed), &[], Confinement::Off).expect("a port");
    let takes = |wanted: &NicRequirements| {
        let ports = ports(&*served, wanted);
        assert_eq!((ports.sources.len(), ports.sinks.len()), (2, 2));
        ports.sinks[0].offloads()
    };
    assert!(takes(&before).has(Offloads::CSUM));
    assert_eq!(takes(&now), Offloads::NONE);
    assert!(takes(&before).has(Offloads::CSUM));
}

/// A frame with an IPv4 packet of UDP to this port, as only a neighbour sends it.
fn datagram(port: u16) -> Vec<u8> {
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 255, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let [high, low] = port.to_be_bytes();
    [&[2; 12][..], &[8, 0], &header, &[0xc0, 0, high, low, 0, 26, 0, 0], &[0; 18]].concat()
}

/// Waits for the next frame of a source; returns its UDP port.
fn next_port(source: &mut dyn Source) -> u16 {
    let end = Instant::now() + Duration::from_secs(60);
    let mut found = None;
    while found.is_none() {
        source.drain(1, &mut |frames| {
            found = frames.first().and_then(|frame| frame.octets().read::<2>(36)).map(u16::from_be_bytes);
        });
        assert!(Instant::now() < end, "nothing has come");
    }
    found.unwrap_or_default()
}

#[test]
fn urgent_frames_overtake_those_that_wait_in_the_kernel() {
    let Some(netns) = namespace() else { return };
    netns.settle(false).expect("a namespace that sends nothing");
    let wanted = NicRequirements { has_control: true, queue_len: 16, ..wanted("tap:t0") };
    let held = link(&netns, &wanted).expect("a TAP");
    let handed = HandedOver::of(held.hand_over()).expect("descriptors");
    let served = wanted.serve(Some(handed), &[], Confinement::Off).expect("a port");
    let mut ports = ports(&*served, &wanted);
    assert_eq!((ports.sources.len(), ports.sinks.len()), (1, 1));
    let Some(urgent) = &mut ports.urgent else {
        return println!("SKIPPED: the kernel takes no program that selects the queue of a frame");
    };
    let wire = uplink::PacketSender::open(&netns, "t0").expect("a packet socket");
    for _ in 0..4 {
        wire.repeat(&datagram(9), 64);
    }
    assert_eq!(wire.repeat(&datagram(3784), 1), 1);
    assert_eq!(next_port(&mut **urgent), 3784);
    assert_eq!(next_port(&mut *ports.sources[0]), 9);
    assert!(!urgent.waits() && ports.sources[0].waits());
}

#[test]
fn frames_that_are_dealt_out_one_by_one_stay_out_of_the_urgent_queue() {
    let Some(netns) = namespace() else { return };
    netns.settle(false).expect("a namespace that sends nothing");
    let spread = |in_turn| NicRequirements { has_control: true, queues: 2, in_turn, ..wanted("tap:t0") };
    let held = link(&netns, &spread(false)).expect("a TAP");
    resize(&*held, &spread(false), &spread(true)).expect("dealt out");
    let handed = HandedOver::of(held.hand_over()).expect("descriptors");
    let served = spread(true).serve(Some(handed), &[], Confinement::Off).expect("a port");
    let mut ports = ports(&*served, &spread(true));
    if ports.urgent.is_none() {
        return println!("SKIPPED: the kernel takes no program that selects the queue of a frame");
    }
    let wire = uplink::PacketSender::open(&netns, "t0").expect("a packet socket");
    assert_eq!(wire.repeat(&datagram(9), 64), 64);
    let (end, mut came) = (Instant::now() + Duration::from_secs(60), [0; 2]);
    while came.iter().sum::<usize>() < 64 {
        for (count, source) in came.iter_mut().zip(&mut ports.sources) {
            *count += source.drain(64, &mut |_| {});
        }
        assert!(Instant::now() < end, "{came:?}");
    }
    assert_eq!(came, [32, 32]);
}

#[test]
fn urgent_frames_at_a_macvtap_have_a_way_of_their_own() {
    let Some(netns) = namespace() else { return };
    netns.settle(false).expect("a namespace that sends nothing");
    for words in ["link add low type veth peer name far", "link set low up", "link set far up"] {
        assert!(ip(&netns, words), "{words}");
    }
    let wanted = NicRequirements { has_control: true, queue_len: 16, ..wanted("macvtap:low") };
    let held = match link(&netns, &wanted) {
        Ok(held) => held,
        Err(error) => return println!("SKIPPED: {error:#}"),
    };
    let handed = HandedOver::of(held.hand_over()).expect("descriptors");
    let served = wanted.serve(Some(handed), &[], Confinement::Off).expect("a port");
    let mut ports = ports(&*served, &wanted);
    assert_eq!((ports.sources.len(), ports.sinks.len()), (1, 1));
    let Some(urgent) = &mut ports.urgent else {
        return println!("SKIPPED: the kernel takes no program that finds urgent frames");
    };
    let wire = uplink::PacketSender::open(&netns, "far").expect("a packet socket");
    let send = |port, times| {
        let mut frame = datagram(port);
        frame[..6].copy_from_slice(&wanted.mac);
        wire.repeat(&frame, times)
    };
    // Frames are lost until the kernel has given the new interfaces their queues.
    let (end, mut came) = (Instant::now() + Duration::from_secs(60), 0);
    while came == 0 {
        assert!(Instant::now() < end, "nothing has come");
        send(3784, 1);
        (0..LOOK_EVERY).for_each(|_| came += urgent.drain(1, &mut |_| {}));
    }
    for _ in 0..4 {
        send(9, 64);
    }
    send(3784, 1);
    assert_eq!(next_port(&mut **urgent), 3784);
    assert_eq!(next_port(&mut *ports.sources[0]), 9, "the other one is left out");
}

#[test]
fn a_link_without_a_queue_is_none() {
    let what = json!(["t0", Traits::default(), false]);
    assert!(tap(HandedOver { what, descriptors: Vec::new() }).is_err());
}
