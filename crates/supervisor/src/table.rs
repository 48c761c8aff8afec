//! The live table: what every NIC, router and thread did in the last second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;

use api::Counters;
use config::Plan;
use serde_json::{Value, json};

/// What a core's time goes to, in the order in which it is shown.
const COLUMNS: [&str; 8] = ["guest", "vhost", "kernel", "user", "irq", "softirq", "steal", "idle"];
/// Part of an interval that is as good as all of it.
const WHOLE: f64 = 0.99;

/// The routers of a table with the names of their NICs, in order.
pub type Layout = Vec<(String, Vec<String>)>;

/// What happened between two readings.
pub struct Interval {
    seconds: f64,
    /// The longest that a thread may have had: what is of threads is read one after the other.
    longest: f64,
    counters: BTreeMap<String, u64>,
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

/// A rate that a router was promised, and what became of it. Packets a second.
struct Promised {
    promised: f64,
    offered: f64,
    delivered: f64,
    /// Seconds in which it was not kept.
    broken: f64,
}

impl Promised {
    fn line(&self) -> String {
        let Self { promised, offered, delivered, broken } = self;
        let kept = if *broken > 0.0 { format!("not kept for {broken:.1} s") } else { "kept".to_owned() };
        format!("guarantee {promised:.0} pps, {kept}; {delivered:.0} of {offered:.0} pps delivered")
    }

    fn json(&self) -> Value {
        let Self { promised, offered, delivered, broken } = self;
        let pps = |rate: &f64| rate.round() as u64;
        json!({
            "promised_pps": pps(promised),
            "offered_pps": pps(offered),
            "delivered_pps": pps(delivered),
            "kept": *broken == 0.0,
        })
    }
}

impl Interval {
    /// From one reading to a later one. What counts from zero again has been started anew. Of a thread that was not read the
    /// first time nobody knows what it has done before: it has no share yet.
    pub fn between(earlier: &Counters, later: &Counters) -> Self {
        let mut threads = later.cpu_ns.clone();
        threads.retain(|name, _| earlier.cpu_ns.contains_key(name));
        Self::of(earlier, later, &threads)
    }

    /// From the moment at which everything that counts began.
    pub fn since(began_ns: u64, later: &Counters) -> Self {
        let nothing = Counters { at_ns: began_ns, ..Counters::default() };
        Self::of(&nothing, later, &later.cpu_ns)
    }

    fn of(earlier: &Counters, later: &Counters, threads: &BTreeMap<String, u64>) -> Self {
        let seconds = (later.at_ns.saturating_sub(earlier.at_ns) as f64 * 1e-9).max(1e-9);
        let counters = grown(&earlier.counters, &later.counters).collect();
        let (first, last) = (earlier.read_within().0, later.read_within().1);
        let longest = (last.saturating_sub(first) as f64 * 1e-9).max(seconds);
        let threads = grown(&earlier.cpu_ns, threads);
        let threads = threads.map(|(name, spent)| (name, percent(spent, longest))).collect();
        Self { seconds, longest, counters, threads }
    }

    fn get(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or(0)
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
        let moved = self.counters.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (name.as_str(), *n));
        moved.filter(|(name, _)| name.rsplit('.').next().is_some_and(|last| last.starts_with("drop_")))
    }

    /// Exits for each packet that a router forwarded: those to the VMM, kicks and interrupts. A kick that is a register
    /// access of an e1000 is among the exits already, unless the kernel has collected it.
    fn exits_per_packet(&self, router: &str) -> Option<f64> {
        let sum = |wanted: fn(&str) -> bool| -> u64 {
            let prefix = format!("{router}.");
            let own = self.counters.iter().filter(|(name, _)| name.starts_with(&prefix) && wanted(name));
            own.map(|(_, n)| n).sum()
        };
        let packets = sum(|name| name.ends_with(".forwarded"));
        let accesses =
            sum(|name| name.ends_with(".registers.tdt_write") || name.ends_with(".registers.rdt_write"));
        let kicks = sum(|name| name.ends_with(".kicks") && name.contains(".vcpu")).saturating_sub(accesses);
        let exits = sum(|name| name.contains(".exit.") || name.ends_with(".interrupts.raised")) + kicks;
        (packets > 0).then(|| exits as f64 / packets as f64)
    }

