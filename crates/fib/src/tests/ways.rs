//! Routes with several next hops: shares by weight, next hops that are down, and flows that stay where they are.

use super::*;
use crate::shares::{assign, bits, quotas, with_substitutes};
use crate::{MOST_WAYS, Way};

/// Hashes that select each bucket of the largest group once.
fn hashes() -> impl Iterator<Item = u32> {
    (0..1024_u32).map(|bucket| bucket << 22 | 0x1_2345)
}

fn ways(all: &[(u32, u8)]) -> Vec<Way> {
    all.iter().map(|(gateway, weight)| Way { next_hop: via(*gateway), weight: *weight }).collect()
}

/// Returns the next hop of a flow.
fn chosen(table: &Table<'_>, ip: u32, hash: u32) -> NextHop {
    table.next_hop(table.member(table.lookup(ip), hash))
}

/// Returns the next hop of each bucket.
fn all_chosen(table: &Table<'_>, ip: u32) -> Vec<NextHop> {
    hashes().map(|hash| chosen(table, ip, hash)).collect()
}

/// Returns how many flows differ.
fn moved(one: &[NextHop], other: &[NextHop]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

fn count(all: &[NextHop], gateway: u32) -> usize {
    all.iter().filter(|hop| **hop == via(gateway)).count()
}

const NET: u32 = 0x0a00_0000;

#[test]
fn flows_are_spread_by_weight_and_a_group_is_one_next_hop_of_its_route() {
    let memory = memory(4);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add_ways(NET, 8, &ways(&[(1, 1), (2, 3)])).unwrap();
    assert_eq!(lookup(&table, NET | 1), NextHop::Group);
    let all = all_chosen(&table, NET | 1);
    assert_eq!((count(&all, 1), count(&all, 2)), (256, 768));
    // A single one is no group, also if it is there twice.
    rib.add_ways(NET, 8, &ways(&[(7, 1), (7, 9)])).unwrap();
    assert_eq!(lookup(&table, NET | 1), via(7));
    assert_eq!(chosen(&table, NET | 1, 99), via(7), "a next hop is its own only choice");
    // The numbers of next hops are shared with routes that have only one.
    rib.add(NET + (1 << 24), 8, via(1)).unwrap();
    assert_eq!(lookup(&table, NET + (1 << 24)), via(1));
}

#[test]
fn one_word_moves_all_flows_of_a_next_hop_that_is_down_and_no_others() {
    let memory = memory(4);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    for net in 0..1000 {
        rib.add_ways(net << 16, 16, &ways(&[(1, 2), (2, 1), (3, 1)])).unwrap();
    }
    let before = all_chosen(&table, 5 << 16);
    assert_eq!(rib.set_down(|_, hop| hop == via(1)), 1, "a single change for all routes");
    let after = all_chosen(&table, 5 << 16);
    assert_eq!((count(&after, 1), moved(&before, &after)), (0, count(&before, 1)));
    assert_eq!((count(&after, 2), count(&after, 3)), (512, 512), "in equal parts to equal weights");
    assert_eq!(all_chosen(&table, 999 << 16), after);
    assert_eq!(rib.set_down(|_, _| true), 2);
    assert_eq!(all_chosen(&table, 5 << 16), before, "where all are down nobody is avoided");
    assert_eq!(rib.set_down(|_, _| false), 3);
    assert_eq!(all_chosen(&table, 5 << 16), before);
    // Not in a group, and so never marked.
    rib.add(0xff00_0000, 8, via(9)).unwrap();
    assert_eq!(rib.set_down(|_, hop| hop == via(9)), 0);
}

#[test]
fn members_are_told_in_the_order_in_which_they_take_over() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    rib.add_ways(NET, 8, &ways(&[(1, 1), (2, 1), (3, 1), (4, 1), (5, 1)])).unwrap();
    let group = table.lookup(NET);
    for hash in hashes() {
        let mut gone = Vec::new();
        for _ in 0..4 {
            let members = table.members(group, hash).map(|number| table.next_hop(number));
            assert!(!gone.contains(&members[0]), "{members:?} after {gone:?}");
            assert_eq!(members.iter().filter(|hop| **hop != NextHop::None).count(), 4 - gone.len());
            gone.push(members[0]);
            rib.set_down(|_, hop| gone.contains(&hop));
        }
        rib.set_down(|_, _| false);
    }
}

