//! VLAN tags that the kernel keeps beside a frame when it hands that to a TAP, as those of its own VLANs. A program puts them there,
//! so that the kernel needs no 802.1Q.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bpf::{Assembler, Compare, Direction, Purpose, R0, R1, R2, R3, R6};
use port::steer::Hash;
use uplink::{Netns, Tap, TapConfig, TapSink, TapSource};

use crate::far_end::{KERNEL, OURS, PacketSocket};
use crate::support::{Way, collect, datagram, devices, drained, frames_at, wait_for, wait_until_running};

const WAY: Way =
    Way { from: (KERNEL, Ipv4Addr::new(198, 18, 0, 1)), to: (OURS, Ipv4Addr::new(198, 18, 0, 2)) };
/// The tag of a VLAN with a priority, and the service tag in front of it: Ethernet type, priority and number.
const TAGS: [(u16, u16); 2] = [(0x8100, 0x6064), (0x88a8, 200)];
/// Number of the kernel's function that puts a tag beside a packet, and the one that was there into it (`bpf_skb_vlan_push`).
const VLAN_PUSH: i32 = 18;
/// Results of a program: the packet goes on (`TCX_NEXT`), or is dropped (`TCX_DROP`).
const NEXT: i32 = -1;
const DROP: i32 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Failed,
}

/// A namespace in which nobody sends by himself.
fn quiet() -> Netns {
    let netns = Netns::new().expect("a namespace");
    let _ = netns.settle(false).expect("settled");
    netns
}

/// Opens a packet socket at the TAP: what it sends leaves by the TAP.
fn socket(netns: &Netns) -> PacketSocket {
    netns.run(|| PacketSocket::open("t0")).expect("enter").expect("a packet socket")
}

fn skipped(why: &str) -> Option<OwnedFd> {
    println!("SKIPPED: {why}");
    None
}

/// Has the kernel give all frames that leave by the TAP these tags, the last one in front, until the result is dropped.
fn give_tags(netns: &Netns, tags: &[(u16, u16)]) -> Option<OwnedFd> {
    let mut code = Assembler::default();
    code.mov(R6, R1);
    for (kind, tag) in tags {
        code.mov(R1, R6);
        // In network byte order.
        code.mov_const(R2, kind.to_be().into());
        code.mov_const(R3, (*tag).into());
        code.call(VLAN_PUSH);
        code.jump_if(Compare::Other, R0, 0, Place::Failed);
    }
    code.mov_const(R0, NEXT);
    code.exit();
    code.label(Place::Failed);
    code.mov_const(R0, DROP);
    code.exit();
    let program = match bpf::load(Purpose::TrafficControl, &code.finish()) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            return skipped("needs the right to use bpf(2)");
        }
        loaded => loaded.expect("a program"),
    };
    let index = netns.links().expect("links").index("t0").expect("its index");
    let attached = netns.run(|| bpf::attach_to_tcx(program.as_fd(), index, Direction::Egress));
    match attached.expect("enter") {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => skipped("needs tcx (Linux 6.6)"),
        attached => Some(attached.expect("attached")),
    }
}

/// Returns a frame with these tags in it, the last one in front.
fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let words = tags.iter().rev().flat_map(|(kind, tag)| [*kind, *tag]);
    let octets: Vec<u8> = words.flat_map(u16::to_be_bytes).collect();
    [&frame[..12], &octets[..], &frame[12..]].concat()
}

/// Sends a frame; returns the queue in which it comes, and the octets that come.
fn sent(ports: &mut [(TapSource, Arc<TapSink>)], by: &PacketSocket, frame: &[u8]) -> (usize, Vec<u8>) {
    assert_eq!(rustix::io::write(by, frame), Ok(frame.len()));
    let mut came = None;
    wait_for("the frame", || {
        let mut queues = ports.iter_mut().enumerate();
        came = queues.find_map(|(number, (source, _))| Some((number, drained(source).pop()?)));
        came.is_some()
    });
    came.expect("it came")
}

#[test]
fn a_tag_that_the_kernel_keeps_beside_a_frame_is_in_it_when_it_leaves_a_tap() {
    if !devices() {
        return;
    }
    for tags in [&TAGS[..1], &TAGS[1..], &TAGS[..]] {
        let netns = quiet();
        let config = TapConfig { netns: Some(&netns), ..TapConfig::default() };
        let (mut source, _sink) = Tap::open("t0", &config).expect("a TAP").split();
        wait_until_running(&netns, "t0");
        let Some(_given) = give_tags(&netns, tags) else { return };
        let (sender, beside) = (socket(&netns), socket(&netns));
        let plain = datagram(WAY, 100, 1);
        assert_eq!(rustix::io::write(&sender, &plain), Ok(plain.len()));
        assert_eq!(collect(&mut source, 1), [tagged(&plain, tags)]);
        // Another packet socket is shown the frame as the TAP gets it: the last tag is in the metadata alone (PACKET_AUXDATA).
        let shown = tagged(&plain, &tags[..tags.len() - 1]);
        wait_for("the frame without its last tag", || frames_at(&beside).contains(&shown));
    }
}

#[test]
fn a_tag_beside_a_frame_changes_neither_its_queue_nor_that_it_is_urgent() {
    if !devices() {
        return;
    }
    let netns = quiet();
    let config = TapConfig {
        queues: 4,
        hash: Some(Hash::Flow),
        urgent: true,
        netns: Some(&netns),
        ..TapConfig::default()
    };
    let tap = Tap::open("t0", &config).expect("a TAP");
    if !tap.traits().has_urgent_queue() {
        return println!("SKIPPED: the kernel takes no program that finds urgent frames");
    }
    let mut ports = tap.into_ports();
    wait_until_running(&netns, "t0");
    let sender = socket(&netns);
    // Sixteen flows, and ARP.
    let mut frames: Vec<Vec<u8>> = (0..16).map(|number| datagram(WAY, 100, number)).collect();
    frames.push([&[0xff; 12][..], &[8, 6], &[0; 46]].concat());
    let plain: Vec<_> = frames.iter().map(|frame| sent(&mut ports, &sender, frame)).collect();
    assert!(plain.iter().map(|(_, came)| came).eq(&frames), "{plain:02x?}");
    let queues: Vec<usize> = plain.iter().map(|(queue, _)| *queue).collect();
    let of_flows: BTreeSet<usize> = queues[..16].iter().copied().collect();
    assert!(of_flows.len() > 1 && of_flows.iter().all(|queue| *queue < 4) && queues[16] == 4, "{queues:?}");
    // One tag beside the frame; then another one, which takes its place, while that gets into the frame.
    let mut given = Vec::new();
    for count in 1..=TAGS.len() {
        let Some(one_more) = give_tags(&netns, &TAGS[count - 1..count]) else { return };
        given.push(one_more);
        for (frame, queue) in frames.iter().zip(&queues) {
            assert_eq!(sent(&mut ports, &sender, frame), (*queue, tagged(frame, &TAGS[..count])), "{count}");
        }
    }
}
