use netlink::{Link, Prefix};
use proptest::prelude::*;

use super::*;

/// A table in maps, which refuses what it is told to.
#[derive(Debug, Default)]
struct Map {
    groups: BTreeMap<GroupId, Option<Vec<Hop>>>,
    routes: BTreeMap<Key, Fate>,
    refuses: bool,
    published: usize,
}

impl Table for Map {
    fn set_group(&mut self, group: GroupId, way: Way<'_>) -> Result<(), Refusal> {
        if self.refuses {
            return Err(Refusal::Waiting);
        }
        self.groups.insert(group, if let Way::Hops(hops) = way { Some(hops.to_vec()) } else { None });
        Ok(())
    }

    fn remove_group(&mut self, group: GroupId) {
        self.groups.remove(&group);
        assert!(!self.routes.values().any(|fate| *fate == Fate::Group(group)), "a route uses it");
    }

    fn set_route(&mut self, key: Key, fate: Fate) -> Result<(), Refusal> {
        if self.refuses {
            return Err(Refusal::Full);
        }
        assert!(!matches!(fate, Fate::Group(group) if !self.groups.contains_key(&group)), "an unknown group");
        self.routes.insert(key, fate);
        Ok(())
    }

    fn remove_route(&mut self, key: Key) {
        self.routes.remove(&key);
    }

    fn publish(&mut self) {
        self.published += 1;
    }
}

fn key(net: u8) -> Key {
    Key { table: 254, to: Prefix::new([10, net, 0, 0], 16).expect("a prefix") }
}

fn hops(indices: &[u32]) -> Vec<NextHop> {
    indices.iter().map(|index| NextHop { via: None, index: *index, weight: 1 }).collect()
}

fn link(index: u32, name: &str) -> netlink::Change<Link> {
    let name = name.to_owned();
    let link = Link { index, name, mtu: 1500, up: true, running: true, queue_len: 1000, ..Link::default() };
    netlink::Change::Set(link)
}

/// Ports 1 and 2 with the indices 1 and 2; index 3 is no port.
fn ports() -> Ports {
    let port = |nic| Port { nic, vlan: 0 };
    let mut ports = Ports::new([("one".to_owned(), port(1)), ("two".to_owned(), port(2))]);
    ports.take(&link(1, "one"));
    ports.take(&link(2, "two"));
    ports
}

const GROUP: GroupId = GroupId(4);

#[test]
fn interfaces_that_are_no_ports_are_left_out_until_they_are() {
    let (mut translator, mut table, mut ports) = (Translator::default(), Map::default(), ports());
    let told = hops(&[1, 3]);
    translator.take(&Change::Group(GROUP, Paths::Hops(&told)), &ports, &mut table);
    let nics = |table: &Map| {
        let hops = table.groups[&GROUP].as_ref().expect("next hops");
        hops.iter().map(|hop| hop.port.nic).collect::<Vec<u8>>()
    };
    assert_eq!(nics(&table), [1]);
    assert_eq!(translator.counters().unknown_interface.get(), 1);
    ports.take(&link(3, "two"));
    translator.ports_changed(&ports, &mut table);
    assert_eq!(nics(&table), [1, 2]);
}

#[test]
fn next_hops_keep_their_gateways_and_weights() {
    let (mut translator, mut table, ports) = (Translator::default(), Map::default(), ports());
    let told = [(1, 1), (2, 256)].map(|(index, weight)| {
        let via = Some([192, 0, 2, 2].into());
        NextHop { via, index, weight }
    });
    translator.take(&Change::Group(GROUP, Paths::Hops(&told)), &ports, &mut table);
    let hops = table.groups[&GROUP].as_ref().expect("next hops");
    let weights: Vec<(u8, u16)> = hops.iter().map(|hop| (hop.port.nic, hop.weight)).collect();
    assert_eq!(weights, [(1, 1), (2, 256)]);
    assert!(hops.iter().all(|hop| hop.gateway == Some([192, 0, 2, 2].into())));
}

#[test]
fn targets_have_fates() {
    let (mut translator, mut table, ports) = (Translator::default(), Map::default(), ports());
    translator.take(&Change::Group(GROUP, Paths::Blackhole), &ports, &mut table);
    let refused = Target::Refused(fpm::Refused::Encapsulation);
    let targets = [
        Target::Group(GROUP),
        Target::Local,
        Target::Blackhole,
        refused,
        Target::Unreachable,
        Target::Prohibit,
    ];
    for (net, target) in (0..).zip(targets) {
        translator.take(&Change::Route(key(net), target), &ports, &mut table);
    }
    let fates: Vec<Fate> = table.routes.values().copied().collect();
    let expected = [Fate::Local, Fate::Blackhole, Fate::Unreachable, Fate::Unreachable, Fate::Prohibit];
    assert_eq!((fates[0], &fates[1..]), (Fate::Group(GROUP), &expected[..]));
}

#[test]
fn what_the_table_refuses_is_offered_again_with_the_next_batch() {
    let (mut translator, mut table, ports) =
        (Translator::default(), Map { refuses: true, ..Map::default() }, ports());
    let told = hops(&[1]);
    translator.take(&Change::Group(GROUP, Paths::Hops(&told)), &ports, &mut table);
    translator.take(&Change::Route(key(1), Target::Group(GROUP)), &ports, &mut table);
    translator.take(&Change::Route(key(2), Target::Local), &ports, &mut table);
    translator.take(&Change::NoRoute(key(2)), &ports, &mut table);
    translator.publish(&ports, &mut table);
    assert_eq!((translator.late(), table.routes.len(), table.published), (2, 0, 1));
    table.refuses = false;
    translator.publish(&ports, &mut table);
    assert_eq!((translator.late(), table.routes.get(&key(1))), (0, Some(&Fate::Group(GROUP))));
    assert_eq!(table.routes.len(), 1, "what is gone is not offered");
}

proptest! {
    #[test]
    fn a_table_that_refuses_for_a_while_is_right_in_the_end(
        steps in prop::collection::vec((0u8..7, 0u8..4, any::<bool>()), 0..60),
    ) {
        let (mut translator, mut table, ports) = (Translator::default(), Map::default(), ports());
        let mut wanted: BTreeMap<Key, Fate> = BTreeMap::new();
        let told = hops(&[1]);
        translator.take(&Change::Group(GROUP, Paths::Hops(&told)), &ports, &mut table);
        for (what, net, refuses) in steps {
            table.refuses = refuses;
            let target = match what {
                0 => Some(Target::Group(GROUP)),
                1 => Some(Target::Local),
                2 => Some(Target::Prohibit),
                3 => { translator.publish(&ports, &mut table); continue; }
                4 => { translator.ports_changed(&ports, &mut table); continue; }
                5 => {
                    // The number is used again for another group.
                    if !wanted.values().any(|fate| *fate == Fate::Group(GROUP)) {
                        translator.take(&Change::NoGroup(GROUP), &ports, &mut table);
                        translator.take(&Change::Group(GROUP, Paths::Hops(&told)), &ports, &mut table);
                    }
                    continue;
                }
                _ => None,
            };
            match target {
                Some(target) => { wanted.insert(key(net), fate(target)); }
                None => { wanted.remove(&key(net)); }
            }
            let change = target.map_or(Change::NoRoute(key(net)), |target| Change::Route(key(net), target));
            translator.take(&change, &ports, &mut table);
        }
        table.refuses = false;
        translator.publish(&ports, &mut table);
        prop_assert_eq!((&table.routes, translator.late()), (&wanted, 0));
    }
}
