//! Ratios of our results to a peer's, round by round, with the bounds that the project sets itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use measure::bounds::{Bound, LIMITS, Limit, Requirement, bounds};
use measure::stats::{self, Summary};

use crate::results::{Placement, ROUND, Sample};

/// Fewest pairs that give an interval.
const FEWEST_PAIRS: usize = 6;
/// Largest relative difference of the cores' distance in a pair of like placement.
const LIKE: f64 = 0.2;

/// Formats Markdown tables of ratios and of single figures; empty if none of them were measured.
pub(crate) fn table(samples: &[Sample]) -> String {
    let rows: String = bounds().iter().flat_map(|bound| bound_rows(bound, samples)).collect();
    let limits: String = LIMITS.iter().flat_map(|limit| limit_rows(limit, samples)).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str("| ratio | cores | pairs | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---|---:|---:|---|---:|---|\n");
        text.push_str(&rows);
    }
    if !limits.is_empty() {
        text.push_str("\n| figure | cores | rounds | median | 95 % interval | bound | holds |\n");
        text.push_str("|---|---|---:|---:|---|---:|---|\n");
        text.push_str(&limits);
    }
    text
}

/// Verdicts on the limits of a case (`group-killed`, of `group-killed/kvm/…`), at each placement of the cores: `holds`, `fails` or `open`.
pub(crate) fn verdicts(case: &str, samples: &[Sample]) -> Vec<&'static str> {
    let own = LIMITS.iter().filter(|limit| is_of(limit, case));
    let judged = |limit: &Limit| {
        let places = figures(limit.name, limit.key, samples).into_values();
        places.map(|figures| verdict(figures, limit.asked)).collect::<Vec<_>>()
    };
    own.flat_map(judged).collect()
}

/// Returns true if there is a limit of this case.
pub(crate) fn is_limited(case: &str) -> bool {
    LIMITS.iter().any(|limit| is_of(limit, case))
}

fn is_of(limit: &Limit, case: &str) -> bool {
    limit.name.strip_prefix(case).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Verdict on the figures of one placement; with too few for an interval it stays open.
fn verdict(figures: Vec<f64>, asked: Requirement) -> &'static str {
    match interval(figures).map(|found| asked.judge(found)) {
        Some(kept) if kept.starts_with("yes") => "holds",
        Some(missed) if missed.starts_with("no") => "fails",
        _ => "open",
    }
}

/// Median of the results under a name, with its unit, at the placement of the cores at which there are most of them.
pub(crate) fn median_of(name: &str, samples: &[Sample]) -> Option<String> {
    let unit = &samples.iter().find(|sample| sample.name == name)?.unit;
    let ((_, median, _), place) = where_most(figures(name, "median", samples))?;
    Some(format!("{median:.1} {unit}{place}"))
}

/// Ratio ours / theirs, round by round, at the placement of the cores at which there are most pairs: median and 95 % interval.
pub(crate) fn of(ours: &str, theirs: &str, samples: &[Sample]) -> Option<String> {
    let told = ratios(ours, theirs, samples).into_iter().filter_map(|(place, ratios)| Some((place?, ratios)));
    let ((low, median, high), place) = where_most(told.collect())?;
    Some(format!("{median:.2} ({low:.2}..{high:.2}){place}"))
}

/// Interval and median of the figures of the placement that has most of them, the nearest one of several, and its name after a comma,
/// unless it was not told.
fn where_most(places: BTreeMap<Placement, Vec<f64>>) -> Option<((f64, f64, f64), String)> {
    let most = places.into_iter().max_by_key(|(place, figures)| (figures.len(), Reverse(*place)));
    let (place, figures) = most?;
    let named = match place {
        Placement::Unknown => String::new(),
        told => format!(", {}", told.shown()),
    };
    Some((interval(figures)?, named))
}

/// Figures of a case, one a round, by the placement of the cores from near to far.
fn figures(name: &str, key: &str, samples: &[Sample]) -> BTreeMap<Placement, Vec<f64>> {
    let mut places: BTreeMap<Placement, Vec<f64>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name == name) {
        if let Some(figure) = sample.figure(key) {
            places.entry(Placement::of(sample.figure("c2c_ns"))).or_default().push(figure);
        }
    }
    places
}

/// Ratios ours / theirs, round by round, by the placement of the cores at which both were measured; none: the cores moved in between.
fn ratios(ours: &str, theirs: &str, samples: &[Sample]) -> BTreeMap<Option<Placement>, Vec<f64>> {
    let mut places: BTreeMap<Option<Placement>, Vec<f64>> = BTreeMap::new();
    for (ours, theirs) in pairs(ours, theirs, samples) {
        let [place, other] = [ours, theirs].map(|sample| Placement::of(sample.figure("c2c_ns")));
        let ratio = ours.median / theirs.median;
        places.entry((place == other).then_some(place)).or_default().push(ratio);
    }
    places
}

/// Rows for each placement of the cores at which a single figure was measured, from near to far.
fn limit_rows(limit: &Limit, samples: &[Sample]) -> Vec<String> {
    let what = format!("{} {}", limit.name, limit.key);
    let places = figures(limit.name, limit.key, samples).into_iter();
    places.map(|(place, figures)| row(&what, place.shown(), figures, 4, limit.asked)).collect()
}

/// Rows for each placement of the cores at which both of a pair were measured, from near to far; the last row is for pairs whose
/// cores moved in between.
fn bound_rows(bound: &Bound, samples: &[Sample]) -> Vec<String> {
    let what = format!("{} / {}", bound.ours, bound.theirs);
    let mut places = ratios(&bound.ours, &bound.theirs, samples);
    let moved = places.remove(&None).map(|ratios| ("moved", ratios));
    let places = places.into_iter().filter_map(|(place, ratios)| Some((place?.shown(), ratios)));
    places.chain(moved).map(|(place, ratios)| row(&what, place, ratios, 2, bound.asked)).collect()
}

/// Formats the figures of one placement; with too few for an interval, the verdict stays open.
fn row(what: &str, place: &str, figures: Vec<f64>, digits: usize, asked: Requirement) -> String {
    let (n, alone) = (figures.len(), stats::median(&figures).unwrap_or(f64::NAN));
    let (median, shown, holds) = match interval(figures) {
        Some(found @ (low, median, high)) => {
            (median, format!("{low:.digits$}..{high:.digits$}"), asked.judge(found))
        }
        None => (alone, "-".to_owned(), "too few"),
    };
    format!("| {what} | {place} | {n} | {median:.digits$} | {shown} | {} | {holds} |\n", asked.shown())
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
