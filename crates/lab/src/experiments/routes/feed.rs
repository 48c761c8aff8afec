//! FRR that is fed by gobgpd: a table of IPv4 routes, one BGP session, and how many routes have come how far.

use std::fs::{self, File};
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use uplink::Netns;

use crate::full_table::{Dump, Family, FullTable, Gobgpd, Speaker};
use crate::rig::router_run::ip;

/// Seed of the table.
const SEED: u64 = 22;
/// Next hops of its routes.
const HOPS: [[u8; 4]; 4] = [[10, 0, 2, 2], [10, 0, 2, 3], [10, 0, 2, 4], [10, 0, 2, 5]];

/// Routes that come before those of the table: of interfaces.
const OTHERS: usize = 100;

/// FRR's side of the session.
pub(super) const FRR: &str = "router bgp 65001\n bgp router-id 10.0.2.1\n no bgp ebgp-requires-policy\n \
                              neighbor 10.0.2.2 remote-as 65020\n neighbor 10.0.2.2 timers connect 1\n";

/// The table.
pub(super) fn table(routes: usize) -> FullTable {
    FullTable::new((routes, 0), HOPS.len(), SEED)
}

/// Gives an interface the addresses of the next hops.
pub(super) fn furnish(netns: &Netns, link: &str) -> Result<()> {
    for [a, b, c, d] in HOPS {
        ip(netns, &format!("address add {a}.{b}.{c}.{d}/24 dev {link}"))?;
    }
    ip(netns, &format!("link set {link} up"))
}

/// Starts gobgpd in a namespace and has it take the whole table.
pub(super) fn speaker(netns: &Netns, table: &FullTable, folder: &Path) -> Result<Gobgpd> {
    let (own, inside) = (IpAddr::from(HOPS[0]), netns.clone());
    let speaker =
        Speaker { number: 65020, address: own, neighbour_number: 65001, neighbour: [10, 0, 2, 1].into() };
    let gobgpd = Gobgpd::start(move |program| inside.command(program), &speaker, folder)?;
    let path = folder.join("table.mrt");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let hops = HOPS.map(IpAddr::from);
    Dump { routes: table.routes(), hops: &hops, transit: 3 }.write(&mut BufWriter::new(file))?;
    gobgpd.inject(&path, Family::V4, table.routes().len())?;
    Ok(gobgpd)
}

/// How many routes have come, and when.
#[derive(Debug, Default)]
pub(super) struct Progress {
    first: Option<(Instant, usize)>,
    last: Option<(Instant, usize)>,
    /// The last look, and the one before the last change: what has come since was not there then.
    looked: Option<Instant>,
    before: Option<Instant>,
}

impl Progress {
    /// Notes that so many have come so far.
    pub(super) fn note(&mut self, count: usize) {
        let now = (Instant::now(), count);
        if count > OTHERS {
            self.first.get_or_insert(now);
        }
        if self.last.is_none_or(|(_, before)| before != count) {
            (self.last, self.before) = (Some(now), self.looked);
        }
        self.looked = Some(now.0);
    }

    /// Time of the last look at which some had not come yet: no later than the last one has come.
    pub(super) const fn almost(&self) -> Option<Instant> {
        self.before
    }

    /// Routes between the first and the last look, in thousands a second.
    pub(super) fn rate(&self) -> Option<f64> {
        let ((begun, few), (ended, many)) = (self.first?, self.last?);
        let seconds = ended.duration_since(begun).as_secs_f64();
        (seconds > 0.0).then(|| many.saturating_sub(few) as f64 / seconds * 1e-3)
    }
}

/// IPv4 routes in the kernel of a namespace.
pub(super) fn in_kernel(netns: &Netns) -> Result<usize> {
    let told = netns.run(|| fs::read_to_string("/proc/thread-self/net/fib_triestat"))?;
    let told = told.context("the kernel does not tell how many routes it has")?;
    Ok(prefixes(&told))
}

/// Sum of the prefixes of all tables of fib_triestat.
fn prefixes(told: &str) -> usize {
    let counts = told.lines().filter_map(|line| line.trim().strip_prefix("Prefixes:"));
    counts.filter_map(|count| count.trim().parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn prefixes_of_all_tables_are_counted() {
        let told = "Basic info: size of leaf: 48 bytes.\nMain:\n\tAver depth:     2.00\n\tLeaves:         3\n\
                    \tPrefixes:       1000004\n\tInternal nodes: 2\nLocal:\n\tPrefixes:       4\n";
        assert_eq!(prefixes(told), 1_000_008);
    }

    #[test]
    fn a_rate_is_of_what_came_between_the_first_and_the_last() {
        let mut progress = Progress::default();
        progress.note(0);
        assert_eq!((progress.rate(), progress.almost()), (None, None));
        let looked = progress.looked;
        progress.note(7);
        progress.note(7);
        assert_eq!(progress.almost(), looked, "all have come since");
        let begun = Instant::now();
        progress.first = Some((begun, 1_000));
        progress.last = Some((begun + Duration::from_secs(2), 5_000));
        assert_eq!(progress.rate(), Some(2.0));
        progress.note(5_000);
        assert_eq!(progress.rate(), Some(2.0), "nothing has come since");
    }
}
