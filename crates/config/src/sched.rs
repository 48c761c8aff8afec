//! Scheduling of threads: `sched`, by policy and class of threads. The types are here; `sched/read.rs` parses
//! them.

mod read;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use read::{KEYS, router as read};

/// Names of the policies.
pub(crate) fn policies() -> Vec<&'static str> {
    read::POLICIES.names()
}

use crate::values::{BadValue, Time};

/// Scheduling of a router's threads as a file specifies it; by default, unspecified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sched {
    /// Policy of all vCPU and vhost threads; [`Policy::Shares`] applies to all of them together.
    pub all: Option<Policy>,
    /// Policy of the vCPU threads; only if `all` is `None`.
    pub vcpu: Option<Policy>,
    /// Policy of the vhost threads; only if `all` is `None`.
    pub vhost: Option<Policy>,
}

/// Scheduling policy of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// SCHED_OTHER, without a group of its own, as for every program.
    #[default]
    Other,
    /// SCHED_FIFO: precedes every thread of lower priority, until it sleeps.
    Fifo {
        /// 1 to 99, the highest.
        priority: u32,
    },
    /// SCHED_RR: as SCHED_FIFO, but round-robin among threads of equal priority.
    Rr {
        /// 1 to 99, the highest.
        priority: u32,
    },
    /// SCHED_DEADLINE, the kernel's constant bandwidth server.
    Deadline(Reservation),
    /// SCHED_OTHER in a control group with a weight, and optionally a quota.
    Shares(Shares),
}

/// Reservation: a thread gets `runtime`, and no more, in each `period`, at the latest `deadline` after the
/// period began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// CPU time: Q of a constant bandwidth server.
    pub runtime: Duration,
    /// Deadline: at least `runtime`, at most `period`.
    pub deadline: Duration,
    /// Period: T of a constant bandwidth server.
    pub period: Duration,
    /// True if it may also use time that others have reserved and do not use (GRUB, `SCHED_FLAG_RECLAIM`).
    pub reclaim: bool,
}

impl Reservation {
    /// `runtime / period`: the fraction of a CPU that is reserved.
    pub fn share(&self) -> f64 {
        self.runtime.as_secs_f64() / self.period.as_secs_f64()
    }
}

/// Relative weight, and a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Weight in hundredths of an ordinary thread: 5 to 10,000.
    pub weight: u32,
    /// Quota in thousandths of a CPU, 10 to 64,000; `None`: no limit.
    pub quota: Option<u32>,
}

impl Shares {
    /// Default weight of a group.
    pub const ORDINARY: Self = Self { weight: 100, quota: None };
}

impl Policy {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo { .. } => "fifo",
            Self::Rr { .. } => "rr",
            Self::Deadline(_) => "deadline",
            Self::Shares(_) => "shares",
        }
    }

    /// Keys and values, as a file writes them.
    fn words(self) -> Vec<(&'static str, String)> {
        let mut words = vec![("policy", format!("{:?}", self.name()))];
        match self {
            Self::Other => {}
            Self::Fifo { priority } | Self::Rr { priority } => words.push(("priority", priority.to_string())),
            Self::Deadline(reserved) => {
                let time = |time| format!("\"{}\"", Time(time));
                words.push(("runtime", time(reserved.runtime)));
                if reserved.deadline != reserved.period {
                    words.push(("deadline", time(reserved.deadline)));
                }
                words.push(("period", time(reserved.period)));
                if reserved.reclaim {
                    words.push(("reclaim", "true".to_owned()));
                }
            }
            Self::Shares(shares) => {
                words.push(("weight", (f64::from(shares.weight) / 100.0).to_string()));
                words.extend(shares.quota.map(|quota| ("quota", (f64::from(quota) / 1000.0).to_string())));
            }
        }
        words
    }
}

fn table(words: &[(&'static str, String)]) -> String {
    let words: Vec<String> = words.iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", words.join(", "))
}

impl fmt::Display for Policy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&table(&self.words()))
    }
}

impl fmt::Display for Sched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = [("vcpu", self.vcpu), ("vhost", self.vhost)];
        let classes = classes.into_iter().filter_map(|(key, policy)| Some((key, policy?.to_string())));
        match self.all {
            Some(policy) => policy.fmt(out),
            None => out.write_str(&table(&classes.collect::<Vec<_>>())),
        }
    }
}

impl Sched {
    /// Returns true if nothing is specified.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Policy of the vCPU threads.
    pub fn of_vcpu(&self) -> Policy {
        self.vcpu.or(self.all).unwrap_or_default()
    }

    /// Policy of the vhost threads.
    pub fn of_vhost(&self) -> Policy {
        self.vhost.or(self.all).unwrap_or_default()
    }

    /// Returns a copy with another value for one key: `runtime`, `vhost.priority`. The keys `vcpu`, `vhost`
    /// and the empty one (for all threads) take a whole table.
    ///
    /// # Errors
    /// There is no such key here, or the key does not accept the value.
    pub fn with(&self, key: &str, value: &str) -> Result<Self, BadValue> {
        let (class, key) = match key.split_once('.') {
            Some((class, key)) => (class, key),
            None if matches!(key, "vcpu" | "vhost") => (key, ""),
            None => ("", key),
        };
        let mut changed = match class {
            "" => self.clone(),
            _ => Self { all: None, vcpu: self.vcpu.or(self.all), vhost: self.vhost.or(self.all) },
        };
        let part = match class {
            "" if key.is_empty() => return value.parse(),
            "" if self.all.is_none() && !self.is_empty() => {
                return Err(BadValue(format!(
                    "each class has its own; write sched.vcpu.{key} or sched.vhost.{key}"
                )));
            }
            "" => &mut changed.all,
            "vcpu" => &mut changed.vcpu,
            "vhost" => &mut changed.vhost,
            _ => return Err(BadValue(format!("{class:?} is no class of threads; classes: vcpu, vhost"))),
        };
        *part = Some(replaced(*part, key, value)?);
        Ok(changed)
    }
}

/// Policy with another value for one key.
fn replaced(policy: Option<Policy>, key: &str, value: &str) -> Result<Policy, BadValue> {
    let text = match (key, policy) {
        ("", _) => value.to_owned(),
        ("policy", _) => format!("{{ policy = {value:?} }}"),
        (_, None) => {
            let what =
                "nothing is set yet; write the whole, e.g. 'sched={ policy = \"shares\", weight = 2 }'";
            return Err(BadValue(what.to_owned()));
        }
        (_, Some(policy)) => {
            let quoted = matches!(key, "runtime" | "deadline" | "period");
            let value = if quoted { format!("{value:?}") } else { value.to_owned() };
            let mut words = policy.words();
            let held = words.iter_mut().find(|(held, _)| *held == key);
            let mut text = String::new();
            match held {
                Some(held) => held.1 = value,
                None => text = format!(", {key} = {value} }}"),
            }
            let whole = table(&words);
            if text.is_empty() { whole } else { whole.trim_end_matches(" }").to_owned() + &text }
        }
    };
    let sched: Sched = text.parse()?;
    sched.all.ok_or_else(|| BadValue(format!("{text:?} says more than one class; write one table")))
}

impl FromStr for Sched {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        read::text(text).map_err(BadValue)
    }
}
