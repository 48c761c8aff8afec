use frame::ipv4::Packet;

use super::*;

#[test]
fn a_probe_is_a_packet_for_the_listener_without_a_checksum() {
    let mut octets = written([2, 0, 3, 0, 1, 0], PORT).unwrap();
    assert_eq!(octets[..6], [2, 0, 3, 0, 1, 0]);
    octets[tag::FLOW..tag::FLOW + TIME].copy_from_slice(&1_500u64.to_be_bytes());
    let packet = Packet::parse(&octets[tag::IP..]).unwrap();
    let (header, payload) = udp::Header::parse(packet.payload()).unwrap();
    assert_eq!((header.destination, header.checksum), (PORT, 0));
    let times = |since| (Duration::from_nanos(since), Duration::from_micros(4));
    assert_eq!(taken(payload, times(1_500)), Some(Duration::from_nanos(2_500)));
    assert_eq!(taken(payload, times(1_501)), None, "it is one of the load before");
}

#[test]
fn what_is_no_probe_took_no_time() {
    let times = (Duration::ZERO, Duration::from_secs(1));
    assert_eq!(taken(&[0; TIME - 1], times), None);
    // A timestamp in the future.
    assert_eq!(taken(&u64::MAX.to_be_bytes(), times), None);
}
