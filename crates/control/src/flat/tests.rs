use netlink::Prefix;

use super::*;
use crate::ports::Port;

/// Prefixes in a map; room for a number of them.
#[derive(Debug)]
struct Map {
    ways: BTreeMap<Key, Result<Hop, Fate>>,
    room: usize,
    published: usize,
}

impl Prefixes for Map {
    fn set(&mut self, key: Key, way: Result<Hop, Fate>) -> Result<(), Refusal> {
        if self.ways.len() >= self.room && !self.ways.contains_key(&key) {
            return Err(Refusal::Full);
        }
        self.ways.insert(key, way);
        Ok(())
    }

    fn remove(&mut self, key: Key) {
        assert!(self.ways.remove(&key).is_some(), "it was not there");
    }

    fn publish(&mut self) {
        self.published += 1;
    }
}

fn table(room: usize) -> Flat<Map> {
    Flat::new(Map { ways: BTreeMap::new(), room, published: 0 })
}

fn key(net: u8) -> Key {
    Key { table: 254, to: Prefix::new([10, net, 0, 0], 16).expect("a prefix") }
}

fn hop(nic: u8) -> Hop {
    Hop { port: Port { nic, vlan: 0 }, gateway: Some([192, 0, 2, nic].into()), weight: 1 }
}

const GROUP: GroupId = GroupId(7);

#[test]
fn routes_follow_their_group() {
    let mut table = table(9);
    table.set_group(GROUP, Way::Hops(&[hop(1), hop(2)])).expect("room");
    table.set_route(key(1), Fate::Group(GROUP)).expect("room");
    table.set_route(key(2), Fate::Group(GROUP)).expect("room");
    table.set_route(key(2), Fate::Local).expect("room");
    assert_eq!(table.prefixes().ways[&key(1)], Ok(hop(1)));
    table.set_group(GROUP, Way::Hops(&[hop(2)])).expect("room");
    table.publish();
    assert_eq!(table.prefixes().ways[&key(1)], Ok(hop(2)));
    assert_eq!((table.prefixes().ways[&key(2)], table.prefixes().published), (Err(Fate::Local), 1));
    table.set_group(GROUP, Way::Hops(&[])).expect("room");
    assert_eq!(table.prefixes().ways[&key(1)], Err(Fate::Unreachable));
    table.set_group(GROUP, Way::Blackhole).expect("room");
    assert_eq!(table.prefixes().ways[&key(1)], Err(Fate::Blackhole));
}

#[test]
fn what_is_removed_is_gone_once() {
    let mut table = table(9);
    table.set_group(GROUP, Way::Blackhole).expect("room");
    table.set_route(key(1), Fate::Group(GROUP)).expect("room");
    table.remove_route(key(1));
    table.remove_route(key(1));
    table.remove_group(GROUP);
    assert!(table.prefixes().ways.is_empty() && table.groups.is_empty() && table.routes.is_empty());
}

#[test]
fn a_full_table_is_as_it_was() {
    let mut table = table(1);
    table.set_route(key(1), Fate::Local).expect("room");
    assert_eq!(table.set_route(key(2), Fate::Local), Err(Refusal::Full));
    table.remove_route(key(2));
    assert_eq!(table.prefixes().ways.len(), 1);
}
