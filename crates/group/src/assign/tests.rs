use proptest::prelude::*;

use super::*;

fn shares(weights: &[(u16, u32)]) -> Shares {
    weights.iter().map(|(member, weight)| (Member(*member), *weight)).collect()
}

fn held(assignment: &Assignment, shares: &Shares) -> Vec<usize> {
    shares.keys().map(|member| assignment.held(*member)).collect()
}

fn even(_: usize) -> u64 {
    0
}

/// How few places of live members can move: over all ways to round the shares, what each member has too many.
fn fewest_moves(before: &Assignment, shares: &Shares) -> usize {
    let places = before.owners().len();
    let total: u64 = shares.values().map(|weight| u64::from(*weight)).sum();
    let share = |weight: u32| (places as u64 * u64::from(weight) / total) as usize;
    let has_rest = |weight: u32| !(places as u64 * u64::from(weight)).is_multiple_of(total);
    let list: Vec<(usize, usize, bool)> = shares
        .iter()
        .map(|(member, weight)| (before.held(*member), share(*weight), has_rest(*weight)))
        .collect();
    let extra = places - list.iter().map(|(_, share, _)| share).sum::<usize>();
    let ways = 0..1_u32 << list.len();
    let fits = |way: &u32| {
        let only_cut = list.iter().enumerate().all(|(n, (_, _, has_rest))| *has_rest || way >> n & 1 == 0);
        way.count_ones() as usize == extra && only_cut
    };
    let moves = |way: u32| {
        let each = list.iter().enumerate();
        each.map(|(n, (held, share, _))| held.saturating_sub(share + (way >> n & 1) as usize)).sum::<usize>()
    };
    ways.filter(fits).map(moves).min().expect("one way at least")
}

#[test]
fn an_even_table() {
    let three = shares(&[(0, 1), (1, 1), (2, 1)]);
    let table = Assignment::new(8).dealt(&three, even);
    assert_eq!(held(&table, &three), [3, 3, 2]);
    assert_eq!(table.owner(0), Some(Member(0)));
    assert_eq!(table.owner(1), Some(Member(1)));
    assert_eq!((table.owner(8), Assignment::new(2).owner(1)), (None, None));
}

#[test]
fn a_member_that_goes_leaves_the_others_what_they_have() {
    let before = Assignment::new(BUCKETS).dealt(&shares(&[(0, 1), (1, 1), (2, 1)]), even);
    let after = before.dealt(&shares(&[(0, 1), (2, 1)]), even);
    assert!(before.moves_to(&after).iter().all(|moved| moved.from == Some(Member(1))));
    assert_eq!(held(&after, &shares(&[(0, 1), (2, 1)])), [128, 128]);
    let back = after.dealt(&shares(&[(0, 1), (1, 1), (2, 1)]), even);
    assert!(after.moves_to(&back).iter().all(|moved| moved.to == Some(Member(1))));
}

#[test]
fn what_moves_is_what_carries_least() {
    let before = Assignment::new(8).dealt(&shares(&[(0, 1)]), even);
    let after = before.dealt(&shares(&[(0, 1), (1, 1)]), |place| [9, 1, 8, 2, 7, 3, 6, 4][place]);
    let moved: Vec<usize> = before.moves_to(&after).iter().map(|moved| moved.place).collect();
    assert_eq!(moved, [1, 3, 5, 7]);
}

#[test]
fn without_members_nobody_has_anything() {
    let before = Assignment::new(4).dealt(&shares(&[(0, 1)]), even);
    let after = before.dealt(&Shares::new(), even);
    assert_eq!(after, Assignment::new(4));
    let lost = Move { place: 3, from: Some(Member(0)), to: None };
    assert_eq!(before.moves_to(&after)[3], lost);
}

#[test]
fn a_weight_counts() {
    let unequal = shares(&[(0, 3), (1, 1)]);
    assert_eq!(held(&Assignment::new(BUCKETS).dealt(&unequal, even), &unequal), [192, 64]);
    let none = shares(&[(0, 0), (1, 1)]);
    assert_eq!(held(&Assignment::new(BUCKETS).dealt(&none, even), &none), [128, 128]);
}

fn any_shares() -> impl Strategy<Value = Shares> {
    prop::collection::btree_map((0..8_u16).prop_map(Member), 1..5_u32, 0..7)
}

proptest! {
    #[test]
    fn while_there_is_a_member_each_place_has_one(
        steps in prop::collection::vec(any_shares(), 1..12), places in 1..300_usize,
    ) {
        let mut table = Assignment::new(places);
        for shares in steps {
            table = table.dealt(&shares, even);
            let has_live_owner = |owner: &Option<Member>| owner.is_some_and(|owner| shares.contains_key(&owner));
            prop_assert!(table.owners().iter().all(|owner| has_live_owner(owner) != shares.is_empty()));
        }
    }

    #[test]
    fn each_member_has_its_share(before in any_shares(), shares in any_shares(), places in 1..300_usize) {
        let table = Assignment::new(places).dealt(&before, even).dealt(&shares, even);
        let total: u64 = shares.values().map(|weight| u64::from(*weight)).sum();
        for (member, weight) in &shares {
            let exact = places as u64 * u64::from(*weight);
            let held = table.held(*member) as u64;
            prop_assert!(held == exact / total || held == exact.div_ceil(total), "{held} of {exact}/{total}");
        }
    }

    #[test]
    fn nothing_moves_that_need_not(
        steps in prop::collection::vec(any_shares(), 2..6), loads in any::<u64>(), places in 1..300_usize,
    ) {
        let mut table = Assignment::new(places);
        for shares in steps.iter().filter(|shares| !shares.is_empty()) {
            let next = table.dealt(shares, |place| loads.rotate_left(place as u32 * 7) & 15);
            let is_live = |member: Option<Member>| member.is_some_and(|member| shares.contains_key(&member));
            let moved = table.moves_to(&next).iter().filter(|moved| is_live(moved.from)).count();
            prop_assert_eq!(moved, fewest_moves(&table, shares));
            table = next;
        }
    }

    #[test]
    fn the_same_members_move_nothing(shares in any_shares(), loads in any::<u64>(), places in 1..300_usize) {
        let table = Assignment::new(places).dealt(&shares, even);
        let again = table.dealt(&shares, |place| loads.rotate_left(place as u32) & 15);
        prop_assert_eq!(table, again);
    }

    #[test]
    fn a_kept_place_never_carries_less_than_a_moved_one_of_its_owner(
        before in any_shares(), after in any_shares(), loads in prop::collection::vec(0..9_u64, 64),
    ) {
        let table = Assignment::new(64).dealt(&before, even);
        let next = table.dealt(&after, |place| loads[place]);
        for moved in table.moves_to(&next).iter().filter(|moved| moved.from.is_some_and(|m| after.contains_key(&m))) {
            let kept = (0..64).filter(|&place| table.owner(place) == moved.from && next.owner(place) == moved.from);
            for place in kept {
                prop_assert!(loads[place] >= loads[moved.place]);
            }
        }
    }
}
