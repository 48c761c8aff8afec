//! Stations with one another, over a good, bad or cut wire, and with frames that no station sends.

mod world;

use bootinfo::Station as Duty;
use frame::Mac;
use proptest::prelude::*;
use router::Address;
use station::{LEAST_OCTETS, MOST_OCTETS};

use world::*;

/// A station keeps at most one buffer, for the next frame.
const SPARE: usize = 1;

#[test]
fn a_stream_arrives_as_fast_as_the_window_lets_it() {
    let mut pair = Pair::new(Node::new(1, Duty::TcpStream));
    pair.run(30);
    let (sent, came) = (pair.client.tally.octets_sent.get(), pair.server.tally.octets_received.get());
    assert!(came > 10_000_000 && came <= sent, "{came} of {sent}");
    assert!(sent - came <= (256 << 10), "what the socket's buffer holds");
    assert_eq!((pair.client.tally.connections.get(), pair.server.tally.connections.get()), (1, 1));
    assert!(pair.client.platform.out <= SPARE && pair.server.platform.out <= SPARE);
}

#[test]
fn a_stream_goes_on_over_a_bad_wire() {
    goes_on(&[Mishaps { lost: 20, doubled: 20, spoilt: 20, overtaken: 20 }]);
}

mod all {
    use super::*;

    #[test]
    fn a_stream_goes_on_over_wires_that_are_bad_in_one_way() {
        goes_on(&[
            Mishaps { lost: 100, ..Mishaps::default() },
            Mishaps { doubled: 10, overtaken: 10, ..Mishaps::default() },
            Mishaps { spoilt: 50, ..Mishaps::default() },
        ]);
    }
}

fn goes_on(wires: &[Mishaps]) {
    for &mishaps in wires {
        let addresses = [Address { ip: ip(1), prefix: 24 }];
        let client = make(&orders(1, Duty::TcpStream, &addresses), LEAST_OCTETS);
        let mut pair = Pair::new(client.expect("a station with a small window"));
        pair.mishaps = mishaps;
        let mut before = 0;
        for _ in 0..5 {
            // Retransmission of a frame that is lost repeatedly backs off more and more.
            pair.run_by(50, 10_000);
            let came = pair.server.tally.octets_received.get();
            assert!(came > before && came <= pair.client.tally.octets_sent.get());
            before = came;
        }
        assert!(pair.client.platform.out <= SPARE && pair.server.platform.out <= SPARE);
    }
}

#[test]
fn requests_are_answered_each_before_the_next() {
    let mut pair = Pair::new(Node::new(1, Duty::TcpRequests));
    pair.run(100);
    let (client, server) = (pair.client.tally, pair.server.tally);
    // Four round trips a millisecond, except for ARP and the handshake.
    assert!((390..=400).contains(&client.transactions.get()), "{client:?}");
    assert_eq!(client.octets_received.get(), client.transactions.get());
    assert!(client.octets_sent.get() - client.transactions.get() <= 1);
    assert!(server.octets_sent.get() - client.transactions.get() <= 1);
    pair.mishaps.lost = 50;
    pair.run_by(10, 10_000);
    assert!(client.transactions.get() > 500, "{client:?}");
    assert_eq!(client.resets.get(), 0);
}

