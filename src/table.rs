//! The live table: what every NIC, router and thread did in the last second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

use engine::Instance;
use lab::ledger_snapshot::Snapshot;
use ledger::Group;

/// Counters and threads at one moment.
pub(crate) struct Reading {
    at: Instant,
    ledger: Snapshot,
    /// Nanoseconds on a CPU, by thread.
    threads: BTreeMap<String, u64>,
}

impl Reading {
    /// Before anything was counted.
    pub(crate) fn zero(at: Instant) -> Self {
        Self { at, ledger: Snapshot::new(), threads: BTreeMap::new() }
    }

    /// Reads everything without stopping anything.
    pub(crate) fn take(instance: &Instance) -> Self {
        let (mut ledger, mut threads) = (Snapshot::new(), BTreeMap::new());
        instance.each_group(&mut |prefix, group: &dyn Group| ledger.take(prefix, group));
        instance.each_thread(&mut |name, ns| {
            threads.insert(name.to_owned(), ns);
        });
        Self { at: Instant::now(), ledger, threads }
    }

    /// The counters.
    pub(crate) fn ledger(&self) -> &Snapshot {
        &self.ledger
    }
}

/// What happened between two readings.
pub(crate) struct Interval {
    seconds: f64,
    ledger: Snapshot,
    /// Share of one CPU in percent, by thread.
    threads: Vec<(String, f64)>,
}

/// One NIC's rates.
struct NicRates {
    rx_pps: f64,
    rx_mbits: f64,
    tx_pps: f64,
    tx_mbits: f64,
}

impl Interval {
    /// From one reading to a later one.
    pub(crate) fn between(earlier: &Reading, later: &Reading) -> Self {
        let seconds = later.at.duration_since(earlier.at).as_secs_f64().max(1e-9);
        let threads = later.threads.iter().map(|(name, ns)| {
            let spent = ns.saturating_sub(earlier.threads.get(name).copied().unwrap_or(0));
            (name.clone(), spent as f64 / seconds * 1e-7)
        });
        Self { seconds, ledger: later.ledger.since(&earlier.ledger), threads: threads.collect() }
    }

    fn get(&self, name: &str) -> u64 {
        self.ledger.get(name).unwrap_or(0)
    }

    fn nic(&self, name: &str) -> NicRates {
        let rate = |counter: &str| self.get(&format!("{name}.{counter}")) as f64 / self.seconds;
        NicRates {
            rx_pps: rate("rx.frames"),
            rx_mbits: rate("rx.bytes") * 8e-6,
            tx_pps: rate("tx.frames"),
            tx_mbits: rate("tx.bytes") * 8e-6,
        }
    }

    /// Every counter of a drop that moved, by name.
    fn drops(&self) -> impl Iterator<Item = (&str, u64)> {
        self.ledger.iter().filter(|(name, n)| {
            *n > 0 && name.rsplit('.').next().is_some_and(|last| last.starts_with("drop_"))
        })
    }

    /// Exits for each packet that a router forwarded: those to the VMM, kicks and interrupts.
    fn exits_per_packet(&self, router: &str) -> Option<f64> {
        let sum = |wanted: fn(&str) -> bool| -> u64 {
            let prefix = format!("{router}.");
            self.ledger
                .iter()
                .filter(|(name, _)| name.starts_with(&prefix) && wanted(name))
                .map(|(_, n)| n)
                .sum()
        };
        let packets = sum(|name| name.ends_with(".forwarded"));
        let exits = sum(|name| name.contains(".exit.") || name.ends_with(".kicks") && name.contains(".vcpu"))
            + sum(|name| name.ends_with(".interrupts"));
        (packets > 0).then(|| exits as f64 / packets as f64)
    }

    /// The table, one line for each NIC, router and its threads.
    pub(crate) fn table(&self, instance: &Instance) -> String {
        let mut text = format!(
            "{:<22} {:>12} {:>12} {:>12} {:>12}\n",
            "NIC", "rx pps", "rx Mbit/s", "tx pps", "tx Mbit/s"
        );
        for running in instance.routers() {
            let plan = running.router.plan();
            for nic in &plan.nics {
                let name = format!("{}.{}", plan.name, nic.name);
                let rates = self.nic(&name);
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{name:<22} {:>12.0} {:>12.1} {:>12.0} {:>12.1}",
                    rates.rx_pps, rates.rx_mbits, rates.tx_pps, rates.tx_mbits
                );
            }
            let exits = self.exits_per_packet(&plan.name).map_or("-".to_owned(), |n| format!("{n:.5}"));
            let _ = writeln!(text, "{}: exits/packet {exits}; CPU % {}", plan.name, self.cpu(&plan.name));
        }
        let drops: Vec<_> = self.drops().map(|(name, n)| format!("{name} {n}")).collect();
        let _ =
            writeln!(text, "drops: {}", if drops.is_empty() { "none".to_owned() } else { drops.join(", ") });
        text
    }

    fn cpu(&self, router: &str) -> String {
        let prefix = format!("{router}/");
        let own = self.threads.iter().filter(|(name, _)| name.starts_with(&prefix));
        own.map(|(name, percent)| format!("{} {percent:.1}", &name[prefix.len()..]))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// One JSON object: seconds, counters that moved, CPU by thread.
    pub(crate) fn json(&self) -> String {
        let counters: BTreeMap<&str, u64> = self.ledger.iter().filter(|(_, n)| *n > 0).collect();
        let threads: BTreeMap<&str, f64> =
            self.threads.iter().map(|(name, share)| (name.as_str(), *share)).collect();
        serde_json::json!({ "seconds": self.seconds, "counters": counters, "cpu_percent": threads })
            .to_string()
    }
}

/// Prints tables over each other on a terminal, one after the other elsewhere.
pub(crate) struct Screen {
    terminal: bool,
    lines: usize,
}

impl Screen {
    /// For the present stdout.
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::IsTerminal::is_terminal(&std::io::stdout()), lines: 0 }
    }

    /// Shows a table in the place of the one before.
    pub(crate) fn show(&mut self, table: &str) -> anyhow::Result<()> {
        let mut text = String::new();
        if self.terminal && self.lines > 0 {
            // Up to the first line of the last table, and clear from there.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.lines);
        }
        text.push_str(table);
        self.lines = table.lines().count();
        crate::print(&text)
    }
}
