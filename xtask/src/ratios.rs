//! Ours against a peer's, round by round, with the bound that the project sets itself.

use std::fmt::Write as _;

use crate::results::Sample;

/// What is asked of a figure.
#[derive(Clone, Copy)]
struct Asked {
    at_least: f64,
    at_most: f64,
}

impl Asked {
    const fn at_least(at_least: f64) -> Self {
        Self { at_least, at_most: f64::INFINITY }
    }

    const fn at_most(at_most: f64) -> Self {
        Self { at_least: 0.0, at_most }
    }

    /// By the whole interval, or nobody knows.
    fn judge(self, low: f64, high: f64) -> &'static str {
        if self.at_least == 0.0 && self.at_most == f64::INFINITY {
            "-"
        } else if low >= self.at_least && high <= self.at_most {
            "yes"
        } else if high < self.at_least || low > self.at_most {
            "no"
        } else {
            "open"
        }
    }

    fn shown(self) -> String {
        match (self.at_least, self.at_most) {
            (0.0, f64::INFINITY) => "-".to_owned(),
            (least, f64::INFINITY) => format!(">= {least}"),
            (0.0, most) => format!("<= {most}"),
            (least, most) => format!("{least}..{most}"),
        }
    }
}

/// One comparison.
struct Bound {
    ours: &'static str,
    theirs: &'static str,
    asked: Asked,
}

const fn bound(ours: &'static str, theirs: &'static str, at_least: f64) -> Bound {
    Bound { ours, theirs, asked: Asked::at_least(at_least) }
}

/// Nothing is asked of it.
const fn told(ours: &'static str, theirs: &'static str) -> Bound {
    bound(ours, theirs, 0.0)
}

/// For what takes time: less is better.
const fn no_slower(ours: &'static str, theirs: &'static str, at_most: f64) -> Bound {
    Bound { ours, theirs, asked: Asked::at_most(at_most) }
}

/// One figure of one case.
struct Limit {
    name: &'static str,
    key: &'static str,
    asked: Asked,
}

const fn limit(name: &'static str, key: &'static str, at_least: f64, at_most: f64) -> Limit {
    Limit { name, key, asked: Asked { at_least, at_most } }
}

/// What is compared wherever both were measured.
const BOUNDS: [Bound; 33] = [
    // The least that there is to do (bench/peers/path_model.c).
    told("forward/kvm/virtio-net/64", "path_model_64"),
    bound("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_plain_64", 2.5),
    bound("forward/kvm/virtio-net/64", "dpdk_router_l3fwd_lpm_tuned_64", 2.0),
    // Threads under their filters; a firmware that is a process; two queues on two vCPUs of the same two cores.
    bound("forward/kvm/virtio-net/64/sandbox", "forward/kvm/virtio-net/64", 0.98),
    bound("forward/process/virtio-net/64", "forward/kvm/virtio-net/64", 0.95),
    bound("forward/kvm/virtio-net/64/queues=2/vcpus=2", "forward/kvm/virtio-net/64", 0.9),
    bound("forward/kvm/virtio-net/64/routes=1000000", "forward/kvm/virtio-net/64", 0.6),
    bound("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_plain_64", 4.0),
    bound("guest-to-guest/kvm/virtio-net/64", "ovs_dpdk_mac_tuned_64", 4.0),
    // Back ends of vhost-user on one core with a guest on the other: one way each, a loop, and a route through the guest.
    bound("vhost_in_ringroad_plain_64", "vhost_in_dpdk_plain_64", 1.0),
    bound("vhost_out_ringroad_plain_64", "vhost_out_dpdk_plain_64", 1.0),
    bound("vhost_loop_ringroad_plain_64", "vhost_loop_dpdk_plain_64", 1.0),
    bound("vhost_route_ringroad_plain_64", "vhost_route_dpdk_plain_64", 1.0),
    bound("vhost_in_ringroad_tuned_64", "vhost_in_dpdk_tuned_64", 0.7),
    bound("vhost_out_ringroad_tuned_64", "vhost_out_dpdk_tuned_64", 0.7),
    bound("vhost_loop_ringroad_tuned_64", "vhost_loop_dpdk_tuned_64", 0.7),
    bound("vhost_route_ringroad_tuned_64", "vhost_route_dpdk_tuned_64", 0.7),
    told("router_over_vhost_user_ringroad_beside_plain_60", "router_over_vhost_user_l3fwd_plain_60"),
    told("router_over_vhost_user_ringroad_beside_tuned_60", "router_over_vhost_user_l3fwd_tuned_60"),
    // The e1000: each way to transmit against the one before it, and the status block against virtio-net. Moderation only
    // acts where an interrupt is over before the next one is due: 25 µs (itr = 100) are too few where an exit takes 66.
    bound("guest-tx/kvm/e1000-base+itr4000/64", "guest-tx/kvm/e1000-base/64", 1.0),
    bound("guest-tx/kvm/e1000-send-combining+itr4000/64", "guest-tx/kvm/e1000-base+itr4000/64", 1.0),
    bound("guest-tx/kvm/e1000-send-combining+itr4000/64", "guest-tx/kvm/e1000-base/64", 8.0),
    bound("guest-tx/kvm/e1000-csb/64", "guest-tx/kvm/e1000-send-combining+itr4000/64", 1.0),
    // A collected store is cheaper than an exit, an interrupt a frame costs more than both: so without moderation and with.
    bound("guest-tx/kvm/e1000-coalesced/64", "guest-tx/kvm/e1000-base/64", 2.0),
    bound("guest-tx/kvm/e1000-coalesced+itr4000/64", "guest-tx/kvm/e1000-base+itr4000/64", 2.0),
    bound("guest-tx/kvm/e1000-csb/64", "guest-tx/kvm/virtio-net/64", 1.0),
    bound("forward/kvm/e1000-csb/64", "forward/kvm/virtio-net/64", 1.0),
    bound("guest-to-guest/kvm/e1000-csb/64", "guest-to-guest/kvm/virtio-net/64", 1.0),
    // One stream of TCP with all offloads, in Gbit/s.
    bound("tcp-forward/kvm/virtio-net/tap", "tcp-forward/kernel/veth", 0.8),
    // A round trip without moderation.
    no_slower("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/virtio-net/64/sleeping", 1.05),
    no_slower("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/e1000-base/64/sleeping", 1.05),
    no_slower("round-trip/kvm/e1000-csb/64/sleeping", "round-trip/kvm/e1000-async/64/sleeping", 1.05),
    no_slower(
        "round-trip/kvm/e1000-csb+itradaptive/64/sleeping",
        "round-trip/kvm/e1000-csb/64/sleeping",
        1.05,
    ),
];