#[test]
fn what_is_no_group_is_refused_and_the_table_stays_as_it_was() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let many: Vec<(u32, u8)> = (0..=MOST_WAYS as u32).map(|n| (n, 1)).collect();
    let all: [&[(u32, u8)]; 4] = [&[], &[(1, 0)], &[(1, 1), (2, 0)], &many];
    for wrong in all {
        assert_eq!(rib.add_ways(NET, 8, &ways(wrong)), Err(Error::Ways));
    }
    let local = [Way { next_hop: NextHop::Local, weight: 1 }, Way { next_hop: via(1), weight: 1 }];
    assert_eq!(rib.add_ways(NET, 8, &local), Err(Error::Ways));
    assert_eq!(rib.add_ways(NET | 1, 8, &ways(&[(1, 1), (2, 1)])), Err(Error::Prefix));
    assert_eq!((lookup(&table, NET), rib.len()), (NextHop::None, 0));
}

#[test]
fn buckets_and_next_hops_come_back_when_their_readers_have_left() {
    let memory = memory(1);
    let (mut rib, table) = (Rib::new(memory), Table::new(memory));
    let groups = BUCKETS / 64;
    for n in 0..groups as u32 {
        rib.add_ways(n << 8, 24, &ways(&[(n, 1), (n + 1, 1)])).unwrap();
    }
    let another = ways(&[(1, 2), (2, 1)]);
    assert_eq!(rib.add_ways(0xff00_0000, 24, &another), Err(Error::Buckets));
    assert_eq!(rib.add_ways(0xff00_0000, 24, &ways(&[(1, 1), (2, 1)])), Ok(()), "a known group needs none");
    rib.remove(7 << 8, 24).unwrap();
    assert_eq!(rib.add_ways(0xff00_0000, 24, &another), Err(Error::Waiting));
    let epoch = rib.publish();
    rib.reclaim(epoch);
    rib.add_ways(0xff00_0000, 24, &another).unwrap();
    assert_eq!(count(&all_chosen(&table, 0xff00_0000), 2), 336);
    for n in (0..groups as u32).filter(|n| *n != 7) {
        rib.remove(n << 8, 24).unwrap();
    }
    rib.remove(0xff00_0000, 24).unwrap();
    // Groups first, then their next hops.
    for _ in 0..2 {
        assert!(rib.retired() > 0);
        let epoch = rib.publish();
        rib.reclaim(epoch);
    }
    assert_eq!(rib.retired(), 0);
}

#[test]
fn buckets_of_small_groups_serve_large_ones_and_then_small_ones() {
    let mut rib = Rib::new(memory(1));
    for (buckets, weights) in [(64, [1, 1]), (1024, [200, 100]), (64, [1, 1])] {
        let groups = (BUCKETS / buckets) as u32;
        let of = |n: u32| ways(&[(n, weights[0]), (n + 1, weights[1])]);
        for n in 0..groups {
            rib.add_ways(n << 8, 24, &of(n)).unwrap();
        }
        assert_eq!(rib.add_ways(0xff00_0000, 24, &of(groups)), Err(Error::Buckets));
        for n in 0..groups {
            rib.remove(n << 8, 24).unwrap();
        }
        // Groups first, then their next hops.
        for _ in 0..2 {
            let epoch = rib.publish();
            rib.reclaim(epoch);
        }
    }
}

