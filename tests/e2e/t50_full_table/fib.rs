//! Routes of BGP, as the router's control plane lists them, as zebra has put them into the kernel of its namespace, and as they ought
//! to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::process::Command;

use api::{Client, ControlAnswer, ControlQuestion};
use lab::full_table::FullTable;
use serde_json::Value;
use support::run;

use super::super::t45_control::ask;
use super::{PATIENCE, RINGROAD, ROUTER, hop_of};

/// Differences shown.
const SHOWN: usize = 10;

/// Next hop of each network.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Routes(BTreeMap<(IpAddr, u8), IpAddr>);

impl Routes {
    pub(super) fn of_table(table: &FullTable) -> Self {
        Self(table.routes().iter().map(|route| ((route.to, route.len), hop_of(route))).collect())
    }

    /// All pages of the router's answer.
    pub(super) fn of_router(client: &mut Client) -> Self {
        let (mut all, mut after) = (BTreeMap::new(), None);
        loop {
            let question = ControlQuestion::Routes { within: None, after: after.take() };
            let ControlAnswer::Routes { routes, more, late, .. } = ask(client, ROUTER, question) else {
                panic!("no routes")
            };
            assert_eq!(late, 0, "the router's table has room for all of them");
            after = routes.last().map(|route| route.to.clone());
            for route in routes.into_iter().filter(|route| route.protocol == "bgp") {
                assert_eq!(route.fate, "forwarded", "{route:?}");
                let [hop] = route.hops.as_slice() else { panic!("{route:?}") };
                all.insert(network(&route.to), hop.via.expect("a gateway"));
            }
            if !more {
                return Self(all);
            }
        }
    }

    /// What `ip route` shows.
    pub(super) fn of_kernel() -> Self {
        let mut all = BTreeMap::new();
        for family in ["-4", "-6"] {
            let words = ["exec", ROUTER, "--", "ip", family, "route", "show", "proto", "bgp"];
            let done = run(Command::new(RINGROAD).args(words), PATIENCE).expect("it ends");
            assert!(done.status.success(), "{}", done.stderr);
            for line in done.stdout.lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let via = words.windows(2).find(|pair| pair[0] == "via").unwrap_or_else(|| panic!("{line}"));
                all.insert(network(words[0]), via[1].parse().expect("an address"));
            }
        }
        Self(all)
    }

    /// The first differences; none: they are the same.
    pub(super) fn differ_from(&self, wanted: &Self) -> Option<String> {
        if self == wanted {
            return None;
        }
        let mut text = format!("{} instead of {} routes", self.0.len(), wanted.0.len());
        let lacks = wanted.0.iter().filter(|(net, hop)| self.0.get(net) != Some(hop));
        for (net, hop) in lacks.take(SHOWN) {
            let _ = write!(text, "; {net:?} by {:?}, not {hop}", self.0.get(net));
        }
        let others = self.0.keys().filter(|net| !wanted.0.contains_key(net));
        others.take(SHOWN).for_each(|net| {
            let _ = write!(text, "; {net:?} ought not to be");
        });
        Some(text)
    }
}

/// Parses a network; one without a length is a host.
fn network(text: &str) -> (IpAddr, u8) {
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let ip: IpAddr = ip.parse().expect("an address");
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (ip, len.map_or(longest, |len| len.parse().expect("a length")))
}

/// Routes of BGP in use that zebra counts, of IPv4 and of IPv6; none while it does not answer.
pub(super) fn counted_by_zebra() -> [Option<u64>; 2] {
    ["ip", "ipv6"].map(|family| {
        let question = format!("show {family} route summary json");
        let done = run(Command::new(RINGROAD).args(["cli", ROUTER, "-c", &question]), PATIENCE).ok()?;
        let told: Value = serde_json::from_str(&done.stdout).ok()?;
        let of_bgp = told["routes"].as_array()?.iter().find(|kind| kind["type"] == "ebgp");
        Some(of_bgp.and_then(|kind| kind["fib"].as_u64()).unwrap_or(0))
    })
}

/// The value of a key, wherever it is in an answer.
pub(super) fn within<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|value| within(value, key))),
        Value::Array(list) => list.iter().find_map(|value| within(value, key)),
        _ => None,
    }
}
