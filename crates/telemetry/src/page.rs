//! Counters and gauges in the Prometheus text format, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use ledger::{
    BalancerTally, Group, NicDirection, NicInterrupts, PortCounters, RouterCounters, RouterNic, VlanCounters,
    WorkCounters,
};

use crate::ResponderCounters;
use crate::family::{self, Labels, NAMESPACE, Sample, classify};

/// A metric outside the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name, without `ringroad_`; that of a counter ends in `_total`.
    pub name: &'static str,
    /// Help text of one sentence.
    pub help: &'static str,
    /// True if it is a counter, which only grows, except for restarts.
    pub counter: bool,
}

/// Response to a scrape, assembled sample by sample.
#[derive(Debug)]
pub struct Page {
    /// Help texts of fields, by part and field.
    texts: BTreeMap<(&'static str, &'static str), &'static str>,
    families: BTreeMap<String, Family>,
}

#[derive(Debug)]
struct Family {
    help: String,
    counter: bool,
    /// Values by their formatted labels: duplicate labels would invalidate the whole page.
    samples: BTreeMap<String, String>,
}

impl Default for Page {
    fn default() -> Self {
        Self::new()
    }
}

impl Page {
    /// Creates an empty page with the help texts of the counters of crate `ledger`.
    pub fn new() -> Self {
        let mut page = Self { texts: BTreeMap::new(), families: BTreeMap::new() };
        page.describe("nic_rx", NicDirection::FIELDS);
        page.describe("nic_tx", NicDirection::FIELDS);
        page.describe("vhost_user_guest_rx", NicDirection::FIELDS);
        page.describe("vhost_user_guest_tx", NicDirection::FIELDS);
        page.describe("nic_interrupts", NicInterrupts::FIELDS);
        page.describe("switch_port", PortCounters::FIELDS);
        page.describe("router", RouterCounters::FIELDS);
        page.describe("thread_work", WorkCounters::FIELDS);
        page.describe("guest_nic", RouterNic::FIELDS);
        page.describe("balancer_vm", BalancerTally::FIELDS);
        page.describe("vlan", VlanCounters::FIELDS);
        page.describe("telemetry_client", ResponderCounters::FIELDS);
        page
    }

    /// Says what the counters of a part mean; `fields` is the `FIELDS` of its group. Parts are `nic_rx`, `nic_tx`,
    /// `nic_interrupts`, `switch_port`, `router`, `guest_nic`, `vlan`, `tap_kernel`, `vhost_user_guest_rx`, `vhost_user_guest_tx`, what kinds of
    /// attachments name (`tap_read`, `vhost_user_peer`), `ingress_limit`,
    /// `io_thread`, `thread_work`, `thread_sched`, `host_cpu`, `guarantee`, `group`, `group_nic`, `balancer`, `control_client` and `telemetry_client`.
    pub fn describe(&mut self, part: &'static str, fields: &'static [(&'static str, &'static str)]) {
        self.texts.extend(fields.iter().map(|(field, text)| ((part, *field), text.trim())));
    }

    /// Adds a ledger counter by its full name: `edge.wan.rx.frames`.
    pub fn ledger(&mut self, name: &str, value: u64) {
        let Sample { part, name: metric, labels, decimals } = classify(name);
        let field = name.rsplit('.').next().unwrap_or(name);
        let help = || match (self.texts.get(&(&*part, field)), metric.as_str()) {
            (_, "drops_total") => "Frames or packets lost here, by reason.".to_owned(),
            (_, "exits_total") => "Times a vCPU left guest mode for the host, by reason.".to_owned(),
            (_, "accesses_total") => "Accesses to an e1000's registers, by register and kind.".to_owned(),
            (Some(text), _) => (*text).to_owned(),
            (None, _) => format!("The counter {field} of this part."),
        };
        let full = format!("{NAMESPACE}_{part}_{metric}");
        let family = match self.families.get_mut(&full) {
            Some(family) => family,
            None => {
                let family = Family { help: help(), counter: true, samples: BTreeMap::new() };
                self.families.entry(full).or_insert(family)
            }
        };
        family.samples.entry(printed(&labels)).or_insert_with(|| decimal(value, decimals));
    }

    /// Adds a group of counters; `prefix` is the common prefix of their names: `edge.wan.rx`.
    pub fn group(&mut self, prefix: &str, group: &dyn Group) {
        group.each(&mut |field, value| self.ledger(&format!("{prefix}.{field}"), value));
    }

    /// Adds the CPU time of a thread: `edge/vcpu0`.
    pub fn thread(&mut self, name: &str, nanoseconds: u64) {
        const METRIC: Metric = Metric {
            name: "thread_cpu_seconds_total",
            help: "Time that a thread has spent on a CPU.",
            counter: true,
        };
        self.put(METRIC, &family::thread_labels(name), decimal(nanoseconds, 9));
    }

    /// Adds a sample of a metric outside the ledger.
    pub fn add(&mut self, metric: Metric, labels: &[(&'static str, &str)], value: f64) {
        let labels: Labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.put(metric, &labels, number(value));
    }

    fn put(&mut self, metric: Metric, labels: &Labels, value: String) {
        let family = self.families.entry(format!("{NAMESPACE}_{}", metric.name)).or_insert_with(|| Family {
            help: metric.help.to_owned(),
            counter: metric.counter,
            samples: BTreeMap::new(),
        });
        family.samples.entry(printed(labels)).or_insert(value);
    }
}

impl fmt::Display for Page {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Family { help, counter, samples }) in &self.families {
            let kind = if *counter { "counter" } else { "gauge" };
            writeln!(out, "# HELP {name} {}", escaped(help, false))?;
            writeln!(out, "# TYPE {name} {kind}")?;
            for (labels, value) in samples {
                writeln!(out, "{name}{labels} {value}")?;
            }
        }
        Ok(())
    }
}

/// Formats an integer with its last digits after the decimal point, exactly: a float would round the sums of
/// a year.
fn decimal(value: u64, decimals: usize) -> String {
    if decimals == 0 {
        return value.to_string();
    }
    let digits = format!("{value:0>width$}", width = decimals + 1);
    let (whole, part) = digits.split_at(digits.len() - decimals);
    format!("{whole}.{part}")
}

/// Formats a number as the text format requires.
fn number(value: f64) -> String {
    if value.is_infinite() { if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned() } else { value.to_string() }
}

/// Formats labels: `{router="edge",nic="wan"}`; empty without labels.
fn printed(labels: &Labels) -> String {
    let mut text = String::new();
    for (name, value) in labels {
        let before = if text.is_empty() { '{' } else { ',' };
        // Writing to a string cannot fail.
        let _ = write!(text, "{before}{name}=\"{}\"", escaped(value, true));
    }
    if !text.is_empty() {
        text.push('}');
    }
    text
}

/// Escapes backslash and line feed, and within quotes also the quote, as the format requires.
fn escaped(text: &str, quoted: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '\n' => safe.push_str("\\n"),
            '"' if quoted => safe.push_str("\\\""),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
