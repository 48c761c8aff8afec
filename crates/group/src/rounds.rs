//! The order in which members get frames where these are dealt out one by one, and not by flow: each as often as its weight is worth,
//! and as evenly as that can be. Frames of one flow then pass different members and may overtake each other.

use crate::member::{Member, Shares};

/// No round is longer, whatever weights there are.
const LONGEST: usize = 1 << 16;

/// One round: the members in their order, at most `most` turns long or one for each member, whichever is more.
///
/// Before each turn every member earns its weight; the one that has earned most gets the turn, and pays for it what all earn together.
pub fn round(shares: &Shares, most: usize) -> Vec<Member> {
    let weights = fitting(shares, most);
    let total: i64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut earned: Vec<i64> = vec![0; weights.len()];
    let mut turns = Vec::new();
    for _ in 0..total {
        for (earned, (_, weight)) in earned.iter_mut().zip(&weights) {
            *earned += weight;
        }
        let richest = (0..earned.len()).max_by_key(|&n| (earned[n], std::cmp::Reverse(n)));
        let Some(richest) = richest else { break };
        earned[richest] -= total;
        turns.push(weights[richest].0);
    }
    turns
}

/// The weights in their lowest terms, made smaller where a round would be longer than `most`.
fn fitting(shares: &Shares, most: usize) -> Vec<(Member, i64)> {
    let weights = || shares.values().map(|weight| i64::from((*weight).max(1)));
    let divisor = weights().fold(0, common_divisor).max(1);
    let total = weights().sum::<i64>() / divisor;
    let most = most.min(LONGEST) as i64;
    let fit = |weight: i64| if total <= most { weight } else { (weight * most / total).max(1) };
    shares.keys().copied().zip(weights().map(|weight| fit(weight / divisor))).collect()
}

fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests;
