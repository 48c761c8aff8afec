use control::Port;
use netlink::{Change, Link};

use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Shadow of the second NIC, with index 7.
fn ports() -> Ports {
    let mut ports = Ports::new([("lan".to_owned(), Port { nic: 1, vlan: 0 })]);
    ports.take(&Change::Set(Link {
        index: 7,
        name: "lan".to_owned(),
        mtu: 1500,
        up: true,
        running: true,
        queue_len: 1000,
        ..Link::default()
    }));
    ports
}

/// A router whose file has static neighbours as well.
fn router() -> Router {
    let text = "[[router]]\nname = 'edge'\ncontrol = {}\n\
        [[router.nic]]\nname = 'wan'\nattach = 'null'\naddress = '192.0.2.1/24'\n\
        [[router.nic]]\nname = 'lan'\nattach = 'null'\naddress = ['198.51.100.1/24', '2001:db8::1/64']\n\
        [[router.neighbour]]\naddress = '198.51.100.2'\nmac = '02:00:00:00:00:02'\n\
        [[router.neighbour]]\naddress = '2001:db8::2'\nmac = '02:00:00:00:00:02'\n";
    config::parse(text, "f.toml").expect("a good file").routers.remove(0)
}

fn neighbour(ip: &str) -> Neighbour {
    Neighbour { index: 7, ip: ip.parse().expect("an address"), mac: Some(MAC), state: State::Permanent }
}

fn learned(all: &[Neighbour]) -> Vec<LearnedNeighbour> {
    static_neighbours(&ports(), &router(), all.iter())
}

#[test]
fn static_neighbours_behind_links_are_given_but_for_those_of_the_file() {
    let given = ["198.51.100.9", "2001:db8::9", "fe80::9"].map(neighbour);
    let own = ["198.51.100.2", "2001:db8::2"].map(neighbour);
    let found = given.map(|one| LearnedNeighbour { link: 1, ip: one.ip, mac: MAC });
    assert_eq!(learned(&[given, [own[0], own[1], own[0]]].concat()), found);
}

#[test]
fn what_the_kernel_has_found_or_made_itself_is_not_given() {
    let one = neighbour("198.51.100.9");
    let states = [State::Known, State::Incomplete, State::Failed].map(|state| Neighbour { state, ..one });
    let macs = [None, Some([0; 6]), Some([0xff; 6]), Some([1, 0, 0x5e, 0, 0, 1])];
    let macs = macs.map(|mac| Neighbour { mac, ..one });
    let addresses =
        ["224.0.0.5", "255.255.255.255", "169.254.0.1", "0.0.0.0", "ff02::1", "::"].map(neighbour);
    let elsewhere = Neighbour { index: 8, ..one };
    for other in states.into_iter().chain(macs).chain(addresses).chain([elsewhere]) {
        assert!(learned(&[other]).is_empty(), "{other:?}");
    }
}

#[test]
fn no_more_are_given_than_there_is_room_for() {
    let many: Vec<Neighbour> = (10..100).rev().map(|host| neighbour(&format!("198.51.100.{host}"))).collect();
    let found = learned(&many);
    assert_eq!(found.len(), MOST_GIVEN);
    assert_eq!(found.first().map(|one| one.ip), Some([198, 51, 100, 10].into()), "the first ones");
}