    /// What became of a promise; none: there is none, or nobody looked.
    fn promised(&self, router: &str) -> Option<Promised> {
        let get = |what: &str| self.counters.get(&format!("{router}.guarantee.{what}")).map(|n| *n as f64);
        let (kept, broken) = (get("kept_ms")? * 1e-3, get("broken_ms")? * 1e-3);
        // They are counted ten times a second: rates are of the time between two of these moments.
        let rate = |what: &str| get(what).map(|packets| packets / (kept + broken));
        let [promised, offered, delivered] = [rate("promised")?, rate("offered")?, rate("delivered")?];
        (kept + broken > 0.0).then_some(Promised { promised, offered, delivered, broken })
    }

    /// The table, one line for each NIC, router and its threads.
    pub fn table(&self, plan: &Plan) -> String {
        let nics = |router: &config::Router| router.nics.iter().map(|nic| nic.name.clone()).collect();
        self.table_of(&plan.routers.iter().map(|router| (router.name.clone(), nics(router))).collect())
    }

    /// The table of the routers and NICs with these names.
    pub fn table_of(&self, layout: &Layout) -> String {
        let mut text = format!(
            "{:<22} {:>12} {:>12} {:>12} {:>12}\n",
            "NIC", "rx pps", "rx Mbit/s", "tx pps", "tx Mbit/s"
        );
        for (router, nics) in layout {
            for nic in nics {
                let name = format!("{router}.{nic}");
                let rates = self.nic(&name);
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "{name:<22} {:>12.0} {:>12.1} {:>12.0} {:>12.1}",
                    rates.rx_pps, rates.rx_mbits, rates.tx_pps, rates.tx_mbits
                );
            }
            let exits = self.exits_per_packet(router).map_or("-".to_owned(), |n| format!("{n:.5}"));
            let _ = writeln!(text, "{router}: exits/packet {exits}; CPU % {}", self.cpu(router));
            if let Some(promised) = self.promised(router) {
                let _ = writeln!(text, "{router}: {}", promised.line());
            }
            text.push_str(&self.threads_of(router));
        }
        text.push_str(&self.cores());
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

