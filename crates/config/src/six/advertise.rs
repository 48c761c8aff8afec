//! `[router.nic.ra]`: router advertisements (RFC 4861, 6.2.1).

use std::fmt;
use std::net::Ipv6Addr;

use serde::{Deserialize, Serialize};

use crate::address::{Address6, Prefix6, parse_cidr};
use crate::section::{Section, WithLine};

/// Keys of the table.
pub(super) const KEYS: [&str; 10] =
    ["interval", "lifetime", "hop_limit", "managed", "other", "mtu", "prefix", "valid", "preferred", "dns"];
/// Most prefixes and most DNS servers, as the firmware's tables have room for.
const MOST_PREFIXES: usize = bootinfo::MAX_PREFIXES;
const MOST_DNS: usize = bootinfo::MAX_DNS;
/// Largest interval and lifetime, in seconds (RFC 4861, 6.2.1; RFC 8319).
const MOST_INTERVAL: u32 = 1800;
const MOST_LIFETIME: u32 = 65_535;
/// Defaults (RFC 4861, 6.2.1; RFC 9096 for the lifetimes of prefixes).
const INTERVAL: u32 = 600;
const VALID: u32 = 86_400;
const PREFERRED: u32 = 14_400;

/// Router advertisements of a NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advertise {
    /// Largest number of seconds between two advertisements that nothing has caused; the smallest is a third of it.
    pub interval: u32,
    /// Seconds for which the router is a default router; 0: it is none.
    pub lifetime: u32,
    /// Hop limit that hosts should use; 0: not told.
    pub hop_limit: u32,
    /// True if addresses come from DHCPv6.
    pub managed: bool,
    /// True if other settings come from DHCPv6.
    pub other: bool,
    /// True if the MTU of the NIC is told.
    pub mtu: bool,
    /// Prefixes of the link in which hosts form addresses.
    pub prefixes: Vec<Prefix6>,
    /// Seconds for which the prefixes are on the link, and for which addresses in them are preferred.
    pub valid: u32,
    /// See [`Advertise::valid`].
    pub preferred: u32,
    /// DNS servers (RFC 8106).
    pub dns: Vec<Ipv6Addr>,
}

impl Advertise {
    /// Smallest number of seconds between two advertisements.
    pub fn least_interval(&self) -> u32 {
        (self.interval / 3).max(3)
    }
}

impl fmt::Display for Advertise {
    /// Writes all values in the order of the keys, so that two texts differ if the settings do.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "interval {} lifetime {} hop_limit {}", self.interval, self.lifetime, self.hop_limit)?;
        for (name, flag) in [("managed", self.managed), ("other", self.other), ("mtu", self.mtu)] {
            if flag {
                write!(out, " {name}")?;
            }
        }
        self.prefixes.iter().try_for_each(|prefix| write!(out, " prefix {prefix}"))?;
        write!(out, " valid {} preferred {}", self.valid, self.preferred)?;
        self.dns.iter().try_for_each(|server| write!(out, " dns {server}"))
    }
}

/// Reads the table `ra` of a NIC with these addresses.
pub(super) fn read(nic: &Section<'_>, addresses: &[Address6]) -> Option<Advertise> {
    let section = nic.table("ra", "[router.nic.ra]")?;
    section.expect_keys(&KEYS, &[]);
    if addresses.is_empty() {
        let what = "the NIC has no IPv6 address to advertise; write e.g. address = \"2001:db8::1/64\"";
        nic.fault(section.line, "ra", what);
    }
    let interval = section.number("interval", 4..=MOST_INTERVAL, INTERVAL);
    let valid = section.number("valid", 0..=u32::MAX, VALID);
    let preferred = section.number("preferred", 0..=u32::MAX, PREFERRED.min(valid));
    if preferred > valid {
        let what = format!("{preferred} s are more than the {valid} s for which the prefix is valid");
        section.fault(section.line_of("preferred"), "preferred", what);
    }
    let lifetime = section.number("lifetime", 0..=MOST_LIFETIME, 3 * interval);
    if lifetime != 0 && lifetime < interval {
        let what =
            format!("{lifetime} s are over before the next advertisement; write at least {interval}, or 0");
        section.fault(section.line_of("lifetime"), "lifetime", what);
    }
    Some(Advertise {
        interval,
        lifetime,
        hop_limit: section.number("hop_limit", 0..=255, 64),
        managed: section.flag("managed", false),
        other: section.flag("other", false),
        mtu: section.flag("mtu", true),
        prefixes: prefixes(&section, addresses),
        valid,
        preferred,
        dns: dns(&section),
    })
}

/// Reads `prefix`: by default the networks of the NIC in which hosts can form addresses, those of 64 bits.
fn prefixes(section: &Section<'_>, addresses: &[Address6]) -> Vec<Prefix6> {
    let example = "\"2001:db8::/64\"";
    let mut prefixes: Vec<Prefix6> = Vec::new();
    if !section.has("prefix") {
        let own = addresses.iter().filter(|own| own.len == 64 && !own.ip.is_unicast_link_local());
        own.map(|own| own.network()).for_each(|network| {
            if !prefixes.contains(&network) {
                prefixes.push(network);
            }
        });
        return prefixes;
    }
    for WithLine { value, line } in section.texts("prefix", example) {
        match parse_cidr(value).filter(|given: &Address6| given.network().network == given.ip) {
            Some(_) if prefixes.len() == MOST_PREFIXES => {
                section.fault(line, "prefix", format!("too many; a NIC advertises at most {MOST_PREFIXES}"));
                break;
            }
            Some(given) => prefixes.push(given.network()),
            None => section.fault(
                line,
                "prefix",
                format!("{value:?} is not an IPv6 prefix; write e.g. {example}"),
            ),
        }
    }
    prefixes
}

fn dns(section: &Section<'_>) -> Vec<Ipv6Addr> {
    let example = "\"2001:db8::53\"";
    let mut servers = Vec::new();
    for WithLine { value, line } in section.texts("dns", example) {
        match value.parse::<Ipv6Addr>() {
            Ok(_) if servers.len() == MOST_DNS => {
                section.fault(line, "dns", format!("too many; a NIC advertises at most {MOST_DNS}"));
                break;
            }
            Ok(server) => servers.push(server),
            Err(_) => {
                section.fault(line, "dns", format!("{value:?} is not an IPv6 address; write e.g. {example}"))
            }
        }
    }
    servers
}
