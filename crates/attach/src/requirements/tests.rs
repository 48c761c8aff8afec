use std::path::Path;

use nic_port::NicQueues;

use super::*;
use crate::{Ports, ServiceContext, Takes};

/// Returns the requirements of the NIC `edge.wan` with defaults for everything else.
pub(crate) fn wanted(attach: &str) -> NicRequirements {
    let mut attach = Attach::read(attach).expect("good");
    for key in attach.keys() {
        if let (Takes::Word(words), None) = (&key.takes, key.with)
            && words.find(key.shown.1).is_ok()
        {
            attach.set(key.name, key.shown.1);
        }
    }
    NicRequirements {
        router: "edge".to_owned(),
        nic: "wan".to_owned(),
        attach,
        queues: 1,
        pairs: 1,
        ring: 256,
        mtu: 1500,
        queue_len: 1000,
        is_tuned: false,
        offload: true,
        hash: Hash::Flow,
        in_turn: false,
        mac: [2, 0, 0, 0, 0, 1],
        is_direct: false,
        is_polled: false,
        by_kernel: false,
        memory_max: 64 << 20,
        in_kernel: false,
        has_control: false,
    }
}

/// Returns the ports of a NIC, opened and served by this process.
pub(crate) fn served(wanted: &NicRequirements) -> Ports {
    let opened = wanted.open().expect("opened").expect("it is outside");
    let handed = HandedOver::of(opened.hand_over()).expect("descriptors");
    ports(&*wanted.serve(Some(handed), &[], Confinement::Off).expect("served"), wanted)
}

/// Returns the ports of an attachment for a NIC with these requirements.
pub(crate) fn ports(served: &dyn Attachment, wanted: &NicRequirements) -> Ports {
    let queues = NicQueues::foreign(wanted.pairs).expect("descriptors");
    let service = ServiceContext { wanted, threads: wanted.queues, queues: &queues, entry: &|_, sink| sink };
    served.ports(&service).expect("ports")
}

fn named(router: &str, nic: &str) -> String {
    let (router, nic) = (router.to_owned(), nic.to_owned());
    NicRequirements { router, nic, ..wanted("bridge:br0") }.link_name()
}

#[test]
fn a_link_is_called_like_its_nic_as_far_as_that_goes() {
    assert_eq!(named("edge", "wan"), "edge.wan");
    assert_eq!(named("edge", "abcdefghij"), "edge.abcdefghij");
    let (one, other) = (named("a-long-router", "nic-a"), named("a-long-router", "nic-b"));
    assert!(one.starts_with("a-long-rou.") && one.len() == 15, "{one}");
    assert_ne!(one, other);
}

#[test]
fn what_stays_without_its_descriptors_is_to_be_taken_away() {
    let undone = |attach: &str| wanted(attach).undo();
    assert_eq!(undone("macvtap:eth0"), Some(Undo::of_macvtap("edge.wan")));
    assert_eq!(undone("ovs:br0"), Some(Undo::of_ovs_port("edge.wan")));
    let socket = Undo::of_socket(Path::new("/a/v.sock"));
    assert_eq!(undone("vhost-user-backend:/a/v.sock"), socket);
    // If the peer listens, the socket belongs to the peer.
    assert_eq!(undone("vhost-user-frontend:/a/v.sock"), None);
    assert_eq!((undone("bridge:br0"), undone("tap:t0"), undone("null")), (None, None, None));
    let in_kernel = |attach: &str| NicRequirements { in_kernel: true, ..wanted(attach) };
    assert_eq!(in_kernel("ovs:br0").undo(), Some(Undo::of_ovs_port("edge.wan")));
    assert_eq!((in_kernel("bridge:br0").undo(), in_kernel("switch:lan").undo()), (None, None));
}

#[test]
fn of_what_kernel_routers_stand_on_only_a_port_of_a_switch_of_ours_is_a_tap() {
    let needs_tun = |attach: &str| NicRequirements { in_kernel: true, ..wanted(attach) }.needs_tun();
    let all = ["switch:lan", "tap:t0", "bridge:br0", "ovs:br0", "veth:v0", "macvlan:eth0", "link:eth0"];
    assert_eq!(all.map(needs_tun), [true, false, false, false, false, false, false]);
    assert!(wanted("ovs:br0").needs_tun(), "a router that is no kernel router has a TAP there");
    for attach in ["switch:lan", "ovs:br0"] {
        let origin = NicRequirements { in_kernel: true, ..wanted(attach) }.origin().expect("it has one");
        assert_eq!(origin, Origin::Moved { link: "edge.wan".to_owned() }, "{attach}");
    }
}

#[test]
fn what_is_held_goes_on_for_whoever_it_fits() {
    let other = |held: &NicRequirements| NicRequirements { router: "core".to_owned(), ..held.clone() };
    let (tap, bridged) = (wanted("tap:t0"), wanted("bridge:br0"));
    assert!(other(&tap).is_served_by(&tap), "whoever names a TAP has it");
    assert!(!other(&bridged).is_served_by(&bridged), "another one has a TAP of its own in that bridge");
    let smaller = NicRequirements { mtu: 1400, offload: false, hash: Hash::Symmetric, ..bridged.clone() };
    assert!(smaller.is_served_by(&bridged));
    assert!(!NicRequirements { by_kernel: true, ..tap.clone() }.is_served_by(&tap));
    let machine = wanted("vhost-user-backend:v.sock");
    assert!(
        !NicRequirements { memory_max: 4 << 30, ..machine.clone() }.is_served_by(&machine),
        "it was offered less"
    );
    let more = NicRequirements { queues: 2, ..tap.clone() };
    let error = more.check_queues(&tap).expect_err("a TAP has those that it was made with");
    assert_eq!(
        format!("{error:#}"),
        "the TAP `t0` has 1 queues while the run lasts, not 2: choose another name, or start the run anew"
    );
    NicRequirements { queues: 2, ..wanted("null") }
        .check_queues(&wanted("null"))
        .expect("nothing has queues");
}
