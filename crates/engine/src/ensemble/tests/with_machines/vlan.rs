//! VLANs of a group behind balancers: its members ask in them, and are announced in them, with tags.

use frame::ipv6;
use frame::nd::Solicit;

use super::*;

/// A VLAN of the first NIC, with a neighbour there that is known from the file.
const VLAN: &str = "[[group.interface]]\nname = 'v'\nnic = 'w'\nvlan = 100\naddress = ['10.50.0.1/24', '2001:db8:50::1/64']\n\
                    [[group.neighbour]]\naddress = '10.50.0.9'\nmac = '02:00:00:00:00:09'\n";
const TAG: [u8; 4] = [0x81, 0, 0, 100];

/// A frame with a tag before all that is not an address.
fn in_vlan(octets: &[u8]) -> Vec<u8> {
    [&octets[..12], &TAG, &octets[12..]].concat()
}

/// Waits for frames of the VLAN that have these ethertypes behind its tag, one after the other.
fn wait_for_tagged(wire: &mut dyn Source, wanted: &[u16]) -> Vec<Vec<u8>> {
    let mut heard: Vec<Vec<u8>> = Vec::new();
    let end = Instant::now() + PATIENCE;
    while heard.len() < wanted.len() {
        assert!(Instant::now() < end, "{heard:?}");
        wire.drain(BURST, &mut |frames| {
            for frame in frames {
                let mut octets = [0; nodes::LONGEST];
                let len = frame.octets().copy_to_slice(&mut octets);
                let ethertype = wanted.get(heard.len()).map(|wanted| wanted.to_be_bytes());
                if octets[12..16] == TAG && Some([octets[16], octets[17]]) == ethertype {
                    heard.push(octets[..len].to_vec());
                }
            }
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    heard
}

#[test]
fn what_a_member_asks_in_a_vlan_is_asked_at_the_link_with_its_tags() {
    let bench = bench_of(&format!("{FILE}{VLAN}"));
    let (balancers, members) = all(&bench);
    let core = bench.ensemble().core.clone();
    let (inbox, mut wire) = port::ingress(1000).expect("a queue");
    let station = bench.switches[0].add_port("station", inbox).expect("a port");
    let group = frame::Mac(bench.group().pattern.nics[0].mac.0);
    let mac = frame::Mac(bench.group().stations(0).next().expect("a NIC").0);
    let (own, host) = (u32::from_be_bytes([10, 50, 0, 1]), u32::from_be_bytes([10, 50, 0, 7]));
    let request = |sender_mac: frame::Mac| {
        let packet = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac,
            sender_ip: own,
            target_mac: frame::Mac::default(),
            target_ip: host,
        };
        in_vlan(&hosts::spoken(frame::Mac::BROADCAST, &packet))
    };
    assert!(core.hears_member((0, 0), &Frame::new(Bytes::from_slice(&mut request(mac)))));
    let (own_six, host_six) = (0x2001_0db8_0050_u128 << 80 | 1, 0x2001_0db8_0050_u128 << 80 | 7);
    let to = ipv6::solicited_node(host_six);
    let solicit = Solicit { target: host_six, source_mac: Some(mac) };
    let solicit = nodes::spoken((mac, ipv6::group_mac(to)), (own_six, to), |payload| solicit.write(payload));
    assert!(
        core.hears_discovery_of((0, 0), &Frame::new(Bytes::from_slice(&mut in_vlan(&solicit)))),
        "under its own name"
    );
    let heard = wait_for_tagged(&mut wire, &[ethernet::ARP, ethernet::IPV6]);
    assert_eq!(heard[0], request(group), "in the group's name");
    assert_eq!((&heard[1][6..12], heard[1][58]), (&group.0[..], 135), "a solicitation, by the group as well");
    assert_eq!(core.links[0].fixed, [(1, frame::Mac([2, 0, 0, 0, 0, 9]))]);
    let answer = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: STATION,
        sender_ip: host,
        target_mac: group,
        target_ip: own,
    };
    station.deliver(&[Frame::new(Bytes::from_slice(&mut in_vlan(&hosts::spoken(group, &answer))))]);
    let end = Instant::now() + PATIENCE;
    while core.links[0].vlans[0].hosts().stations() != [STATION] {
        assert!(Instant::now() < end, "the answer is not heard");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(core.links[0].plain.hosts().stations().is_empty(), "it is nobody without a tag");
    let mut foreign = request(STATION);
    foreign[15] = 101;
    let frame = Frame::new(Bytes::from_slice(&mut foreign));
    assert!(
        !core.hears_for_machines(0, &frame, &port::Null::new()),
        "of a VLAN that the group does not have"
    );
    drop((balancers, members));
}

#[test]
fn a_balancer_that_takes_a_link_over_is_announced_in_each_vlan() {
    let bench = bench_of(&format!("{FILE}{VLAN}"));
    let (balancers, members) = all(&bench);
    let inner = bench.switches.iter().find(|switch| switch.name() == "core_w").expect("between the stages");
    let (inbox, mut wire) = port::ingress(1000).expect("a queue");
    let _port = inner.add_port("listener", inbox).expect("a port");
    let core = bench.ensemble().core.clone();
    let carrier = core.front(0).and_then(|front| front.carrier()).expect("there is one");
    assert!(core.cut(|name| name == format!("core_lb{carrier}")));
    let heard = wait_for_tagged(&mut wire, &[0x8035]);
    assert_eq!(heard[0][..6], frame::Mac::BROADCAST.0, "where it is itself, in the VLAN");
    drop((balancers, members));
}

#[test]
fn an_arp_packet_names_the_member_that_its_frame_is_for_also_in_a_vlan() {
    let packet = arp::Packet {
        operation: arp::Operation::Reply,
        sender_mac: STATION,
        sender_ip: 1,
        target_mac: frame::Mac::default(),
        target_ip: 2,
    };
    let plain = hosts::spoken(frame::Mac::BROADCAST, &packet);
    let due = hosts::spoken(frame::Mac([7; 6]), &arp::Packet { target_mac: frame::Mac([7; 6]), ..packet });
    let (mut plain, mut once, mut twice) = (plain.to_vec(), in_vlan(&plain), in_vlan(&in_vlan(&plain)));
    [&mut plain, &mut once, &mut twice]
        .into_iter()
        .for_each(|octets| behind::address(octets, frame::Mac([7; 6])));
    assert_eq!(plain, due);
    assert_eq!((once, twice), (in_vlan(&due), in_vlan(&in_vlan(&due))));
}
