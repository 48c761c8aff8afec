//! Mapping of a ledger counter, such as `edge.wan.rx.frames`, to a metric with labels, such as
//! `nic_rx_frames_total{router="edge",nic="wan"}`.

use std::borrow::Cow;

/// Prefix of all metric names.
pub(crate) const NAMESPACE: &str = "ringroad";

/// Labels of a sample: names and values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A counter as a metric.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Part that counts: `nic_rx`; see [`crate::Page::describe`].
    pub(crate) part: Cow<'static, str>,
    /// Rest of the metric's name, after the part: `frames_total`.
    pub(crate) name: String,
    pub(crate) labels: Labels,
    /// Number of the counter's digits after the decimal point: counters in nanoseconds are shown in seconds.
    pub(crate) decimals: usize,
}

/// Units of time of ledger counters, and the number of their digits after the decimal point in seconds, the
/// unit of times in Prometheus.
const TIMES: [(&str, usize); 3] = [("ns", 9), ("us", 6), ("ms", 3)];

/// Maps a ledger name to a metric. A name of unknown form becomes a label.
pub(crate) fn classify(name: &str) -> Sample {
    let (group, field) = name.rsplit_once('.').unwrap_or(("", name));
    let (part, mut labels) = part(group);
    // One metric for all counters of a kind, so that they can be summed or shown separately.
    let kind = match (&*part, field.strip_prefix("drop_")) {
        (_, Some(reason)) => Some(("drops_total", "reason", reason)),
        ("vcpu", None) => Some(("exits_total", "reason", field)),
        ("nic_register", None) => Some(("accesses_total", "access", field)),
        _ => None,
    };
    let (name, decimals) = match kind {
        Some((name, label, kind)) => {
            labels.push((label, kind.to_owned()));
            (name.to_owned(), 0)
        }
        None => in_base_unit(&plain(field)),
    };
    Sample { part, name, labels, decimals }
}

/// Metric name of a field that may be a time: `kept_ms` becomes `kept_seconds_total`, with three decimals.
fn in_base_unit(field: &str) -> (String, usize) {
    let time = field.rsplit_once('_').and_then(|(what, unit)| {
        let (_, decimals) = TIMES.iter().find(|(abbreviated, _)| *abbreviated == unit)?;
        Some((format!("{what}_seconds_total"), *decimals))
    });
    time.unwrap_or_else(|| (format!("{field}_total"), 0))
}

/// Part and labels of a group of counters.
fn part(group: &str) -> (Cow<'static, str>, Labels) {
    let pieces: Vec<&str> = group.split('.').collect();
    let (part, labels) = match pieces[..] {
        ["switch", switch, router, nic] => {
            let labels = [("switch", switch), ("router", router), ("nic", nic)];
            ("switch_port", owned(&labels))
        }
        [router, vcpu, "exit"] if is_vcpu(vcpu) => ("vcpu", owned(&[("router", router), ("vcpu", vcpu)])),
        [router, nic, "rx"] if !is_vcpu(nic) => ("nic_rx", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "tx"] if !is_vcpu(nic) => ("nic_tx", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "registers"] if !is_vcpu(nic) => {
            ("nic_register", owned(&[("router", router), ("nic", nic)]))
        }
        [router, nic, "interrupts"] if !is_vcpu(nic) => {
            ("nic_interrupts", owned(&[("router", router), ("nic", nic)]))
        }
        [router, nic, "queue"] if !is_vcpu(nic) => ("ingress", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "limit"] if !is_vcpu(nic) => {
            ("ingress_limit", owned(&[("router", router), ("nic", nic)]))
        }
        [router, nic, "sorted"] if !is_vcpu(nic) => ("sorted", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "punt"] if !is_vcpu(nic) => ("punt", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "shadow"] if !is_vcpu(nic) => ("shadow", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "ra"] if !is_vcpu(nic) => ("ra", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "replay"] if !is_vcpu(nic) => ("replay", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "pcap"] if !is_vcpu(nic) => ("pcap", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "link"] if !is_vcpu(nic) => ("kernel_link", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "peer"] if !is_vcpu(nic) => {
            ("vhost_user_peer", owned(&[("router", router), ("nic", nic)]))
        }
        [router, nic, what, way] if !is_vcpu(nic) => {
            return (outside(what, way).into(), owned(&[("router", router), ("nic", nic)]));
        }
        [router, vcpu] if is_vcpu(vcpu) => ("router", owned(&[("router", router), ("vcpu", vcpu)])),
        [router, vcpu, "balancer"] if is_vcpu(vcpu) => {
            ("balancer_vm", owned(&[("router", router), ("vcpu", vcpu)]))
        }
        [router, vcpu, nic] if is_vcpu(vcpu) => {
            ("guest_nic", owned(&[("router", router), ("vcpu", vcpu), ("nic", nic)]))
        }
        [router, nic, "kernel"] if !is_vcpu(nic) => ("kernel", owned(&[("router", router), ("nic", nic)])),
        [router, vcpu, interface, "vlan"] if is_vcpu(vcpu) => {
            ("vlan", owned(&[("router", router), ("vcpu", vcpu), ("interface", interface)]))
        }
        [router, "ip"] => ("kernel_ip", owned(&[("router", router)])),
        [router, "ip6"] => ("kernel_ip6", owned(&[("router", router)])),
        [router, "fpm"] => ("fpm", owned(&[("router", router)])),
        [router, "control"] => ("control_plane", owned(&[("router", router)])),
        [router, "bfd"] => ("bfd", owned(&[("router", router)])),
        [group, "group"] => ("group", owned(&[("group", group)])),
        [group, nic, "group"] if !is_vcpu(nic) => ("group_nic", owned(&[("group", group), ("nic", nic)])),
        [router, nic, "balancer"] if !is_vcpu(nic) => {
            ("balancer", owned(&[("router", router), ("nic", nic)]))
        }
        [router, "console"] => ("console", owned(&[("router", router)])),
        [router, "guarantee"] => ("guarantee", owned(&[("router", router)])),
        ["control"] => ("control_client", Labels::new()),
        ["telemetry"] => ("telemetry_client", Labels::new()),
        [thread] if thread.contains('/') => ("io_thread", thread_labels(thread)),
        [thread, "sched"] if thread.contains('/') => ("thread_sched", thread_labels(thread)),
        ["host", cpu] => ("host_cpu", owned(&[("cpu", cpu.trim_start_matches("cpu"))])),
        [thread, "work"] if thread.contains('/') => ("thread_work", thread_labels(thread)),
        _ => ("other", owned(&[("group", group)])),
    };
    (part.into(), labels)
}

/// Part for one direction of an attachment: `tap_read`.
fn outside(what: &str, way: &str) -> String {
    let what = if what == "guest" { "vhost_user_guest" } else { what };
    format!("{}_{}", plain(what), plain(way))
}

/// Labels of a thread: `edge/wan-rx` belongs to router `edge`.
pub(crate) fn thread_labels(name: &str) -> Labels {
    match name.split_once('/') {
        Some((router, thread)) => owned(&[("router", router), ("thread", thread)]),
        None => owned(&[("thread", name)]),
    }
}

fn is_vcpu(piece: &str) -> bool {
    piece.strip_prefix("vcpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|octet| octet.is_ascii_digit()))
}

fn owned(labels: &[(&'static str, &str)]) -> Labels {
    labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// Converts a name into Prometheus' character set: letters, digits and `_`.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}
