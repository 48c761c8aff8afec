use proptest::prelude::*;

use super::*;

fn shares(weights: &[u32]) -> Shares {
    (0..).map(Member).zip(weights.iter().copied()).collect()
}

fn numbers(weights: &[u32], most: usize) -> Vec<u16> {
    round(&shares(weights), most).into_iter().map(|member| member.0).collect()
}

#[test]
fn turns_are_mixed() {
    assert_eq!(numbers(&[1, 1, 1], 64), [0, 1, 2]);
    assert_eq!(numbers(&[7, 7], 64), [0, 1], "in lowest terms");
    assert_eq!(numbers(&[3, 1], 64), [0, 0, 1, 0]);
    assert_eq!(numbers(&[5, 1, 1], 64), [0, 0, 1, 0, 2, 0, 0]);
    assert!(numbers(&[], 64).is_empty());
}

#[test]
fn a_round_is_bounded() {
    assert_eq!(numbers(&[1_000_001, 1_000_000], 2), [0, 1]);
    assert_eq!(numbers(&[u32::MAX, 1], 4).len(), 4);
    assert_eq!(numbers(&[1; 9], 4).len(), 9, "each member has a turn");
}

proptest! {
    #[test]
    fn each_member_has_its_turns_and_never_runs_far_ahead(weights in prop::collection::vec(1..9_u32, 1..7)) {
        let turns = numbers(&weights, 64);
        let total: u32 = weights.iter().sum();
        for (member, weight) in (0..).zip(&weights) {
            let mut had = 0;
            for (passed, turn) in (1..).zip(&turns) {
                had += u32::from(*turn == member);
                let due = f64::from(passed * *weight) / f64::from(total);
                prop_assert!((f64::from(had) - due).abs() < weights.len() as f64, "{member}: {had} of {due}");
            }
            prop_assert_eq!(had * total, turns.len() as u32 * weight);
        }
    }
}