    /// What the threads of a router did beside running, where that is known: a line for each.
    fn threads_of(&self, router: &str) -> String {
        let mut text = String::new();
        for (name, spent) in self.threads.iter().filter(|(name, _)| name.starts_with(&format!("{router}/"))) {
            let known = |what: &str| self.counters.get(&format!("{name}.sched.{what}")).map(|n| *n as f64);
            let (Some(switches), Some(wakeups)) = (known("switches"), known("wakeups")) else { continue };
            let percent = |what: &str| percent(known(what).unwrap_or(0.0) as u64, self.longest);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "  {name}: CPU {spent:.1} %, guest {:.1} %, kernel {:.1} %, waits {:.1} %; {:.0} switches/s, {:.0} wake-ups/s",
                percent("guest_ns"),
                percent("system_ns"),
                percent("wait_ns"),
                switches / self.seconds,
                wakeups / self.seconds
            );
        }
        text
    }

    /// Where the time of each core went, where that is known: a line for each.
    fn cores(&self) -> String {
        let mut cores: BTreeMap<u32, String> = BTreeMap::new();
        let mut intervals: BTreeMap<u32, u64> = BTreeMap::new();
        for (cpu, ns) in COLUMNS.iter().flat_map(|column| self.column(column)) {
            *intervals.entry(cpu).or_default() += ns;
        }
        for column in COLUMNS {
            for (cpu, ns) in self.column(column) {
                // Not of the seconds of the counters, which were read at other moments.
                let part = ns as f64 / intervals[&cpu].max(1) as f64 * 100.0;
                // Writing to a string cannot fail.
                let _ = write!(cores.entry(cpu).or_default(), " {column} {part:.1}");
            }
        }
        let head = self.source().map(|source| format!("CPUs, softirq by {source}:\n"));
        let lines = cores.into_iter().map(|(cpu, text)| format!("CPU {cpu} %:{text}\n"));
        head.into_iter().chain(lines).collect()
    }

    /// One column of the cores: nanoseconds by CPU.
    fn column(&self, column: &str) -> impl Iterator<Item = (u32, u64)> {
        let end = format!(".{column}_ns");
        let cpu = move |name: &str| name.strip_prefix("host.cpu")?.strip_suffix(&end)?.parse().ok();
        self.counters.iter().filter_map(move |(name, ns)| Some((cpu(name)?, *ns)))
    }

    /// What told interrupts apart; none where nothing is known of cores. What was traced for a part of the time only, was not.
    fn source(&self) -> Option<&'static str> {
        let all: u64 = COLUMNS.iter().flat_map(|column| self.column(column)).map(|(_, ns)| ns).sum();
        let traced: u64 = self.column("traced").map(|(_, ns)| ns).sum();
        (all > 0).then_some(if traced as f64 >= all as f64 * WHOLE { "tracer" } else { "ticks" })
    }

    /// One JSON object: seconds, counters that moved, CPU by thread; how promises were kept, where there are any; who told
    /// interrupts apart, where cores are known.
    pub fn json(&self) -> String {
        let counters: BTreeMap<_, _> = self.counters.iter().filter(|(_, n)| **n > 0).collect();
        let threads: BTreeMap<&str, f64> =
            self.threads.iter().map(|(name, share)| (name.as_str(), *share)).collect();
        let mut value = json!({ "seconds": self.seconds, "counters": counters, "cpu_percent": threads });
        let routers = self.counters.keys().filter_map(|name| name.strip_suffix(".guarantee.promised"));
        let promises: serde_json::Map<String, Value> =
            routers.filter_map(|router| Some((router.to_owned(), self.promised(router)?.json()))).collect();
        if let Some(object) = value.as_object_mut().filter(|_| !promises.is_empty()) {
            object.insert("guarantees".to_owned(), Value::Object(promises));
        }
        if let (Some(object), Some(source)) = (value.as_object_mut(), self.source()) {
            object.insert("softirq_by".to_owned(), source.into());
        }
        value.to_string()
    }
}

/// The part of one CPU that was had for this time.
fn percent(ns: u64, seconds: f64) -> f64 {
    ns as f64 / seconds * 1e-7
}

/// How much each value has grown.
fn grown(
    earlier: &BTreeMap<String, u64>,
    later: &BTreeMap<String, u64>,
) -> impl Iterator<Item = (String, u64)> {
    later.iter().map(|(name, value)| {
        let before = earlier.get(name).copied().unwrap_or(0);
        (name.clone(), value.checked_sub(before).unwrap_or(*value))
    })
}

/// Draws tables over each other on a terminal, one after the other elsewhere.
pub struct Screen {
    terminal: bool,
    lines: usize,
}

impl Screen {
    /// For the present stdout.
    pub fn of_stdout() -> Self {
        Self { terminal: std::io::stdout().is_terminal(), lines: 0 }
    }

    /// What to print so that a table takes the place of the one before.
    pub fn draw(&mut self, table: &str) -> String {
        let mut text = String::new();
        if self.terminal && self.lines > 0 {
            // Up to the first line of the last table, and clear from there. Writing to a string cannot fail.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.lines);
        }
        text.push_str(table);
        self.lines = table.lines().count();
        text
    }

    /// Something else was printed: the next table comes below it.
    pub fn leave(&mut self) {
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests;
