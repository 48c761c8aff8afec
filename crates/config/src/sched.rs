//! CPU time of threads: `sched`, by policy and for each class of threads. Its values here; `sched/read.rs` reads them.

mod read;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use read::{KEYS, router as read};

/// The words for policies.
pub(crate) fn policies() -> Vec<&'static str> {
    read::POLICIES.names()
}

use crate::values::{BadValue, Time};

/// What a file says about the scheduling of a router's threads; the default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sched {
    /// For every vCPU and vhost thread; with [`Policy::Shares`] for all of them together.
    pub all: Option<Policy>,
    /// For the vCPU threads; there only where `all` is not.
    pub vcpu: Option<Policy>,
    /// For the vhost threads; there only where `all` is not.
    pub vhost: Option<Policy>,
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// As it schedules every program: SCHED_OTHER, without a group of its own.
    #[default]
    Other,
    /// SCHED_FIFO: before every thread of lower priority, until it sleeps.
    Fifo {
        /// 1 to 99, the highest.
        priority: u32,
    },
    /// SCHED_RR: the same, in turn with those of equal priority.
    Rr {
        /// 1 to 99, the highest.
        priority: u32,
    },
    /// SCHED_DEADLINE, the kernel's constant bandwidth server.
    Deadline(Reservation),
    /// SCHED_OTHER in a control group with a weight, and with an upper limit if there is one.
    Shares(Shares),
}

/// A thread gets `runtime` in each `period`, and no more, at the latest `deadline` after the period began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Time on a CPU, the Q of a constant bandwidth server.
    pub runtime: Duration,
    /// At least `runtime`, at most `period`.
    pub deadline: Duration,
    /// The T of a constant bandwidth server.
    pub period: Duration,
    /// Whether it may also have what others have reserved and do not use (GRUB, `SCHED_FLAG_RECLAIM`).
    pub reclaim: bool,
}

impl Reservation {
    /// `runtime / period`: the part of one CPU that is reserved.
    pub fn share(&self) -> f64 {
        self.runtime.as_secs_f64() / self.period.as_secs_f64()
    }
}

/// Part of the time in relation to others, and a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shares {
    /// Hundredths of what an ordinary thread counts: 5 to 10,000.
    pub weight: u32,
    /// Thousandths of a CPU that it gets at most, 10 to 64,000; none: no limit.
    pub quota: Option<u32>,
}

impl Shares {
    /// What every group has that nothing is said for.
    pub const ORDINARY: Self = Self { weight: 100, quota: None };
}

impl Policy {
    /// Its word in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo { .. } => "fifo",
            Self::Rr { .. } => "rr",
            Self::Deadline(_) => "deadline",
            Self::Shares(_) => "shares",
        }
    }

    /// Its keys with their values, as a file writes them.
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
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The policy of its vCPU threads.
    pub fn of_vcpu(&self) -> Policy {
        self.vcpu.or(self.all).unwrap_or_default()
    }

    /// The policy of its vhost threads.
    pub fn of_vhost(&self) -> Policy {
        self.vhost.or(self.all).unwrap_or_default()
    }

    /// A copy with another value for one key: `runtime`, `vhost.priority`. The keys `vcpu`, `vhost` and, for everything, the
    /// empty one take a whole table.
    ///
    /// # Errors
    /// There is no such key here, or the value is not what it takes.
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

/// A policy with another value for one key.
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