#[test]
fn datagrams_arrive_in_order() {
    let mut pair = Pair::new(Node::with(1, Duty::UdpStream, |orders| orders.write_len = 100));
    pair.run(50);
    let (sent, came) = (pair.client.tally, pair.server.tally);
    assert!(came.datagrams_received.get() > 10_000, "{came:?}");
    assert_eq!(came.octets_received.get(), 100 * came.datagrams_received.get());
    assert!(sent.datagrams_sent.get() - came.datagrams_received.get() <= 512, "what waits in the socket");
    // Frames on the wire are numbered.
    pair.client.settle();
    let numbers: Vec<u32> = pair
        .client
        .platform
        .tx
        .iter()
        .map(|frame| u32::from_be_bytes(frame[46..50].try_into().unwrap()))
        .collect();
    assert!(numbers.len() > 100 && numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
}

/// An ARP request of station 1 for the address of station 2.
fn arp_request() -> Vec<u8> {
    let mut octets = vec![0xff; 6];
    octets.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    octets.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    octets
}

/// A datagram of station 1, from port 5000, for the echo service of station 2.
fn echo_request() -> Vec<u8> {
    let mut header = [0x45, 0, 0, 48, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = frame::checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut octets = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    octets.extend(header);
    octets.extend([0x13, 0x88, 0, 7, 0, 28, 0, 0]);
    octets.extend([7; 20]);
    octets
}

#[test]
fn datagrams_that_wait_for_room_are_returned_though_no_more_come() {
    let mut server = Node::new(2, Duty::Server);
    server.platform.rx[0].push_back(arp_request());
    server.settle();
    server.platform.tx.clear();
    // More than wait in one direction of the socket.
    server.platform.rx[0].extend((0..400).map(|_| echo_request()));
    server.platform.room = 1;
    while !server.platform.rx[0].is_empty() {
        assert!(server.pass() > 0);
        server.platform.tx.clear();
    }
    let tally = server.tally;
    assert!(tally.datagrams_sent.get() < 400, "{tally:?}");
    server.platform.room = 1000;
    server.settle();
    assert_eq!((tally.datagrams_received.get(), tally.datagrams_sent.get()), (400, 400));
    assert_eq!((server.pass(), server.station.next_deadline()), (0, None));
}

#[test]
fn a_datagram_is_no_longer_than_the_link_takes() {
    let mut client = Node::with(1, Duty::UdpStream, |orders| (orders.write_len, orders.mtu) = (9000, 1000));
    client.platform.now += 1;
    let mut pair = Pair::new(client);
    pair.run(5);
    pair.client.settle();
    assert!(!pair.client.platform.tx.is_empty());
    assert!(pair.client.platform.tx.iter().all(|frame| frame.len() == 1014));
}

#[test]
fn a_sender_waits_for_room() {
    for duty in [Duty::TcpStream, Duty::UdpStream] {
        let mut pair = Pair::new(Node::new(1, duty));
        pair.run(5);
        let client = &mut pair.client;
        client.settle();
        client.platform.room = client.platform.tx.len();
        let before = client.platform.tx.len();
        for _ in 0..10 {
            assert_eq!(client.pass(), 0, "it may sleep until there is room");
        }
        assert_eq!(client.platform.tx.len(), before);
        if duty == Duty::UdpStream {
            assert_eq!(client.station.next_deadline(), Some(0), "but not long");
        }
        client.platform.room += 100;
        pair.run(5);
    }
}

#[test]
fn who_is_cut_off_gives_up_and_tries_again() {
    let mut pair = Pair::new(Node::new(1, Duty::TcpRequests));
    pair.run(50);
    pair.cut = true;
    pair.run_by(50, 6000);
    assert_eq!(pair.client.tally.resets.get(), 1, "{:?}", pair.client.tally);
    pair.cut = false;
    pair.run_by(50, 3000);
    assert_eq!(pair.client.tally.connections.get(), 2, "{:?}", pair.client.tally);
    // The server drops clients that vanished.
    pair.cut = true;
    pair.run_by(50, 45_000);
    assert_eq!(pair.server.tally.resets.get(), 2, "{:?}", pair.server.tally);
}

#[test]
fn a_station_that_has_nothing_to_do_wants_nothing() {
    let mut server = Node::new(2, Duty::Server);
    server.settle();
    assert_eq!((server.pass(), server.station.next_deadline()), (0, None));
    // A client sends an ARP request about once a second.
    let mut client = Node::new(1, Duty::TcpRequests);
    client.settle();
    assert_eq!(client.platform.tx.len(), 1);
    let wait = client.station.next_deadline().expect("it asks again");
    assert!((500..=3000).contains(&wait), "{wait}");
    client.platform.now += wait;
    client.settle();
    assert_eq!(client.platform.tx.len(), 2);
}

#[test]
fn what_comes_by_another_nic_is_not_for_a_station() {
    let mut server = Node::new(2, Duty::Server);
    server.platform.rx[1].push_back(vec![0xff; 60]);
    server.settle();
    assert_eq!((server.platform.rx[1].len(), server.platform.out), (0, 0));
}

#[test]
fn a_station_needs_memory_an_address_and_a_mac_of_its_own() {
    let address = [Address { ip: ip(1), prefix: 24 }];
    for duty in [Duty::Server, Duty::TcpStream, Duty::TcpRequests, Duty::UdpStream] {
        let orders = orders(1, duty, &address);
        assert!(make(&orders, LEAST_OCTETS - 1).is_none());
        for octets in [LEAST_OCTETS, LEAST_OCTETS * 3, MOST_OCTETS] {
            assert!(make(&orders, octets).is_some(), "{duty:?} with {octets}");
        }
        let mac = Mac([3, 0, 0, 0, 0, 1]);
        assert!(make(&world::orders(1, duty, &[]), MOST_OCTETS).is_none());
        assert!(make(&station::StationConfig { mac, ..orders }, MOST_OCTETS).is_none());
    }
    let group = [Address { ip: u32::from_be_bytes([224, 0, 0, 1]), prefix: 24 }];
    assert!(make(&orders(1, Duty::Server, &group), MOST_OCTETS).is_none());
    let many = [Address { ip: ip(1), prefix: 99 }; 20];
    assert!(make(&orders(1, Duty::Server, &many), MOST_OCTETS).is_some(), "eight of them count");
}

#[test]
fn a_client_whose_orders_make_no_sense_stays_silent() {
    for to_ip in [0, u32::MAX, u32::from_be_bytes([224, 0, 0, 5]), ip(1)] {
        for duty in [Duty::TcpStream, Duty::TcpRequests, Duty::UdpStream] {
            let mut client = Node::with(1, duty, |orders| orders.to_ip = to_ip);
            for _ in 0..50 {
                client.platform.now += 100;
                client.settle();
                client.platform.tx.clear();
            }
            assert_eq!(client.tally.connections.get(), 0);
        }
    }
}

/// Frames to the server that are valid up to some point.
fn likely_frame() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any::<bool>(), 0u8..20, any::<[u8; 12]>(), prop::collection::vec(any::<u8>(), 0..100));
    frame.prop_map(|(arp, protocol, more, rest)| {
        let mut octets = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, if arp { 6 } else { 0 }];
        if !arp {
            let len = (20 + rest.len()) as u8;
            let mut header = [0x45, 0, 0, len, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            if more[0] < 64 {
                header[usize::from(more[1] % 20)] = more[2];
            }
            let sum = frame::checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            octets.extend(header);
        }
        octets.extend(rest);
        octets
    })
}

proptest! {
    #[test]
    fn no_frame_does_any_harm(
        frames in prop::collection::vec(prop_oneof![likely_frame(), prop::collection::vec(any::<u8>(), 0..200)], 1..50),
        duty in 0u32..4,
    ) {
        let mut node = Node::new(2, Duty::from_number(duty).unwrap());
        node.platform.rx[0].extend(frames);
        for _ in 0..10 {
            node.platform.now += 50;
            node.settle();
            node.platform.tx.clear();
        }
        prop_assert!(node.platform.rx[0].is_empty());
        prop_assert!(node.platform.out <= SPARE);
    }
}
