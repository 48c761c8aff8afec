//! Live table: activity of every NIC, router and thread in the last second.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;

use api::{Counters, RouterStatus};
use config::Plan;
use serde_json::{Value, json};

/// Categories of a core's time, in the order in which they are shown.
const COLUMNS: [&str; 8] = ["guest", "vhost", "kernel", "user", "irq", "softirq", "steal", "idle"];
/// Fraction of an interval that counts as all of it.
const WHOLE: f64 = 0.99;

/// Routers of a table with the names of their NICs, in order.
pub type Layout = Vec<(String, Vec<String>)>;

/// States of the members of groups, each in one line, by their names: `serving, 4 of 8 queues`.
pub type MemberStates = BTreeMap<String, String>;

/// Collects the states of members from the status of all routers.
pub fn member_states(routers: &[RouterStatus]) -> MemberStates {
    routers.iter().filter_map(|router| Some((router.name.clone(), router.member.clone()?))).collect()
}

/// Changes between two readings of the counters.
pub struct Interval {
    seconds: f64,
    /// Longest time that a thread may have run in it, in seconds: threads are read one after the other.
    longest: f64,
    counters: BTreeMap<String, u64>,
    /// Share of one CPU in percent, by thread.
    threads: Vec<(String, f64)>,
}

/// Rates of one NIC.
struct NicRates {
    rx_pps: f64,
    rx_mbits: f64,
    tx_pps: f64,
    tx_mbits: f64,
}

/// A router's promised rate and what became of it, in packets/s.
struct Promised {
    promised: f64,
    offered: f64,
    delivered: f64,
    /// Seconds in which the promise was broken.
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
    /// Difference between two readings. A counter that decreased was restarted from zero. A thread missing in
    /// the first reading gets no share yet, since its earlier CPU time is unknown.
    pub fn between(earlier: &Counters, later: &Counters) -> Self {
        let mut threads = later.cpu_ns.clone();
        threads.retain(|name, _| earlier.cpu_ns.contains_key(name));
        Self::of(earlier, later, &threads)
    }

    /// Difference to the moment at which all counters were zero.
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

