//! Groups of next hops that learned routes share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use config::learned::{LearnedFate, LearnedGroup, LearnedHop, LearnedWay};
use fib::{MOST_WAYS, NextHop, Refusal, Way};

use crate::routes::Hops;

/// What is known of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) fate: LearnedFate,
    /// Number of the telling that it comes from: numbers of groups mean something only within one.
    pub(super) telling: u32,
}

/// All groups.
#[derive(Clone, Default)]
pub(super) struct Groups {
    /// Number of the present telling. Each begins with a lesson that begins.
    pub(super) telling: u32,
    /// By telling and number.
    ways: BTreeMap<(u32, u64), LearnedWay>,
}

impl Groups {
    /// Sets the ways of groups that are there; returns the numbers of those that were known and have changed.
    pub(super) fn set(&mut self, groups: &[LearnedGroup]) -> BTreeSet<u64> {
        let mut changed = BTreeSet::new();
        for LearnedGroup { number, way } in groups {
            let Some(way) = way else { continue };
            let before = self.ways.insert((self.telling, *number), way.clone());
            if before.is_some_and(|before| before != *way) {
                changed.insert(*number);
            }
        }
        changed
    }

    /// Forgets those that are gone.
    pub(super) fn remove(&mut self, groups: &[LearnedGroup]) {
        for gone in groups.iter().filter(|group| group.way.is_none()) {
            self.ways.remove(&(self.telling, gone.number));
        }
    }

    /// Forgets all of former tellings: no route follows them any more.
    pub(super) fn forget_former(&mut self) {
        self.ways.retain(|(telling, _), _| *telling == self.telling);
    }

    /// Returns the gateways of groups that have several next hops, for a router with so many links.
    pub(super) fn gateways(&self, links: usize) -> BTreeSet<(usize, IpAddr)> {
        let several = self.ways.values().filter_map(|way| match way {
            LearnedWay::Hops(hops) if hops.len() > 1 => Some(hops),
            _ => None,
        });
        let of = |hop: &LearnedHop| Some((usize::from(hop.link), hop.via?));
        several.flatten().filter_map(of).filter(|(link, _)| *link < links).collect()
    }

    /// Returns the next hops of a network for a router with so many links.
    pub(super) fn hops(&self, to: IpAddr, known: Known, links: usize) -> Hops {
        let way = |number| self.ways.get(&(known.telling, number));
        Hops::One(match known.fate {
            LearnedFate::Group(number) => match way(number) {
                Some(LearnedWay::Hops(hops)) => return spread(to, hops, links),
                Some(LearnedWay::Blackhole) => NextHop::Refused(Refusal::Silent),
                None => NextHop::Refused(Refusal::Unreachable),
            },
            LearnedFate::Local => NextHop::Local,
            LearnedFate::Blackhole => NextHop::Refused(Refusal::Silent),
            LearnedFate::Unreachable => NextHop::Refused(Refusal::Unreachable),
            LearnedFate::Prohibit => NextHop::Refused(Refusal::Prohibited),
        })
    }
}

/// The next hops of a group that packets to a network can take, up to as many as a table has room for. Flows are spread over
/// gateways alone: of a link without one nobody knows whether it leads on. Without any gateway the first link has all of them.
fn spread(to: IpAddr, hops: &[LearnedHop], links: usize) -> Hops {
    let way = |hop: &LearnedHop| Some(Way { next_hop: next_hop(to, hop, links)?, weight: hop.weight.max(1) });
    let ways: Vec<Way> = hops.iter().filter_map(way).collect();
    let is_link = |way: &Way| matches!(way.next_hop, NextHop::Connected { .. });
    let gateways: Vec<Way> = ways.iter().filter(|way| !is_link(way)).take(MOST_WAYS).copied().collect();
    let one = match (&gateways[..], ways.first()) {
        ([], None) => Some(NextHop::Refused(Refusal::Unreachable)),
        ([], Some(only)) | ([only], _) => Some(only.next_hop),
        _ => None,
    };
    one.map_or(Hops::Several(gateways), Hops::One)
}

