//! Content of a configuration file of FRR: which daemons it needs, and what in it cannot work here.
//!
//! FRR itself reads the configuration; this looks at the first words of its lines only.

use std::collections::BTreeSet;
use std::fmt;

use crate::virtual_router::VirtualRouters;
use crate::{Daemon, VirtualRouter};

/// Longest file accepted, in octets: FRR takes minutes for longer ones.
const LONGEST: usize = 16 << 20;

/// Lines by which a daemon is needed, wherever they stand in the file.
static NEEDS: [(&str, Daemon); 20] = [
    ("router bgp", Daemon::Bgp),
    ("router ospf6", Daemon::Ospf6),
    ("router ospf", Daemon::Ospf),
    ("router isis", Daemon::Isis),
    ("router ripng", Daemon::Ripng),
    ("router rip", Daemon::Rip),
    ("ip ospf", Daemon::Ospf),
    ("ipv6 ospf6", Daemon::Ospf6),
    ("ip router isis", Daemon::Isis),
    ("ipv6 router isis", Daemon::Isis),
    ("ip rip", Daemon::Rip),
    ("ipv6 ripng", Daemon::Ripng),
    ("bfd", Daemon::Bfd),
    ("neighbor * bfd", Daemon::Bfd),
    ("ip ospf bfd", Daemon::Bfd),
    ("ipv6 ospf6 bfd", Daemon::Bfd),
    ("isis bfd", Daemon::Bfd),
    ("ip route * * bfd", Daemon::Bfd),
    ("ipv6 route * * bfd", Daemon::Bfd),
    ("vrrp", Daemon::Vrrp),
];

/// What is wrong with a static route of a VRF.
const OF_ANOTHER: &str =
    "a VRF is a router of its own here: move this route into the file of another [[router]]";
/// What is wrong with a route from one VRF into another.
const LEAKED: &str = "routes are not leaked between VRFs: connect the two routers by a switch";

/// Lines that are refused, and why: what is wrong, and what would be right.
const REFUSED: [(&str, &str); 22] = [
    (
        "vrf",
        "a VRF is a router of its own here, with its own file: leave this block out and add a [[router]]",
    ),
    (
        "router * vrf",
        "a VRF is a router of its own here: move this block into the file of another [[router]]",
    ),
    ("ip route * vrf", OF_ANOTHER),
    ("ipv6 route * vrf", OF_ANOTHER),
    ("ip route * nexthop-vrf", LEAKED),
    ("ipv6 route * nexthop-vrf", LEAKED),
    ("import vrf", LEAKED),
    ("rd vpn", "VPNs of BGP need MPLS, which the data path does not do: remove the line"),
    ("import vpn", "VPNs of BGP need MPLS, which the data path does not do: remove the line"),
    ("export vpn", "VPNs of BGP need MPLS, which the data path does not do: remove the line"),
    ("mpls", "the data path does not do MPLS: remove the line"),
    ("segment-routing", "the data path does not do segment routing: remove the block"),
    ("advertise-all-vni", "the data path does not do EVPN: remove the line"),
    ("router pim", "the data path does not forward multicast: remove the block"),
    ("ip pim", "the data path does not forward multicast: remove the line"),
    ("ipv6 pim", "the data path does not forward multicast: remove the line"),
    ("router eigrp", "FRR's eigrpd is not started here: use OSPF"),
    ("router babel", "FRR's babeld is not started here: use OSPF"),
    ("pbr-map", "FRR's pbrd is not started here: add the rules with `ip rule` in the control namespace"),
    ("ip forwarding", "the data path forwards, and the namespace of the daemons does not: remove the line"),
    ("ipv6 forwarding", "the data path forwards, and the namespace of the daemons does not: remove the line"),
    ("fpm address", "ringroad sets the address of the forwarding plane manager: remove the line"),
];

/// Configuration that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    daemons: BTreeSet<Daemon>,
    virtual_routers: Vec<VirtualRouter>,
    hints: Vec<Hint>,
}

