//! Lines of the daemons' logs (`--log stdout`) as what they mean.
//!
//! `2026/11/26 05:36:05 BGP: [M59KS-A3ZXZ][EC 33554499] %ADJCHANGE: neighbor 192.0.2.2(edge2) in vrf default Up`

/// Most octets of a line that are read.
const LONGEST: usize = 4096;

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// An adjacency has come up or gone down.
    Adjacency {
        /// Protocol as the log names it: `BGP`, `OSPF`, `BFD`.
        protocol: &'a str,
        /// Address or router id of the peer.
        peer: &'a str,
        /// True if it came up.
        is_up: bool,
        /// The whole message.
        message: &'a str,
    },
    /// A virtual router of VRRP has changed its state.
    VirtualRouter {
        /// The whole message, with its tags: they say which one.
        message: &'a str,
    },
    /// Something that an operator should know: the daemon reports an error by number (`EC`).
    Error {
        /// Protocol.
        protocol: &'a str,
        /// Number of the error, as in `show error`.
        code: u32,
        /// The whole message.
        message: &'a str,
    },
    /// Anything else.
    Other {
        /// Protocol, if the line has the form of a log line.
        protocol: Option<&'a str>,
        /// The message.
        message: &'a str,
    },
}

/// Reads a line. Control characters are left in: whoever shows it removes them.
pub fn read(line: &str) -> Line<'_> {
    let line = bounded(line.trim_end());
    let Some((protocol, rest)) = split(line) else { return Line::Other { protocol: None, message: line } };
    let (code, message) = tags(rest);
    if protocol == "VRRP" && is_state_of_vrrp(message) {
        return Line::VirtualRouter { message: rest };
    }
    let adjacency = of_bgp(message).or_else(|| of_ospf(message)).or_else(|| of_bfd(message));
    match (adjacency, code) {
        (Some((peer, is_up)), _) => Line::Adjacency { protocol, peer, is_up, message },
        (None, Some(code)) => Line::Error { protocol, code, message },
        (None, None) => Line::Other { protocol: Some(protocol), message },
    }
}

/// Returns the part of a line of `vtysh -b` that says which line of the configuration a daemon has refused, and why; `None` if it
/// only says how far it is.
///
/// `line 5: % Unknown command[4]: routr bgp 65001`
pub fn refusal(line: &str) -> Option<&str> {
    let line = bounded(line.trim_end());
    let start = line.find("line ").or_else(|| line.find('%'))?;
    line.contains('%').then_some(&line[start..])
}

/// The first octets of a line, up to a whole character.
fn bounded(line: &str) -> &str {
    let end = (0..=LONGEST.min(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or_default();
    &line[..end]
}

/// Protocol and rest, behind date and time.
fn split(line: &str) -> Option<(&str, &str)> {
    let (date, rest) = line.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let is_number = |char: char| char.is_ascii_digit() || matches!(char, '/' | ':' | '.');
    if date.is_empty() || !date.chars().all(is_number) || !time.chars().all(is_number) {
        return None;
    }
    let (protocol, rest) = rest.split_once(": ")?;
    (!protocol.is_empty() && protocol.chars().all(|char| char.is_ascii_alphanumeric()))
        .then_some((protocol, rest))
}

/// Number of the error and message, behind the tags in brackets.
fn tags(rest: &str) -> (Option<u32>, &str) {
    let (mut code, mut rest) = (None, rest);
    while let Some((tag, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        code = code.or(tag.strip_prefix("EC ").and_then(|number| number.parse().ok()));
        rest = after.trim_start_matches(' ');
    }
    (code, rest)
}

/// `%ADJCHANGE: neighbor 192.0.2.2(edge2) in vrf default Up`
fn of_bgp(message: &str) -> Option<(&str, bool)> {
    let rest = message.strip_prefix("%ADJCHANGE: neighbor ")?;
    let peer = rest.split(['(', ' ']).next()?;
    let is_up = rest.split(' ').find_map(|word| match word {
        "Up" => Some(true),
        "Down" => Some(false),
        _ => None,
    })?;
    Some((peer, is_up))
}

/// `AdjChg: Nbr 10.0.0.2(default) on wan:192.0.2.1: Loading -> Full (LoadingDone)`
fn of_ospf(message: &str) -> Option<(&str, bool)> {
    let rest = message.strip_prefix("AdjChg: Nbr ").or_else(|| message.strip_prefix("AdjChg: Neighbor "))?;
    let peer = rest.split(['(', ' ']).next()?;
    let (before, after) = rest.split_once(" -> ")?;
    let [was_full, is_full] = [before.ends_with("Full"), after.starts_with("Full")];
    (was_full != is_full).then_some((peer, is_full))
}

/// `state-change: [mhop:no peer:192.0.2.2 local:192.0.2.1 vrf:default ifname:wan] init -> up`
fn of_bfd(message: &str) -> Option<(&str, bool)> {
    let rest = message.strip_prefix("state-change: [")?;
    let peer = rest.split(' ').find_map(|word| word.strip_prefix("peer:"))?;
    let (before, after) = rest.split_once(" -> ")?;
    let [was_up, is_up] = [before.ends_with(" up"), after.starts_with("up")];
    (was_up != is_up).then_some((peer, is_up))
}

/// `[CORE] [VRID 5] [IPv4] Initialize -> Backup`, without the tags.
fn is_state_of_vrrp(message: &str) -> bool {
    const STATES: [&str; 3] = ["Initialize", "Backup", "Master"];
    message
        .split_once(" -> ")
        .is_some_and(|(before, after)| STATES.contains(&before) && STATES.contains(&after.trim_end()))
}

#[cfg(test)]
mod tests;
