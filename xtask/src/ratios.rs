//! Ratios of our results to a peer's, round by round, with the bounds that the project sets itself.

use std::collections::BTreeMap;

use measure::bounds::{Bound, LIMITS, Limit, bounds};
use measure::stats::{self, Summary};

use crate::results::{Placement, ROUND, Sample};

/// Fewest pairs that give an interval.
const FEWEST_PAIRS: usize = 6;
/// Largest relative difference of the cores' distance in a pair of like placement.
const LIKE: f64 = 0.2;

/// Formats Markdown tables of ratios and of single figures; empty if none of them were measured.
pub(crate) fn table(samples: &[Sample]) -> String {
    let rows: String = bounds().iter().flat_map(|bound| bound_rows(bound, samples)).collect();
    let limits: String = LIMITS.iter().filter_map(|limit| limit_row(limit, samples)).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str("| ratio | cores | pairs | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---|---:|---:|---|---:|---|\n");
        text.push_str(&rows);
    }
    if !limits.is_empty() {
        text.push_str("\n| figure | rounds | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---:|---:|---|---:|---|\n");
        text.push_str(&limits);
    }
    text
}

/// Median of the results under a name, with its unit.
pub(crate) fn median_of(name: &str, samples: &[Sample]) -> Option<(String, String)> {
    let of: Vec<&Sample> = samples.iter().filter(|sample| sample.name == name).collect();
    let (_, median, _) = interval(of.iter().map(|sample| sample.median).collect())?;
    Some((format!("{median:.1}"), of.first()?.unit.clone()))
}

/// Ratio ours / theirs, round by round: median and 95 % interval.
pub(crate) fn of(ours: &str, theirs: &str, samples: &[Sample]) -> Option<String> {
    let Ratio { interval: (low, median, high), .. } = ratio(ours, theirs, samples)?;
    Some(format!("{median:.2} ({low:.2}..{high:.2})"))
}

fn limit_row(limit: &Limit, samples: &[Sample]) -> Option<String> {
    let of = samples.iter().filter(|sample| sample.name == limit.name);
    let figures: Vec<f64> = of.filter_map(|sample| sample.figure(limit.key)).collect();
    let rounds = figures.len();
    let found @ (low, median, high) = interval(figures)?;
    let (asked, holds) = (limit.asked.shown(), limit.asked.judge(found));
    let Limit { name, key, .. } = limit;
    Some(format!("| {name} {key} | {rounds} | {median:.4} | {low:.4}..{high:.4} | {asked} | {holds} |\n"))
}

/// Rows for each placement of the cores at which both of a pair were measured, from near to far; the last row is for pairs whose
/// cores moved in between.
fn bound_rows(bound: &Bound, samples: &[Sample]) -> Vec<String> {
    let mut places: BTreeMap<Option<Placement>, Vec<f64>> = BTreeMap::new();
    for (ours, theirs) in pairs(&bound.ours, &bound.theirs, samples) {
        let [place, other] = [ours, theirs].map(|sample| Placement::of(sample.figure("c2c_ns")));
        let ratio = ours.median / theirs.median;
        places.entry((place == other).then_some(place)).or_default().push(ratio);
    }
    let moved = places.remove(&None).map(|ratios| ("moved", ratios));
    let places = places.into_iter().filter_map(|(place, ratios)| Some((place?.shown(), ratios)));
    places.chain(moved).map(|(place, ratios)| row(bound, place, ratios)).collect()
}

/// Formats the ratios of one placement; with too few for an interval, the verdict stays open.
fn row(bound: &Bound, place: &str, ratios: Vec<f64>) -> String {
    let (pairs, alone) = (ratios.len(), stats::median(&ratios).unwrap_or(f64::NAN));
    let (median, shown, holds) = match interval(ratios) {
        Some(found @ (low, median, high)) => {
            (median, format!("{low:.2}..{high:.2}"), bound.asked.judge(found))
        }
        None => (alone, "-".to_owned(), "too few"),
    };
    let Bound { ours, theirs, asked } = bound;
    format!(
        "| {ours} / {theirs} | {place} | {pairs} | {median:.2} | {shown} | {} | {holds} |\n",
        asked.shown()
    )
}

