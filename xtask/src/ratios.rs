//! Ours against a peer's, round by round, with the bound that the project sets itself.

use std::fmt::Write as _;

use measure::bounds::{Bound, LIMITS, Limit, bounds};

use crate::results::Sample;

/// Fewest pairs from which an interval is told.
const FEWEST_PAIRS: usize = 6;
/// Largest difference of the cores' distance in a pair of like placement.
const LIKE: f64 = 0.2;

/// Markdown tables of ratios and of single figures; empty where nothing of them was measured.
pub(crate) fn table(samples: &[Sample]) -> String {
    let rows: String = bounds().iter().filter_map(|bound| row(bound, samples)).collect();
    let limits: String = LIMITS.iter().filter_map(|limit| limit_row(limit, samples)).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str("| ratio | pairs | like | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---:|---:|---:|---|---:|---|\n");
        text.push_str(&rows);
    }
    if !limits.is_empty() {
        text.push_str("\n| figure | rounds | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---:|---:|---|---:|---|\n");
        text.push_str(&limits);
    }
    text
}

/// The median of what was measured under a name, with its unit.
pub(crate) fn median_of(name: &str, samples: &[Sample]) -> Option<(String, String)> {
    let of: Vec<&Sample> = samples.iter().filter(|sample| sample.name() == name).collect();
    let (_, median, _) = interval(of.iter().map(|sample| sample.median()).collect())?;
    Some((format!("{median:.1}"), of.first()?.unit().to_owned()))
}

/// Ours / theirs, round by round: median and 95 % interval.
pub(crate) fn of(ours: &str, theirs: &str, samples: &[Sample]) -> Option<String> {
    let Ratio { interval: (low, median, high), .. } = ratio(ours, theirs, samples)?;
    Some(format!("{median:.2} ({low:.2}..{high:.2})"))
}

fn limit_row(limit: &Limit, samples: &[Sample]) -> Option<String> {
    let of = samples.iter().filter(|sample| sample.name() == limit.name);
    let figures: Vec<f64> = of.filter_map(|sample| sample.figure(limit.key)).collect();
    let rounds = figures.len();
    let found @ (low, median, high) = interval(figures)?;
    let (asked, holds) = (limit.asked.shown(), limit.asked.judge(found));
    let Limit { name, key, .. } = limit;
    Some(format!("| {name} {key} | {rounds} | {median:.4} | {low:.4}..{high:.4} | {asked} | {holds} |\n"))
}

fn row(bound: &Bound, samples: &[Sample]) -> Option<String> {
    let Ratio { pairs, like, interval: found @ (low, median, high) } =
        ratio(&bound.ours, &bound.theirs, samples)?;
    let holds = bound.asked.judge(found);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {} / {} | {pairs} | {like} | {median:.2} | {low:.2}..{high:.2} | {} | {holds} |",
        bound.ours,
        bound.theirs,
        bound.asked.shown()
    );
    Some(text)
}

/// One figure over another one, pair by pair.
pub(crate) struct Ratio {
    pub(crate) pairs: usize,
    /// Of these, pairs of like placement.
    pub(crate) like: usize,
    /// Low end, median, high end.
    pub(crate) interval: (f64, f64, f64),
}

impl Ratio {
    /// The first of each pair over the second; `None` for too few pairs.
    pub(crate) fn over(pairs: &[(&Sample, &Sample)]) -> Option<Self> {
        let like: Vec<_> = pairs.iter().copied().filter(|(a, b)| near_each_other(a, b)).collect();
        // With too few pairs of like placement all are taken, and the reader sees it in the table.
        let used = if like.len() >= FEWEST_PAIRS { &like[..] } else { pairs };
        let ratios = used.iter().map(|(a, b)| a.median() / b.median()).collect();
        Some(Self { pairs: pairs.len(), like: like.len(), interval: interval(ratios)? })
    }
}

fn ratio(ours: &str, theirs: &str, samples: &[Sample]) -> Option<Ratio> {
    Ratio::over(&pairs(ours, theirs, samples))
}

/// Ours and theirs, round by round. What several of ours ran in turn with was measured several times a round: of these the one
/// that came nearest, which is told behind ours rather than before.
fn pairs<'s>(ours: &str, theirs: &str, samples: &'s [Sample]) -> Vec<(&'s Sample, &'s Sample)> {
    let of = |name: &str| -> Vec<(usize, &'s Sample)> {
        samples.iter().enumerate().filter(|(_, sample)| sample.name() == name).collect()
    };
    let (ours, theirs) = (of(ours), of(theirs));
    let a_round = (theirs.len() / ours.len().max(1)).max(1);
    let distance = |at: usize, other: usize| (at.abs_diff(other), other < at);
    let nearest = |((at, sample), round): (&(usize, &'s Sample), &[(usize, &'s Sample)])| {
        let (_, other) = round.iter().min_by_key(|(other, _)| distance(*at, *other))?;
        Some((*sample, *other))
    };
    ours.iter().zip(theirs.chunks(a_round)).filter_map(nearest).collect()
}

/// Whether the cores of both samples were about equally far apart.
pub(crate) fn near_each_other(a: &Sample, b: &Sample) -> bool {
    match (a.c2c_ns(), b.c2c_ns()) {
        (Some(a), Some(b)) => (a - b).abs() <= LIKE * a.max(b),
        _ => false,
    }
}

/// Median and its 95 % interval by order statistics (no assumption about how the ratios are spread); `None` for
/// fewer than six.
pub(crate) fn interval(mut ratios: Vec<f64>) -> Option<(f64, f64, f64)> {
    ratios.retain(|ratio| ratio.is_finite());
    let n = ratios.len();
    if n < FEWEST_PAIRS {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    // Largest k for which the k smallest and the k largest lie outside with at most 2.5 % on each side.
    let (mut below, mut term, mut k) = (0.0, 0.5f64.powi(n as i32), 0);
    while below + term <= 0.025 {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let low = k.saturating_sub(1);
    Some((ratios[low], f64::midpoint(ratios[(n - 1) / 2], ratios[n / 2]), ratios[n - 1 - low]))
}

#[cfg(test)]
#[path = "ratios_tests.rs"]
mod tests;
