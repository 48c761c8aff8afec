//! Ours against a peer's, round by round, with the bound that the project sets itself.

use std::fmt::Write as _;

use crate::results::Sample;

/// One comparison.
struct Bound {
    ours: &'static str,
    theirs: &'static str,
    at_least: f64,
}

const fn bound(ours: &'static str, theirs: &'static str, at_least: f64) -> Bound {
    Bound { ours, theirs, at_least }
}

/// What is compared wherever both were measured.
const BOUNDS: [Bound; 8] = [
    bound("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_plain_64", 2.5),
    bound("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_tuned_64", 2.0),
    // Threads under their filters; a firmware that is a process; two queues on two vCPUs of the same two cores.
    bound("forward/kvm/virtio-net/64/sandbox", "forward/kvm/virtio-net/64", 0.98),
    bound("forward/process/virtio-net/64", "forward/kvm/virtio-net/64", 0.95),
    bound("forward/kvm/virtio-net/64/queues=2/vcpus=2", "forward/kvm/virtio-net/64", 0.9),
    bound("forward/kvm/virtio-net/64/routes=1000000", "forward/kvm/virtio-net/64", 0.6),
    bound("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_plain_64", 4.0),
    bound("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_tuned_64", 4.0),
];

/// Fewest pairs from which an interval is told.
const FEWEST_PAIRS: usize = 6;
/// Largest difference of the cores' distance in a pair of like placement.
const LIKE: f64 = 0.2;

/// A Markdown table of the ratios; empty where nothing was measured on both sides.
pub(crate) fn table(samples: &[Sample]) -> String {
    let rows: String = BOUNDS.iter().filter_map(|bound| row(bound, samples)).collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "| ratio | pairs | like | median | 95 % interval | bound | holds |\n|---|---:|---:|---:|---|---:|---|\n{rows}"
    )
}

fn row(bound: &Bound, samples: &[Sample]) -> Option<String> {
    let of = |name: &str| samples.iter().filter(|sample| sample.name() == name).cloned().collect::<Vec<_>>();
    let (ours, theirs) = (of(bound.ours), of(bound.theirs));
    let pairs: Vec<(&Sample, &Sample)> = ours.iter().zip(&theirs).collect();
    let like: Vec<&(&Sample, &Sample)> = pairs.iter().filter(|(a, b)| near_each_other(a, b)).collect();
    // With too few pairs of like placement all are taken, and the reader sees it in the table.
    let used: Vec<f64> = if like.len() >= FEWEST_PAIRS {
        like.iter().map(|(a, b)| a.median() / b.median()).collect()
    } else {
        pairs.iter().map(|(a, b)| a.median() / b.median()).collect()
    };
    let (low, median, high) = interval(used)?;
    let holds = if low >= bound.at_least {
        "yes"
    } else if high < bound.at_least {
        "no"
    } else {
        "open"
    };
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {} / {} | {} | {} | {median:.2} | {low:.2}..{high:.2} | {} | {holds} |",
        bound.ours,
        bound.theirs,
        pairs.len(),
        like.len(),
        bound.at_least
    );
    Some(text)
}

fn near_each_other(a: &Sample, b: &Sample) -> bool {
    match (a.c2c_ns(), b.c2c_ns()) {
        (Some(a), Some(b)) => (a - b).abs() <= LIKE * a.max(b),
        _ => false,
    }
}

/// Median and its 95 % interval by order statistics (no assumption about how the ratios are spread); `None` for
/// fewer than six.
fn interval(mut ratios: Vec<f64>) -> Option<(f64, f64, f64)> {
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
