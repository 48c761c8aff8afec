//! From a counter of the ledger, such as `edge.wan.rx.frames`, to a metric with labels, such as
//! `nic_rx_frames_total{router="edge",nic="wan"}`.

use std::borrow::Cow;

/// What a metric's name begins with.
pub(crate) const NAMESPACE: &str = "ringroad";

/// Labels of a sample: names and values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A counter as a metric.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// What kind of part counts: `nic_rx`; see [`crate::Page::describe`].
    pub(crate) part: Cow<'static, str>,
    /// Name behind the part's: `frames_total`.
    pub(crate) name: String,
    pub(crate) labels: Labels,
    /// How many digits of the counter stand behind the point: what is counted in nanoseconds is shown in seconds.
    pub(crate) decimals: usize,
}

/// Units of time that the ledger counts in, and how many of their digits are parts of a second, which is what Prometheus
/// measures times in.
const TIMES: [(&str, usize); 3] = [("ns", 9), ("us", 6), ("ms", 3)];

/// Where a counter belongs, by its name in the ledger. A name of an unknown shape is shown as it is, in a label.
pub(crate) fn classify(name: &str) -> Sample {
    let (group, field) = name.rsplit_once('.').unwrap_or(("", name));
    let (part, mut labels) = part(group);
    // One metric for all of a kind, so that they can be added up and shown apart.
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

/// The metric of a field that may be a time: `kept_ms` becomes `kept_seconds_total`, with three decimals.
fn in_base_unit(field: &str) -> (String, usize) {
    let time = field.rsplit_once('_').and_then(|(what, unit)| {
        let (_, decimals) = TIMES.iter().find(|(abbreviated, _)| *abbreviated == unit)?;
        Some((format!("{what}_seconds_total"), *decimals))
    });
    time.unwrap_or_else(|| (format!("{field}_total"), 0))
}

/// The part that a group of counters belongs to, and its labels.
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
        [router, nic, "replay"] if !is_vcpu(nic) => ("replay", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "pcap"] if !is_vcpu(nic) => ("pcap", owned(&[("router", router), ("nic", nic)])),
        [router, nic, "peer"] if !is_vcpu(nic) => {
            ("vhost_user_peer", owned(&[("router", router), ("nic", nic)]))
        }
        [router, nic, what, way] if !is_vcpu(nic) => {
            return (outside(what, way).into(), owned(&[("router", router), ("nic", nic)]));
        }
        [router, vcpu] if is_vcpu(vcpu) => ("router", owned(&[("router", router), ("vcpu", vcpu)])),
        [router, vcpu, nic] if is_vcpu(vcpu) => {
            ("guest_nic", owned(&[("router", router), ("vcpu", vcpu), ("nic", nic)]))
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

/// The part for one way of what a NIC is plugged into: `tap_read`.
fn outside(what: &str, way: &str) -> String {
    let what = if what == "guest" { "vhost_user_guest" } else { what };
    format!("{}_{}", plain(what), plain(way))
}

/// The labels of a thread: `edge/wan-rx` is one of router `edge`.
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

/// A name that Prometheus takes: letters, digits and `_`.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}