/// What is asked of single figures.
const LIMITS: [Limit; 8] = [
    // What exits allow: base is as fast as that, no faster and no slower.
    limit("guest-tx/kvm/e1000-base/64", "measured_over_model", 0.75, 1.25),
    limit("guest-tx/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("forward/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("guest-to-guest/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    limit("guest-rx/kvm/e1000-csb/64", "exits_per_packet", 0.0, 0.02),
    // From interrupt to interrupt, where all of them are put off.
    limit("round-trip/kvm/e1000-csb+itr4000/64/sleeping", "spacing_in_periods", 0.9, 1.25),
    limit("livelock/kvm/e1000-base/64/work=2000/queue=256/unprotected", "median", 0.0, 0.5),
    limit("livelock/kvm/e1000-base/64/work=2000/queue=256/protected", "median", 0.9, f64::INFINITY),
];

/// Fewest pairs from which an interval is told.
const FEWEST_PAIRS: usize = 6;
/// Largest difference of the cores' distance in a pair of like placement.
const LIKE: f64 = 0.2;

/// Markdown tables of ratios and of single figures; empty where nothing of them was measured.
pub(crate) fn table(samples: &[Sample]) -> String {
    let rows: String = BOUNDS.iter().filter_map(|bound| row(bound, samples)).collect();
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
    let (low, median, high) = interval(figures)?;
    let (asked, holds) = (limit.asked.shown(), limit.asked.judge(low, high));
    let Limit { name, key, .. } = limit;
    Some(format!("| {name} {key} | {rounds} | {median:.4} | {low:.4}..{high:.4} | {asked} | {holds} |\n"))
}

fn row(bound: &Bound, samples: &[Sample]) -> Option<String> {
    let Ratio { pairs, like, interval: (low, median, high) } = ratio(bound.ours, bound.theirs, samples)?;
    let holds = bound.asked.judge(low, high);
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

/// Ours / theirs.
struct Ratio {
    pairs: usize,
    /// Of these, pairs of like placement.
    like: usize,
    /// Low end, median, high end.
    interval: (f64, f64, f64),
}

fn ratio(ours: &str, theirs: &str, samples: &[Sample]) -> Option<Ratio> {
    let of = |name: &str| samples.iter().filter(|sample| sample.name() == name).cloned().collect::<Vec<_>>();
    let (ours, theirs) = (of(ours), of(theirs));
    let pairs: Vec<(&Sample, &Sample)> = ours.iter().zip(&theirs).collect();
    let like: Vec<&(&Sample, &Sample)> = pairs.iter().filter(|(a, b)| near_each_other(a, b)).collect();
    // With too few pairs of like placement all are taken, and the reader sees it in the table.
    let used: Vec<f64> = if like.len() >= FEWEST_PAIRS {
        like.iter().map(|(a, b)| a.median() / b.median()).collect()
    } else {
        pairs.iter().map(|(a, b)| a.median() / b.median()).collect()
    };
    Some(Ratio { pairs: pairs.len(), like: like.len(), interval: interval(used)? })
}

fn near_each_other(a: &Sample, b: &Sample) -> bool {
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
