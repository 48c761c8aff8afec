//! Dissection of captured frames with tshark: a parser that shares no code with ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::running::run;

/// Timeout for reading even a large capture.
const LIMIT: Duration = Duration::from_secs(120);
/// tshark preferences: check every checksum; treat each frame by itself.
const PREFERENCES: [&str; 5] = [
    "ip.check_checksum:TRUE",
    "udp.check_checksum:TRUE",
    "tcp.check_checksum:TRUE",
    "tcp.desegment_tcp_streams:FALSE",
    "ip.defragment:FALSE",
];

/// Fields that [`Dissected::is_right`] checks.
pub const CHECKSUMS: [&str; 8] = [
    "ip.checksum",
    "ip.checksum.status",
    "icmp.checksum",
    "icmp.checksum.status",
    "tcp.checksum",
    "tcp.checksum.status",
    "udp.checksum",
    "udp.checksum.status",
];

/// One frame: the requested fields, by tshark's names for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dissected {
    fields: BTreeMap<String, String>,
}

impl Dissected {
    /// Returns a field of the outermost header that has it: `ip.ttl` of an ICMP error is that of the error itself.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.each(field).next()
    }

    /// Returns a field of all headers that have it, from the outermost inwards.
    pub fn each(&self, field: &str) -> impl Iterator<Item = &str> {
        self.fields.get(field).into_iter().flat_map(|text| text.split(',')).filter(|text| !text.is_empty())
    }

    /// Returns true if no checksum is wrong. tshark calls 0xffff wrong where it expects 0 (RFC 1624); both are zero in
    /// ones' complement, and Linux writes 0xffff for every protocol (`CSUM_MANGLED_0`).
    pub fn is_right(&self) -> bool {
        ["ip", "icmp", "tcp", "udp"].iter().all(|protocol| {
            self.get(&format!("{protocol}.checksum.status")) != Some("0")
                || self.number(&format!("{protocol}.checksum")) == Some(0xffff)
        })
    }

    /// Returns a field as a number, written `63` or `0x003f`; `True` and `False` are 1 and 0.
    pub fn number(&self, field: &str) -> Option<u64> {
        let text = self.get(field)?;
        match text {
            "True" => Some(1),
            "False" => Some(0),
            _ => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            },
        }
    }
}

/// Reads the frames of a capture file that match the display filter (`""`: all), with these fields.
///
/// `ip.checksum.status`, `udp.checksum.status`, `tcp.checksum.status` and `icmp.checksum.status` are 1 where the
/// checksum is right, 0 where it is wrong, 2 where it was not checked.
pub fn dissect(file: &Path, filter: &str, fields: &[&str]) -> Result<Vec<Dissected>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=/t"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    command.args(PREFERENCES.iter().flat_map(|preference| ["-o", preference]));
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    if !filter.is_empty() {
        command.args(["-Y", filter]);
    }
    let done = run(&mut command, LIMIT)?;
    ensure!(done.status.success(), "tshark cannot read {}: {}", file.display(), done.stderr);
    Ok(parse(&done.stdout, fields))
}

fn parse(text: &str, fields: &[&str]) -> Vec<Dissected> {
    let frame = |line: &str| {
        let pairs = fields.iter().zip(line.split('\t'));
        Dissected { fields: pairs.map(|(field, value)| ((*field).to_owned(), value.to_owned())).collect() }
    };
    text.lines().map(frame).collect()
}

/// Compares frames with what is expected of each, in order; returns the differences. A frame may have more fields than are
/// expected.
pub fn differences(frames: &[Dissected], expected: &[Vec<(&str, String)>]) -> Vec<String> {
    let mut found = Vec::new();
    if frames.len() != expected.len() {
        found.push(format!("{} frames, expected {}", frames.len(), expected.len()));
    }
    for (number, (frame, wanted)) in frames.iter().zip(expected).enumerate() {
        for (field, value) in wanted {
            let is = frame.get(field).unwrap_or("missing");
            if is != value {
                found.push(format!("frame {}: {field} is {is}, expected {value}", number + 1));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
