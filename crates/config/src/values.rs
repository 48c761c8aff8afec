//! Values with a special form: names, sizes, times, words.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Component, Path};
use std::str::FromStr;
use std::time::Duration;

use crate::plan::{Listen, Restart, Spin};
use crate::read::RESTARTS;

const MIB: u64 = 1 << 20;
/// Guest memory consists of 2 MiB pages.
const PAGE: u64 = 2 * MIB;
/// Least memory of a router: firmware and tables take 8 MiB, the rest is for rings and buffers.
const LEAST_MEMORY: u64 = 16 * MIB;
pub(crate) const MOST_MEMORY: u64 = 1024 * MIB;

/// Default memory of a router, if it does not need more: 8 MiB for the firmware, 24 MiB for rings and buffers.
pub(crate) const DEFAULT_MEMORY: u64 = 32 * MIB;

/// Validates the name of a switch, VLAN or VRF, and what is common to all names but that of a run.
pub(crate) fn name(text: &str) -> Result<(), String> {
    plain_name(text, 14)
}

/// Validates the name of a router or a group. The names of its counters begin with it.
pub(crate) fn router_name(text: &str) -> Result<(), String> {
    name(text)?;
    if text == "switch" {
        return Err(format!("the counters of switches begin with {text:?}; choose another"));
    }
    Ok(())
}

/// Validates the name of a NIC, which has the second or third place in the names of counters: `edge.wan.rx`,
/// `edge.vcpu0.wan`.
pub(crate) fn nic_name(text: &str) -> Result<(), String> {
    name(text)?;
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|octet| octet.is_ascii_digit());
    if text.strip_prefix("vcpu").is_some_and(is_number) || ["balancer", "exit"].contains(&text) {
        return Err(format!("{text:?} has a meaning in the names of counters; choose another"));
    }
    Ok(())
}

/// Validates the name of a run, which may be a little longer because file names are.
pub(crate) fn run_name(text: &str) -> Result<(), String> {
    plain_name(text, 31)
}

fn plain_name(text: &str, most: usize) -> Result<(), String> {
    let plain = |octet: u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || octet == b'-';
    if (1..=most).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('-') {
        return Ok(());
    }
    Err(format!("{text:?} is not a name; use 1 to {most} of a-z, 0-9 and -, a letter or digit first"))
}

/// Parses the memory of a router with our firmware: `32M`, `1G`.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    memory_within(text, &(LEAST_MEMORY..=MOST_MEMORY))
}

/// Parses an amount of memory: `64M`, `3G`.
pub(crate) fn memory_within(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write e.g. \"32M\" or \"1G\"");
    let (digits, unit) = split_number(text);
    let unit = match unit {
        "M" => MIB,
        "G" => 1024 * MIB,
        _ => return Err(wrong()),
    };
    let octets = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)?;
    let (least, most) = (range.start() / MIB, range.end() / MIB);
    if !range.contains(&octets) {
        return Err(format!("{text:?} is out of range; write \"{least}M\" to \"{}G\"", most / 1024));
    }
    if octets % PAGE != 0 {
        let below = octets / PAGE * 2;
        return Err(format!(
            "{text:?} is not a multiple of 2M; write \"{below}M\" or \"{}M\"",
            (below + 2).min(most)
        ));
    }
    Ok(octets)
}

/// Parses a polling budget: `50us`, or `always`.
pub(crate) fn spin(text: &str) -> Result<Spin, String> {
    if text == "always" {
        return Ok(Spin::Always);
    }
    let wrong = || format!("{text:?} is not a time; write e.g. \"50us\", or \"always\" to never sleep");
    match time(text).ok_or_else(wrong)? {
        Some(time) if time <= Duration::from_secs(1) => Ok(Spin::For(time)),
        _ => Err(format!("{text:?} is out of range; write \"0us\" to \"1s\", or \"always\" to never sleep")),
    }
}

/// Parses a time within a range: `170ms`.
pub(crate) fn time_within(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write e.g. \"90us\", \"170ms\" or \"1s\"");
    match time(text).ok_or_else(wrong)? {
        Some(time) if range.contains(&time) => Ok(time),
        _ => {
            let (first, last) = (Time(*range.start()), Time(*range.end()));
            Err(format!("{text:?} is out of range; write \"{first}\" to \"{last}\""))
        }
    }
}

/// Parses a time; the inner `None`: it overflows; the outer: it is malformed.
fn time(text: &str) -> Option<Option<Duration>> {
    let (digits, unit) = split_number(text);
    let nanoseconds: u64 = match unit {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let number: u64 = digits.parse().ok()?;
    Some(number.checked_mul(nanoseconds).map(Duration::from_nanos))
}

/// A time of whole microseconds, displayed as files write it.
pub(crate) struct Time(pub(crate) Duration);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_micros() {
            us if us % 1_000_000 == 0 => write!(out, "{}s", us / 1_000_000),
            us if us % 1_000 == 0 => write!(out, "{}ms", us / 1_000),
            us => write!(out, "{us}us"),
        }
    }
}

/// Error: a key does not accept the value. One sentence, with what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadValue(pub(crate) String);

impl FromStr for Spin {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        spin(text).map_err(BadValue)
    }
}

impl FromStr for Restart {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        RESTARTS.find(text).map_err(BadValue)
    }
}

/// Longest path of a socket: `sun_path` of the kernel, less the terminating zero.
const MOST_SOCKET_PATH: usize = 107;

/// Parses an address to listen on: `127.0.0.1:9477`, `unix:/run/x.sock`.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    let example = "write e.g. \"127.0.0.1:9477\" or \"unix:/run/ringroad-metrics.sock\"";
    if let Some(path) = text.strip_prefix("unix:") {
        let plain = !path.contains(char::is_control) && path.len() <= MOST_SOCKET_PATH;
        let file = Path::new(path);
        let normal = file.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
        return if plain && normal && path.len() > 1 && file.is_absolute() && !path.ends_with('/') {
            Ok(Listen::Unix(file.to_owned()))
        } else {
            Err(format!("{text:?} names no socket by an absolute path of at most 107 octets; {example}"))
        };
    }
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err(format!("{text:?}: nobody would find port 0; {example}")),
        // An IPv4 address may be written as an IPv6 one.
        Ok(address) if address.ip().to_canonical().is_loopback() => Ok(Listen::Tcp(address)),
        Ok(_) => Err(format!(
            "{text:?} is no loopback address; {example}, and let a proxy with access control face the network"
        )),
        Err(_) => Err(format!("{text:?} is no address with a port; {example}")),
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}