    /// Drop counters that moved, by name.
    fn drops(&self) -> impl Iterator<Item = (&str, u64)> {
        let moved = self.counters.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (name.as_str(), *n));
        moved.filter(|(name, _)| name.rsplit('.').next().is_some_and(|last| last.starts_with("drop_")))
    }

    /// Exits for each packet that a router forwarded: exits to the VMM, kicks and interrupts. A kick by a
    /// register access of an e1000 is among the exits already, unless KVM has coalesced it.
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

    /// Frames a second that have left a member of a group, without probes.
    fn passed(&self, member: &str) -> f64 {
        let own = self.counters.iter().filter(|(name, _)| {
            name.strip_prefix(member)
                .is_some_and(|own| own.starts_with('.') && own.ends_with(".group.passed"))
        });
        own.map(|(_, frames)| *frames).sum::<u64>() as f64 / self.seconds
    }

    /// State of a promise; `None` if there is none, or if it was not evaluated in the interval.
    fn promised(&self, router: &str) -> Option<Promised> {
        let get = |what: &str| self.counters.get(&format!("{router}.guarantee.{what}")).map(|n| *n as f64);
        let (kept, broken) = (get("kept_ms")? * 1e-3, get("broken_ms")? * 1e-3);
        // They are updated ten times a second: rates refer to the time between two updates.
        let rate = |what: &str| get(what).map(|packets| packets / (kept + broken));
        let [promised, offered, delivered] = [rate("promised")?, rate("offered")?, rate("delivered")?];
        (kept + broken > 0.0).then_some(Promised { promised, offered, delivered, broken })
    }

    /// Table with one line for each NIC, router and its threads, and for each member of a group.
    pub fn table(&self, plan: &Plan, states: &MemberStates) -> String {
        let nics = |router: &config::Router| router.nics.iter().map(|nic| nic.name.clone()).collect();
        let here = plan.routers.iter().map(|router| (router.name.clone(), nics(router)));
        // Members on other hosts are no routers of the plan.
        let remote = states.keys().filter(|name| plan.is_remote(name)).map(|name| (name.clone(), Vec::new()));
        self.table_of(&here.chain(remote).collect(), states)
    }

    /// Table of the routers and NICs with these names, and of the members in these states.
    pub fn table_of(&self, layout: &Layout, states: &MemberStates) -> String {
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
            if let Some(state) = states.get(router) {
                let _ = writeln!(text, "{router}: {state}; {:.0} pps passed", self.passed(router));
            }
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

    /// A line for each thread of a router: scheduling statistics, where they are known.
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

    /// A line for each core: where its time went, where that is known.
    fn cores(&self) -> String {
        let mut cores: BTreeMap<u32, String> = BTreeMap::new();
        let mut intervals: BTreeMap<u32, u64> = BTreeMap::new();
        for (cpu, ns) in COLUMNS.iter().flat_map(|column| self.column(column)) {
            *intervals.entry(cpu).or_default() += ns;
        }
        for column in COLUMNS {
            for (cpu, ns) in self.column(column) {
                // Relative to the core's own total: the counters' interval was read at other moments.
                let part = ns as f64 / intervals[&cpu].max(1) as f64 * 100.0;
                // Writing to a string cannot fail.
                let _ = write!(cores.entry(cpu).or_default(), " {column} {part:.1}");
            }
        }
        let head = self.source().map(|source| format!("CPUs, softirq by {source}:\n"));
        let lines = cores.into_iter().map(|(cpu, text)| format!("CPU {cpu} %:{text}\n"));
        head.into_iter().chain(lines).collect()
    }

    /// One category of the cores' time: nanoseconds by CPU.
    fn column(&self, column: &str) -> impl Iterator<Item = (u32, u64)> {
        let end = format!(".{column}_ns");
        let cpu = move |name: &str| name.strip_prefix("host.cpu")?.strip_suffix(&end)?.parse().ok();
        self.counters.iter().filter_map(move |(name, ns)| Some((cpu(name)?, *ns)))
    }

    /// Source of the split into interrupts; `None` if nothing is known of cores. A partly traced interval
    /// counts as not traced.
    fn source(&self) -> Option<&'static str> {
        let all: u64 = COLUMNS.iter().flat_map(|column| self.column(column)).map(|(_, ns)| ns).sum();
        let traced: u64 = self.column("traced").map(|(_, ns)| ns).sum();
        (all > 0).then_some(if traced as f64 >= all as f64 * WHOLE { "tracer" } else { "ticks" })
    }

    /// One JSON object: seconds, counters that moved, CPU by thread; how promises were kept, if there are
    /// any; the source of the split into interrupts, if cores are known.
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

/// Percentage of one CPU.
fn percent(ns: u64, seconds: f64) -> f64 {
    ns as f64 / seconds * 1e-7
}

/// Increase of each value.
fn grown(
    earlier: &BTreeMap<String, u64>,
    later: &BTreeMap<String, u64>,
) -> impl Iterator<Item = (String, u64)> {
    later.iter().map(|(name, value)| {
        let before = earlier.get(name).copied().unwrap_or(0);
        (name.clone(), value.checked_sub(before).unwrap_or(*value))
    })
}

/// Draws tables over each other on a terminal, and one below the other elsewhere.
pub struct Screen {
    terminal: bool,
    lines: usize,
}

impl Screen {
    /// Creates a screen on the present standard output.
    pub fn of_stdout() -> Self {
        Self { terminal: std::io::stdout().is_terminal(), lines: 0 }
    }

    /// Text to print so that a table replaces the previous one.
    pub fn draw(&mut self, table: &str) -> String {
        let mut text = String::new();
        if self.terminal && self.lines > 0 {
            // Moves the cursor to the first line of the last table, and clears from there. Writing to a
            // string cannot fail.
            let _ = write!(text, "\x1b[{}A\x1b[J", self.lines);
        }
        text.push_str(table);
        self.lines = table.lines().count();
        text
    }

    /// Notes that something else was printed: the next table is drawn below it.
    pub fn leave(&mut self) {
        self.lines = 0;
    }
}

#[cfg(test)]
mod tests;
