//! Negotiation of offloads, and switching them off and on (virtio 1.2, sections 5.1.3 and 5.1.6.5.6).

use super::features::*;
use super::*;
use port::Offloads;

/// Creates a device that offers all offloads.
fn offering() -> VirtioNet {
    VirtioNet::new(&NicConfig { offloads: true, ..NicConfig::new(super::MAC) }).unwrap()
}

#[test]
fn they_are_offered_where_they_are_wanted() {
    let mut driver = Driver::probe(offering());
    assert_eq!(driver.offered() & OFFLOADS, OFFLOADS);
    assert_eq!(driver.offered() & (CTRL_VQ | MQ), CTRL_VQ, "a control queue, and one pair");
    assert_eq!((driver.nic.queues(), driver.nic.vectors()), (3, 4));
    assert_eq!(Driver::probe(nic()).offered() & OFFLOADS, 0);
}

#[test]
fn each_needs_what_it_stands_on() {
    let cases = [
        ("checksums alone", CSUM | GUEST_CSUM, true),
        ("all", OFFLOADS | CTRL_VQ, true),
        ("TSO without checksums", HOST_TSO4, false),
        ("the checksums of the other direction", HOST_TSO6 | GUEST_CSUM, false),
        ("large frames to a driver that takes no checksum", GUEST_TSO4 | CSUM, false),
        ("ECN with either TSO", CSUM | HOST_TSO6 | HOST_ECN, true),
        ("ECN without TSO", CSUM | HOST_ECN, false),
        ("ECN by the other direction's TSO", GUEST_CSUM | GUEST_ECN | CSUM | HOST_TSO4, false),
        ("USO without checksums", HOST_USO, false),
        ("a switch without a control queue", GUEST_CSUM | CTRL_GUEST_OFFLOADS, false),
        ("UFO, which is not offered", CSUM | 1 << 14, false),
    ];
    for (name, picked, agreed) in cases {
        let mut driver = Driver::probe(offering());
        assert_eq!(driver.negotiate(VERSION_1 | picked), agreed, "{name}");
    }
}

#[test]
fn what_was_agreed_on_is_what_may_be_left() {
    let start = |features| Start { features, queues: Vec::new() };
    let tso = Offloads::CSUM | Offloads::TSO4;
    assert_eq!(start(CSUM | HOST_TSO4).offloads_of_driver(), tso);
    assert_eq!(start(CSUM | HOST_TSO4).offloads_of_device(), Offloads::NONE);
    assert_eq!(start(GUEST_CSUM | GUEST_TSO4).offloads_of_device(), tso);
    assert_eq!(start(OFFLOADS).offloads_of_device(), Offloads::ALL);
    assert_eq!(start(OFFLOADS).offloads_of_driver(), Offloads::ALL);
    // Large UDP is left only to a driver that accepts it over both IPv4 and IPv6.
    assert_eq!(start(GUEST_CSUM | GUEST_USO4).offloads_of_device(), Offloads::CSUM);
}

fn set(bits: u64) -> Vec<u8> {
    [&[CLASS_GUEST_OFFLOADS, GUEST_OFFLOADS_SET][..], &bits.to_le_bytes()].concat()
}

#[test]
fn a_driver_switches_off_and_on_what_it_agreed_on() {
    let mut driver = Driver::probe(offering());
    assert!(driver.negotiate(VERSION_1 | CTRL_VQ | CTRL_GUEST_OFFLOADS | GUEST_CSUM | GUEST_TSO4));
    driver.start(3);
    driver.nic.take_effects();
    for (bits, ack) in [
        (0, Ack::Ok),
        (GUEST_CSUM, Ack::Ok),
        (GUEST_CSUM | GUEST_TSO4, Ack::Ok),
        (GUEST_TSO6, Ack::Error),
        (CSUM, Ack::Error),
        (u64::MAX, Ack::Error),
    ] {
        assert_eq!(driver.nic.control(&set(bits)), ack, "{bits:#x}");
    }
    let changes = [Offloads::NONE, Offloads::CSUM, Offloads::CSUM | Offloads::TSO4];
    assert_eq!(driver.nic.take_effects(), changes.map(Effect::OffloadsChanged));
    for command in [&set(0)[..9], &[&set(0)[..], &[0]].concat(), &[5, 1, 0, 0, 0, 0, 0, 0, 0, 0]] {
        assert_eq!(driver.nic.control(command), Ack::Error, "{command:?}");
    }
}

#[test]
fn without_the_feature_there_is_no_such_command() {
    let mut driver = Driver::probe(offering());
    assert!(driver.negotiate(VERSION_1 | CTRL_VQ | GUEST_CSUM));
    driver.start(3);
    assert_eq!(driver.nic.control(&set(0)), Ack::Error);
}