/// Next hop of a router with so many links; `None`: it leads nowhere.
fn next_hop(to: IpAddr, hop: &LearnedHop, links: usize) -> Option<NextHop> {
    let nic = hop.link;
    match hop.via {
        _ if usize::from(nic) >= links => None,
        None => Some(NextHop::Connected { nic }),
        Some(IpAddr::V4(gateway)) if to.is_ipv4() => {
            Some(NextHop::Gateway { nic, gateway: gateway.to_bits() })
        }
        Some(IpAddr::V4(_)) => None,
        Some(IpAddr::V6(gateway)) => Some(NextHop::Gateway6 { nic, gateway: gateway.to_bits() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(link: u8, via: Option<&str>) -> LearnedHop {
        LearnedHop { link, via: via.map(|ip| ip.parse().expect("an address")), weight: 1 }
    }

    fn to(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn links_that_are_not_there_and_gateways_of_another_family_lead_nowhere() {
        let nowhere = Hops::One(NextHop::Refused(Refusal::Unreachable));
        assert_eq!(spread(to("10.0.0.0"), &[hop(3, None)], 3), nowhere);
        assert_eq!(spread(to("2001:db8::"), &[hop(0, Some("192.0.2.2"))], 3), nowhere);
        let Hops::One(six) = spread(to("10.0.0.0"), &[hop(0, Some("fe80::2")), hop(3, None)], 3) else {
            panic!("one of them leads nowhere");
        };
        assert!(matches!(six, NextHop::Gateway6 { nic: 0, .. }));
    }

    #[test]
    fn a_group_has_as_many_next_hops_as_the_table_takes() {
        let mut many: Vec<LearnedHop> = (1..=200).map(|link| hop(link, Some("192.0.2.2"))).collect();
        let Hops::Several(ways) = spread(to("10.0.0.0"), &many, 255) else { panic!("there are several") };
        assert_eq!(ways.len(), MOST_WAYS);
        many.iter_mut().for_each(|hop| hop.via = None);
        let first = Hops::One(NextHop::Connected { nic: 1 });
        assert_eq!(spread(to("10.0.0.0"), &many, 255), first, "flows are spread over gateways");
    }

    #[test]
    fn gateways_are_those_of_groups_with_several_next_hops() {
        let mut groups = Groups::default();
        let ways = [
            vec![hop(0, Some("192.0.2.2")), hop(1, Some("fe80::2")), hop(1, None), hop(2, Some("192.0.2.3"))],
            vec![hop(0, Some("192.0.2.9"))],
        ];
        let told =
            (1..).zip(ways).map(|(number, hops)| LearnedGroup { number, way: Some(LearnedWay::Hops(hops)) });
        groups.set(&told.collect::<Vec<_>>());
        let found: Vec<_> = groups.gateways(2).into_iter().collect();
        assert_eq!(found, [(0, to("192.0.2.2")), (1, to("fe80::2"))], "of links that are there");
    }

    #[test]
    fn a_number_means_another_group_in_another_telling() {
        let mut groups = Groups::default();
        let group = |way| LearnedGroup { number: 1, way };
        groups.set(&[group(Some(LearnedWay::Blackhole))]);
        let former = Known { fate: LearnedFate::Group(1), telling: 0 };
        groups.telling = 1;
        let changed = groups.set(&[group(Some(LearnedWay::Hops(vec![hop(0, None)])))]);
        assert!(changed.is_empty(), "no route follows it yet");
        let silent = Hops::One(NextHop::Refused(Refusal::Silent));
        assert_eq!(groups.hops(to("10.0.0.0"), former, 1), silent);
        let connected = Hops::One(NextHop::Connected { nic: 0 });
        assert_eq!(groups.hops(to("10.0.0.0"), Known { telling: 1, ..former }, 1), connected);
        groups.forget_former();
        assert_ne!(groups.hops(to("10.0.0.0"), former, 1), silent);
        assert_eq!(groups.set(&[group(Some(LearnedWay::Blackhole))]), BTreeSet::from([1]));
        groups.remove(&[group(None)]);
        assert!(groups.ways.is_empty());
    }
}