/// Line that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the line, from 1; 0: the whole file.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.what),
            line => write!(f, "line {line}: {}", self.what),
        }
    }
}

impl std::error::Error for Fault {}

/// Something that works, but less well than its author may think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// BGP without graceful restart: when bgpd is restarted, its routes go until its neighbours have sent them again.
    NoGracefulRestart,
    /// Nothing in the file needs a routing daemon.
    Nothing,
}

impl Hint {
    /// The hint in a sentence.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoGracefulRestart => {
                "no `bgp graceful-restart` and `bgp graceful-restart preserve-fw-state` in `router bgp`: a restart of bgpd \
                 takes its routes away until its neighbours have sent them again"
            }
            Self::Nothing => "nothing in the file needs a routing daemon: only zebra and staticd are started",
        }
    }
}

impl Content {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The first line that cannot work.
    pub fn read(text: &str) -> Result<Self, Fault> {
        if text.len() > LONGEST {
            let what = format!(
                "expected at most {LONGEST} octets, found {}: FRR would take minutes to read them",
                text.len()
            );
            return Err(Fault { line: 0, what });
        }
        let mut daemons = BTreeSet::from([Daemon::Zebra, Daemon::Static]);
        let mut virtual_routers = VirtualRouters::default();
        let (mut restarts_gracefully, mut keeps_forwarding) = (false, false);
        for (line, words) in lines(text) {
            check(line, &words)?;
            daemons.extend(needed(&words));
            virtual_routers.take(&words);
            restarts_gracefully |= begins(&words, "bgp graceful-restart");
            keeps_forwarding |= begins(&words, "bgp graceful-restart preserve-fw-state");
        }
        let mut hints = Vec::new();
        if daemons.contains(&Daemon::Bgp) && !(restarts_gracefully && keeps_forwarding) {
            hints.push(Hint::NoGracefulRestart);
        }
        if daemons.len() == 2 && !text.contains("route") {
            hints.push(Hint::Nothing);
        }
        Ok(Self { daemons, virtual_routers: virtual_routers.into_all(), hints })
    }

    /// Daemons that it needs, in the order in which they are started.
    pub fn daemons(&self) -> impl Iterator<Item = Daemon> {
        self.daemons.iter().copied()
    }

    /// Virtual routers of VRRP that it has.
    pub fn virtual_routers(&self) -> &[VirtualRouter] {
        &self.virtual_routers
    }

    /// What works less well than its author may think.
    pub fn hints(&self) -> &[Hint] {
        &self.hints
    }
}

/// Lines with their numbers and words, without comments, and without lines that begin with `no`: those ask for nothing.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_comment = words.first().is_none_or(|word| word.starts_with(['!', '#']) || *word == "no");
        (!is_comment).then_some((number, words))
    })
}

fn check(line: usize, words: &[&str]) -> Result<(), Fault> {
    match REFUSED.iter().find(|(pattern, _)| begins(words, pattern)) {
        Some((_, why)) => Err(Fault { line, what: format!("`{}`: {why}", shown(words)) }),
        None => Ok(()),
    }
}

fn needed(words: &[&str]) -> impl Iterator<Item = Daemon> {
    NEEDS.iter().filter(move |(pattern, _)| begins(words, pattern)).map(|(_, daemon)| *daemon)
}

/// Returns true if the words begin with those of a pattern, in which `*` stands for any number of words, but at least one.
fn begins(words: &[&str], pattern: &str) -> bool {
    let pattern: Vec<&str> = pattern.split(' ').collect();
    match pattern.iter().position(|word| *word == "*") {
        None => words.starts_with(&pattern),
        Some(star) => {
            let (head, tail) = (&pattern[..star], &pattern[pattern.len() - 1]);
            let skipped = pattern.len() - 1;
            words.starts_with(head) && words.iter().skip(skipped).any(|word| word == tail)
        }
    }
}

/// The words of a line, shortened for a message.
fn shown(words: &[&str]) -> String {
    const MOST: usize = 60;
    let line: String = words.join(" ").chars().filter(|char| !char.is_control()).collect();
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests;
