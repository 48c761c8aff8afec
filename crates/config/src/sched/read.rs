//! Parser of `sched`.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Policy, Reservation, Sched, Shares};
use crate::plan::Plan;
use crate::read::{remember, valued};
use crate::section::{Keywords, Section, value};
use crate::values;

const EXAMPLE: &str = "{ policy = \"deadline\", runtime = \"170ms\", period = \"200ms\" }";

/// Names of policies.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Word {
    #[default]
    Other,
    Fifo,
    Rr,
    Deadline,
    Shares,
}

pub(super) const POLICIES: Keywords<Word> = Keywords {
    noun: ("policy", "policies"),
    now: &[
        ("other", Word::Other),
        ("fifo", Word::Fifo),
        ("rr", Word::Rr),
        ("deadline", Word::Deadline),
        ("shares", Word::Shares),
    ],
    later: &[],
};

/// Keys of policies.
pub(crate) const KEYS: [&str; 8] =
    ["policy", "priority", "runtime", "deadline", "period", "reclaim", "weight", "quota"];

impl Word {
    /// Keys that it has beside `policy`.
    const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Other => &[],
            Self::Fifo | Self::Rr => &["priority"],
            Self::Deadline => &["runtime", "deadline", "period", "reclaim"],
            Self::Shares => &["weight", "quota"],
        }
    }

    /// Policy that has this key, in the notation of the file.
    fn owner(key: &str) -> &'static str {
        match key {
            "priority" => "policy = \"fifo\" or \"rr\"",
            "weight" | "quota" => "policy = \"shares\"",
            _ => "policy = \"deadline\"",
        }
    }
}

/// Limits of a reservation's times: the resolution of the kernel's clock, and far more than the kernel
/// accepts by default.
const TIMES: RangeInclusive<Duration> = Duration::from_micros(10)..=Duration::from_secs(10);

/// Parses `sched` of the router with this index.
pub(crate) fn router(section: &Section<'_>, index: usize, plan: &mut Plan) -> Sched {
    remember(plan, (index, None), "sched", section.line_of("sched"));
    sched(section, |key, line| remember(plan, (index, None), key, line))
}

/// Parses a text that consists only of the value.
pub(super) fn text(text: &str) -> Result<Sched, String> {
    value(text, "sched", EXAMPLE, |section| sched(section, |_, _| {}))
}

fn sched(section: &Section<'_>, mut stands: impl FnMut(&'static str, u32)) -> Sched {
    let Some(table) = section.table("sched", EXAMPLE) else { return Sched::default() };
    if !table.has("vcpu") && !table.has("vhost") {
        return Sched { all: policy(&table), ..Sched::default() };
    }
    table.expect_keys(&["vcpu", "vhost"], &[]);
    stands("sched.vcpu", table.line_of("vcpu"));
    stands("sched.vhost", table.line_of("vhost"));
    let class = |key| table.table(key, EXAMPLE).and_then(|class| policy(&class));
    Sched { all: None, vcpu: class("vcpu"), vhost: class("vhost") }
}

fn policy(table: &Section<'_>) -> Option<Policy> {
    table.expect_keys(&KEYS, &[]);
    if !table.has("policy") {
        table.missing("policy", "\"deadline\"");
        return None;
    }
    let word = valued(table, "policy", "\"deadline\"", |text| POLICIES.find(text))?;
    for key in KEYS.into_iter().skip(1).filter(|key| table.has(key) && !word.keys().contains(key)) {
        let what = format!("only {} has it; remove it", Word::owner(key));
        table.fault(table.line_of(key), key, what);
    }
    match word {
        Word::Other => Some(Policy::Other),
        Word::Fifo => Some(Policy::Fifo { priority: priority(table)? }),
        Word::Rr => Some(Policy::Rr { priority: priority(table)? }),
        Word::Deadline => reservation(table).map(Policy::Deadline),
        Word::Shares => Some(Policy::Shares(shares(table))),
    }
}

fn priority(table: &Section<'_>) -> Option<u32> {
    if !table.has("priority") {
        table.missing("priority", "50");
        return None;
    }
    Some(table.number("priority", 1..=99, 1))
}

fn reservation(table: &Section<'_>) -> Option<Reservation> {
    let time = |key| valued(table, key, "\"200ms\"", |text| values::time_within(text, &TIMES));
    for key in ["runtime", "period"].into_iter().filter(|key| !table.has(key)) {
        table.missing(key, if key == "runtime" { "\"170ms\"" } else { "\"200ms\"" });
    }
    let (runtime, period) = (time("runtime"), time("period"));
    let deadline = if table.has("deadline") { time("deadline") } else { period };
    let reclaim = table.flag("reclaim", false);
    let (runtime, deadline, period) = (runtime?, deadline?, period?);
    for (key, less, name, more) in
        [("runtime", runtime, "deadline", deadline), ("deadline", deadline, "period", period)]
    {
        if less > more {
            let name = if table.has(name) { name } else { "period" };
            let what = format!(
                "{} is more than {name} = \"{}\"; runtime <= deadline <= period",
                values::Time(less),
                values::Time(more)
            );
            table.fault(table.line_of(key), key, what);
        }
    }
    Some(Reservation { runtime, deadline, period, reclaim })
}

fn shares(table: &Section<'_>) -> Shares {
    Shares {
        weight: table.decimal("weight", 5..=10_000, 2).unwrap_or(Shares::ORDINARY.weight),
        quota: table.decimal("quota", 10..=64_000, 3),
    }
}
