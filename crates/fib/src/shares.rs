//! Which next hop of a group has which buckets.
//!
//! Each next hop has a part of the buckets that its weight asks for. When the next hops of a group change, as few buckets as
//! possible change with them: a next hop that stays keeps what it has, up to its part.

use alloc::vec::Vec;

use router::CHOICES;

use crate::word::MOST_BITS;

/// Smallest number of buckets of a group, as a power of two.
const LEAST_BITS: u32 = 6;

/// Returns the number of buckets of a group with these weights, as a power of two: at least four for the smallest part, as
/// far as that is possible.
pub(crate) fn bits(weights: &[u8]) -> u32 {
    let total: u32 = weights.iter().map(|weight| u32::from(*weight)).sum();
    (4 * total).next_power_of_two().trailing_zeros().clamp(LEAST_BITS, MOST_BITS)
}

/// Returns the number of buckets of each next hop: none has none, and the sum is `buckets`.
pub(crate) fn quotas(weights: &[u8], buckets: usize) -> Vec<usize> {
    let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum::<usize>().max(1);
    let exact = |weight: u8| usize::from(weight) * buckets;
    let mut quotas: Vec<usize> = weights.iter().map(|weight| exact(*weight) / total).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    // The largest remainders get what is left.
    order.sort_by_key(|at| core::cmp::Reverse(exact(weights[*at]) % total));
    let left = buckets - quotas.iter().sum::<usize>();
    order.iter().take(left).for_each(|at| quotas[*at] += 1);
    while let Some(none) = quotas.iter().position(|quota| *quota == 0)
        && let Some(most) = (0..quotas.len()).max_by_key(|at| quotas[*at])
    {
        quotas[most] -= 1;
        quotas[none] = 1;
    }
    quotas
}

/// Gives each bucket a next hop, by its index among the weights. `before` tells which one each had, if that is still there.
pub(crate) fn assign(weights: &[u8], before: &[Option<usize>]) -> Vec<usize> {
    let mut left = quotas(weights, before.len());
    let mut keep = |owner: &Option<usize>| {
        let owner = (*owner)?;
        let room = left.get_mut(owner).filter(|room| **room > 0)?;
        *room -= 1;
        Some(owner)
    };
    let kept: Vec<Option<usize>> = before.iter().map(&mut keep).collect();
    let mut give = || {
        // The one that lacks most, so that neighbouring buckets belong to different ones.
        let most = (0..left.len()).max_by_key(|at| (left[*at], core::cmp::Reverse(*at))).unwrap_or(0);
        left[most] = left[most].saturating_sub(1);
        most
    };
    kept.into_iter().map(|owner| owner.unwrap_or_else(&mut give)).collect()
}

/// Returns for each bucket, after the next hop that it has, those that take over when that one is down: of the buckets of one
/// next hop, each other one takes over as many as its weight asks for.
pub(crate) fn with_substitutes(weights: &[u8], owners: &[usize]) -> Vec<[Option<usize>; CHOICES]> {
    let mut credits = alloc::vec![alloc::vec![0_i64; weights.len()]; weights.len()];
    let mut turns = alloc::vec![0_usize; weights.len()];
    let substitutes = |owner: &usize| {
        let mut choices = [None; CHOICES];
        choices[0] = Some(*owner);
        choices[1] = next_by_weight(weights, *owner, &mut credits[*owner]);
        let turn = turns[*owner] / weights.len();
        turns[*owner] += 1;
        let others: Vec<usize> = (0..weights.len()).filter(|at| !choices[..2].contains(&Some(*at))).collect();
        for (place, at) in choices[2..].iter_mut().zip(0..others.len()) {
            *place = Some(others[(turn + at) % others.len()]);
        }
        choices
    };
    owners.iter().map(substitutes).collect()
}

/// Returns the next of the others than `owner`, in turns by weight (smooth weighted round robin).
fn next_by_weight(weights: &[u8], owner: usize, credits: &mut [i64]) -> Option<usize> {
    let others = || (0..weights.len()).filter(move |at| *at != owner);
    let total: i64 = others().map(|at| i64::from(weights[at])).sum();
    others().for_each(|at| credits[at] += i64::from(weights[at]));
    let most = others().max_by_key(|at| (credits[*at], core::cmp::Reverse(*at)))?;
    credits[most] -= total;
    Some(most)
}