#[test]
fn buckets_that_a_large_group_passes_over_serve_small_ones() {
    let mut rib = Rib::new(memory(1));
    rib.add_ways(0, 24, &ways(&[(1, 1), (2, 1)])).unwrap();
    for n in 1..(BUCKETS / 1024) as u32 {
        rib.add_ways(n << 8, 24, &ways(&[(n, 200), (n + 1, 100)])).unwrap();
    }
    // 1024 less 64 are left.
    for n in 0..15 {
        rib.add_ways(n << 16 | 0xff00_0000, 24, &ways(&[(n + 10, 1), (n + 11, 1)])).unwrap();
    }
    assert_eq!(rib.add_ways(0xfe00_0000, 24, &ways(&[(50, 1), (51, 1)])), Err(Error::Buckets));
}

/// A reader looks flows up while next hops go down and come back, and groups change.
#[test]
fn a_reader_sees_only_next_hops_of_its_route() {
    let memory = memory(1);
    let mut rib = Rib::new(memory);
    rib.add_ways(NET, 8, &ways(&[(1, 1), (2, 1), (3, 1)])).unwrap();
    let (stop, word) = (AtomicBool::new(false), AtomicU32::new(rib.publish()));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (table, mut looks) = (Table::new(memory), 0_u64);
            while !stop.load(Relaxed) || looks < 1000 {
                word.store(table.epoch(), Release);
                for hash in hashes() {
                    let hop = chosen(&table, NET | 1, hash);
                    assert!((1..=4).any(|gateway| hop == via(gateway)), "{hop:?}");
                }
                looks += 1;
            }
        });
        for round in 0..2000_u32 {
            rib.set_down(|_, hop| hop == via(round % 4));
            let all = [(1, 1), (2, 1 + round as u8 % 3), (3, 1), (4, 1)];
            let made = rib.add_ways(NET, 8, &ways(&all[..3 + round as usize % 2]));
            assert!(matches!(made, Ok(()) | Err(Error::Waiting)), "{made:?}");
            rib.publish();
            rib.reclaim_for([word.load(Acquire)]);
            if reader.is_finished() {
                break;
            }
        }
        stop.store(true, Relaxed);
    });
}

fn weights() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![4 => 1u8..5, 1 => 1u8..=255], 1..=MOST_WAYS)
}

