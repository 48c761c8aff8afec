//! Packet rates: promised and maximum rates of a router.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::plan::{Router, VhostThreads};
use crate::read::{valued, valued_or};
use crate::section::{Section, value};
use crate::values::BadValue;

/// Least octets of an Ethernet frame without FCS.
const LEAST_FRAME: u32 = 60;
/// Octets of the largest frame of our NICs, without FCS.
const MOST_FRAME: u32 = bootinfo::buffers::MOST_MTU + 14;
/// Upper limit of rates, in frames/s.
const MOST: u64 = 1_000_000_000;

/// Rate in frames/s: 1 to 10⁹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rate(u64);

impl Rate {
    /// Rate of so many frames per second; `None` if out of range.
    pub const fn from_pps(pps: u64) -> Option<Self> {
        if pps == 0 || pps > MOST { None } else { Some(Self(pps)) }
    }

    /// Frames per second.
    pub const fn pps(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            pps if pps % 1_000_000 == 0 => write!(out, "{}Mpps", pps / 1_000_000),
            pps if pps % 1_000 == 0 => write!(out, "{}kpps", pps / 1_000),
            pps => write!(out, "{pps}pps"),
        }
    }
}

impl FromStr for Rate {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let wrong = || BadValue(format!("{text:?} is no rate; write e.g. \"400kpps\" or \"1.2Mpps\""));
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let digits: usize = match unit {
            "pps" => 0,
            "kpps" => 3,
            "Mpps" => 6,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || fraction.len() > digits || number.ends_with('.') {
            return Err(wrong());
        }
        let pps = format!("{whole}{fraction:0<digits$}").parse::<u64>().ok();
        let range = "write \"1pps\" to \"1000Mpps\"";
        pps.and_then(Self::from_pps).ok_or_else(|| match number.bytes().filter(|b| *b == b'.').count() {
            0 | 1 => BadValue(format!("{text:?} is out of range; {range}")),
            _ => wrong(),
        })
    }
}

/// Rate promised to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarantee {
    /// Rate that it forwards as long as that much is offered.
    pub rate: Rate,
    /// Octets of each frame, without FCS.
    pub frame: u32,
}

impl Guarantee {
    /// Promise of this rate for the smallest frames.
    pub const fn of(rate: Rate) -> Self {
        Self { rate, frame: LEAST_FRAME }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} octets", self.rate, self.frame)
    }
}

/// Parses `limit`.
pub(crate) fn limit(section: &Section<'_>) -> Option<Rate> {
    valued_or(section, "limit", ("\"200kpps\"", "none"), rate)
}

/// Parses a rate.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    text.parse().map_err(|BadValue(what)| what)
}

/// Parses a guarantee from a text that consists only of the key's value.
pub(crate) fn guarantee_of(text: &str) -> Result<Guarantee, String> {
    let read = value(text, "guarantee", "{ rate = \"400kpps\", frame = 60 }", guarantee)?;
    read.ok_or_else(|| "missing".to_owned())
}

/// Parses `guarantee`: a rate, or a table with the size of the frames.
pub(crate) fn guarantee(section: &Section<'_>) -> Option<Guarantee> {
    if !section.is_table("guarantee") {
        let rate = valued_or(section, "guarantee", ("\"400kpps\"", "none"), rate)?;
        return Some(Guarantee::of(rate));
    }
    let table = section.table("guarantee", "{ rate = \"400kpps\", frame = 60 }")?;
    table.expect_keys(&["rate", "frame"], &[]);
    table.required_text("rate", "\"400kpps\"")?;
    let range: RangeInclusive<u32> = LEAST_FRAME..=MOST_FRAME;
    Some(Guarantee {
        rate: valued(&table, "rate", "\"400kpps\"", rate)?,
        frame: table.number("frame", range, LEAST_FRAME),
    })
}

/// Checks a promise: what it delivers must be counted. Checks a limit: it must not be below the promised rate, and our threads must
/// admit the frames.
pub(crate) fn verify(index: usize, router: &Router, faults: &mut Vec<Fault>) {
    if router.guarantee.is_some() && router.linux.is_some() {
        let what = "a Linux guest does not report what it forwards, so no rate can be guaranteed; remove it, or write another engine";
        faults.push(Fault::new(index, "guarantee", what));
    }
    let Some(limit) = router.limit else { return };
    let mut refuse = |what: &str| faults.push(Fault::new(index, "limit", what));
    if let Some(promised) = router.guarantee.filter(|promised| limit < promised.rate) {
        refuse(&format!("{limit} is less than guarantee = \"{}\"; write at least that much", promised.rate));
    }
    if router.vhost == VhostThreads::Kernel {
        refuse(
            "with vhost = \"kernel\" the kernel lets frames in, and nobody counts them; write another vhost",
        );
    } else if router.nics.iter().any(|nic| nic.attach.traits().is_handed) {
        refuse(
            "the peer of a vhost-user-frontend lets frames in, and nobody counts them; remove one of the two",
        );
    }
}
