use conformance::{check_sink_before, check_source_behind};
use frame::nd::{Advert, Solicit};
use frame::{Mac, arp, ethernet, ipv6};
use port::ingress;
use ring::{BURST, Bytes};
use switch::{Config, Switch};

use super::*;
use crate::ensemble::{Ensemble, hosts, nodes};
use crate::supplies::HostServices;

const FILE: &str = "[switch.west]\n[switch.east]\n[[group]]\nname = 'core'\nkind = 'multistage'\nbalancer = 'vm'\n\
                    balancers = 2\nbackends = 2\nengine = 'process'\n\
                    [[group.nic]]\nname = 'w'\nattach = 'switch:west'\naddress = '192.0.2.1/24'\n\
                    [[group.nic]]\nname = 'e'\nattach = 'switch:east'\naddress = '198.51.100.1/24'\n";
const STATION: Mac = Mac([2, 0, 0, 0, 0, 1]);
const MEMBER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const HOST: u128 = 0x2001_0db8_u128 << 96 | 7;

fn request(to: Mac) -> Vec<u8> {
    let packet = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: STATION,
        sender_ip: 1,
        target_mac: Mac::default(),
        target_ip: 2,
    };
    hosts::spoken(to, &packet).to_vec()
}

fn solicitation() -> Vec<u8> {
    let (to, solicit) = (ipv6::solicited_node(HOST), Solicit { target: HOST, source_mac: Some(STATION) });
    let stations = (STATION, ipv6::group_mac(to));
    nodes::spoken(stations, (HOST + 1, to), |payload| solicit.write(payload)).to_vec()
}

fn advert(to: Mac) -> Vec<u8> {
    let advert =
        Advert { target: HOST, target_mac: Some(STATION), router: false, solicited: true, overrides: true };
    nodes::spoken((STATION, to), (HOST, HOST + 1), |payload| advert.write(payload)).to_vec()
}

/// An IPv4 packet for several stations.
fn multicast() -> Vec<u8> {
    let mut octets = vec![0; ethernet::SHORTEST];
    octets[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 5]);
    octets[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
    octets
}

#[test]
fn a_member_gets_what_it_is_told_of_neighbours_and_not_what_everybody_is() {
    let (queue, mut came) = ingress(10).expect("a queue");
    let (way, outside) = ToMember::before(queue, Outside::default());
    let due = [multicast(), request(MEMBER), advert(MEMBER)];
    let mut all = [solicitation(), due[0].clone(), request(Mac::BROADCAST), due[1].clone(), due[2].clone()];
    let frames: Vec<Frame<'_>> = all.iter_mut().map(|octets| Frame::new(Bytes::from_slice(octets))).collect();
    assert_eq!(way.deliver(&frames), 5, "none is lost");
    let mut heard: Vec<Vec<u8>> = Vec::new();
    came.drain(BURST, &mut |frames| {
        for frame in frames {
            let mut octets = vec![0; frame.len()];
            frame.octets().copy_to_slice(&mut octets);
            heard.push(octets);
        }
    });
    assert_eq!(heard, due);
    let mut counted = Vec::new();
    outside.each_group(&mut |name, group| {
        assert_eq!(name, "group");
        group.each(&mut |field, value| counted.push((field, value)));
    });
    assert_eq!(counted, [("arp_withheld", 1), ("nd_withheld", 1)]);
}

#[test]
fn what_stands_before_a_member_passes_the_suite_of_all_ports() {
    let plan = config::parse(FILE, "f.toml").expect("a good file");
    let switch = |switch: &config::Switch| Arc::new(Switch::new(&switch.name, Config::default()));
    let switches: Vec<_> = plan.switches.iter().map(switch).collect();
    let mut supplies = HostServices::default();
    let core = Ensemble::core(&plan.groups[0], (&switches, &mut supplies, None)).expect("it can be had");
    check_source_behind(|source| Box::new(FromOthers { source, core: core.clone(), nic: 0 }));
    check_sink_before(|sink| ToMember::before(sink, Outside::default()).0);
}