/// Prefix, its length, and next hops with their weights.
type Spread = (u32, u8, Vec<(u32, u8)>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parts_are_as_weights_say(weights in weights()) {
        let buckets = 1 << bits(&weights);
        let quotas = quotas(&weights, buckets);
        prop_assert_eq!(quotas.iter().sum::<usize>(), buckets);
        let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        for (quota, weight) in quotas.iter().zip(&weights) {
            prop_assert!(*quota > 0);
            let exact = usize::from(*weight) * buckets / total;
            // One more for a remainder; less where others would have had nothing.
            prop_assert!(*quota <= exact.max(1) + 1 && *quota + MOST_WAYS > exact, "{} of {}", quota, exact);
        }
    }

    #[test]
    fn as_few_flows_as_possible_move(
        weights in weights(), change in prop::collection::vec((0usize..70, 0u8..6), 1..4), gone in 0usize..64,
    ) {
        let mut new = weights.clone();
        for (at, weight) in change {
            if let Some(place) = new.get_mut(at) {
                *place = weight.max(1);
            } else if new.len() < MOST_WAYS {
                new.push(weight.max(1));
            }
        }
        let before = assign(&weights, &alloc::vec![None; 1024]);
        let left = |owner: &usize| Some(*owner).filter(|owner| *owner != gone);
        let known: Vec<Option<usize>> = before.iter().map(left).collect();
        let after = assign(&new, &known);
        let (had, has) = (quotas(&weights, 1024), quotas(&new, 1024));
        for (at, quota) in has.iter().enumerate() {
            prop_assert_eq!(after.iter().filter(|owner| **owner == at).count(), *quota);
            let stayed = known.iter().zip(&after).filter(|(old, new)| **old == Some(at) && **new == at).count();
            let most = if at == gone { 0 } else { had.get(at).copied().unwrap_or(0) };
            prop_assert_eq!(stayed, most.min(*quota), "all that may stay does");
        }
    }

    #[test]
    fn others_take_over_by_weight(weights in weights()) {
        prop_assume!(weights.len() > 1);
        let owners = assign(&weights, &alloc::vec![None; 1024]);
        let choices = with_substitutes(&weights, &owners);
        for (owner, choices) in owners.iter().zip(&choices) {
            prop_assert_eq!(choices[0], Some(*owner));
            let named: Vec<usize> = choices.iter().flatten().copied().collect();
            prop_assert_eq!(named.len(), weights.len().min(4));
            prop_assert!(named.iter().enumerate().all(|(n, at)| !named[..n].contains(at)), "{:?}", named);
        }
        let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        for (owner, weight) in weights.iter().enumerate() {
            let own: Vec<_> = choices.iter().filter(|choices| choices[0] == Some(owner)).collect();
            for (other, share) in weights.iter().enumerate().filter(|(other, _)| *other != owner) {
                let taken = own.iter().filter(|choices| choices[1] == Some(other)).count() as f64;
                let exact = own.len() as f64 * f64::from(*share) / (total - usize::from(*weight)) as f64;
                prop_assert!((taken - exact).abs() <= 2.0, "{} for {}", taken, exact);
            }
        }
    }

    /// Routes with groups come and go, next hops go down and come back; a naive table says where a flow may go.
    #[test]
    fn agrees_with_a_naive_table(
        steps in prop::collection::vec(
            (prefix(), prop::collection::vec((1u32..9, 1u8..4), 0..5), any::<u8>()), 1..60,
        ),
        hashes in prop::collection::vec(any::<u32>(), 4),
    ) {
        static TABLE: LazyLock<Memory<'static>> = LazyLock::new(|| memory(128));
        let memory = *TABLE;
        let (mut rib, table) = (Rib::new(memory), Table::new(memory));
        let mut routes = Vec::<Spread>::new();
        for ((prefix, len), all, down) in steps {
            let known = routes.iter().position(|route| (route.0, route.1) == (prefix, len));
            known.map(|at| routes.swap_remove(at));
            if all.is_empty() {
                prop_assert_eq!(rib.remove(prefix, len).is_ok(), known.is_some());
            } else {
                rib.add_ways(prefix, len, &ways(&all)).unwrap();
                routes.push((prefix, len, all));
            }
            let is_down = |gateway: u32| down >> (gateway & 7) & 1 != 0;
            rib.set_down(|_, hop| matches!(hop, NextHop::Gateway { gateway, .. } if is_down(gateway)));
            let epoch = rib.publish();
            rib.reclaim(epoch);
            for (prefix, len, _) in &routes {
                let ip = prefix | !(if *len == 0 { 0 } else { u32::MAX << (32 - u32::from(*len)) });
                let best = routes.iter().filter(|route| covers(route, ip)).max_by_key(|route| route.1);
                let (_, _, all) = best.expect("the route itself covers it");
                for hash in &hashes {
                    let NextHop::Gateway { gateway, .. } = chosen(&table, ip, *hash) else {
                        return Err(TestCaseError::fail("no gateway"));
                    };
                    prop_assert!(all.iter().any(|(own, _)| *own == gateway));
                    // Of more than four, all four of a bucket may be down.
                    let distinct: alloc::collections::BTreeSet<u32> = all.iter().map(|(own, _)| *own).collect();
                    let some_up = distinct.iter().any(|own| !is_down(*own));
                    prop_assert!(distinct.len() < 2 || !some_up || !is_down(gateway), "{} of {:?}", gateway, all);
                }
            }
        }
        for (prefix, len, _) in routes {
            rib.remove(prefix, len).unwrap();
        }
        for _ in 0..2 {
            let epoch = rib.publish();
            rib.reclaim(epoch);
        }
        prop_assert_eq!(rib.retired(), 0);
    }
}

fn covers(route: &(u32, u8, Vec<(u32, u8)>), ip: u32) -> bool {
    route.1 == 0 || (ip ^ route.0) >> (32 - u32::from(route.1)) == 0
}