/// Ratio of two figures, pair by pair.
pub(crate) struct Ratio {
    pub(crate) pairs: usize,
    /// Number of these pairs that have like placement.
    pub(crate) like: usize,
    /// Low end, median, high end.
    pub(crate) interval: (f64, f64, f64),
}

impl Ratio {
    /// Ratio of the first of each pair to the second; `None` for too few pairs.
    pub(crate) fn over(pairs: &[(&Sample, &Sample)]) -> Option<Self> {
        let like: Vec<_> = pairs.iter().copied().filter(|(a, b)| alike(a, b)).collect();
        // With too few pairs of like placement all pairs are used; the table shows that.
        let used = if like.len() >= FEWEST_PAIRS { &like[..] } else { pairs };
        let ratios = used.iter().map(|(a, b)| a.median / b.median).collect();
        Some(Self { pairs: pairs.len(), like: like.len(), interval: interval(ratios)? })
    }
}

fn ratio(ours: &str, theirs: &str, samples: &[Sample]) -> Option<Ratio> {
    Ratio::over(&pairs(ours, theirs, samples))
}

/// Pairs ours with theirs, round by round: a round in which one of them gave no result has no pair.
fn pairs<'s>(ours: &str, theirs: &str, samples: &'s [Sample]) -> Vec<(&'s Sample, &'s Sample)> {
    let of = |name: &str| -> Vec<(usize, &'s Sample)> {
        samples.iter().enumerate().filter(|(_, sample)| sample.name == name).collect()
    };
    let (ours, theirs) = (of(ours), of(theirs));
    let mut rounds: Vec<Option<&str>> = ours.iter().map(|(_, sample)| sample.get(ROUND)).collect();
    rounds.dedup();
    let in_round = |all: &[(usize, &'s Sample)], round: Option<&str>| -> Vec<(usize, &'s Sample)> {
        all.iter().copied().filter(|(_, sample)| sample.get(ROUND) == round).collect()
    };
    rounds.iter().flat_map(|round| nearest(&in_round(&ours, *round), &in_round(&theirs, *round))).collect()
}

/// Samples with their places in the order of measurement.
type Placed<'a, 's> = &'a [(usize, &'s Sample)];

/// Pairs the results of a round, or of all rounds if they do not tell theirs. If several of ours share a peer, the peer was measured
/// several times per round: each of ours is paired with the nearest of these, preferably the one after it.
fn nearest<'s>(ours: Placed<'_, 's>, theirs: Placed<'_, 's>) -> Vec<(&'s Sample, &'s Sample)> {
    let a_round = (theirs.len() / ours.len().max(1)).max(1);
    let distance = |at: usize, other: usize| (at.abs_diff(other), other < at);
    let nearest = |((at, sample), round): (&(usize, &'s Sample), &[(usize, &'s Sample)])| {
        let (_, other) = round.iter().min_by_key(|(other, _)| distance(*at, *other))?;
        Some((*sample, *other))
    };
    ours.iter().zip(theirs.chunks(a_round)).filter_map(nearest).collect()
}

/// Returns true if the cores of both samples were about equally far apart.
pub(crate) fn alike(a: &Sample, b: &Sample) -> bool {
    match (a.figure("c2c_ns"), b.figure("c2c_ns")) {
        (Some(a), Some(b)) => (a - b).abs() <= LIKE * a.max(b),
        _ => false,
    }
}

/// Median and its 95 % interval by order statistics (no assumption about the distribution of the ratios); `None` for fewer than six.
pub(crate) fn interval(ratios: Vec<f64>) -> Option<(f64, f64, f64)> {
    Summary::of(&ratios)?.within()
}

#[cfg(test)]
#[path = "ratios_tests.rs"]
mod tests;
