//! `ringroad lab table FILE`: a synthetic full table, as a dump that BGP speakers replay (`gobgp mrt inject global FILE`).

use std::fs::File;
use std::io::BufWriter;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use command_line::print;
use lab::full_table::{Dump, FullTable};

/// Most routes of each family.
const MOST: (usize, usize) = (2_000_000, 500_000);
/// ASs in each path before that of the origin.
const TRANSIT: usize = 3;

/// The file, and what is to be in it.
#[derive(Args, Debug)]
pub(crate) struct TableOptions {
    /// The file, in MRT's TABLE_DUMP_V2 format.
    file: PathBuf,
    /// IPv4 routes, with the Internet's prefix lengths.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    four: usize,
    /// IPv6 routes; the Internet has about 250000.
    #[arg(long, default_value_t = 0, value_name = "N")]
    six: usize,
    /// Next hops of the routes, such as 192.0.2.2,2001:db8::2: of each family that has routes at least one.
    #[arg(long, required = true, value_delimiter = ',', value_name = "ADDRESS")]
    via: Vec<IpAddr>,
    /// Another seed yields other routes.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Writes the file, and reports what is in it.
///
/// # Errors
/// It cannot be written, a family lacks a next hop, or there are too many routes.
pub(super) fn table(options: &TableOptions) -> Result<()> {
    let TableOptions { file, four, six, via, seed } = options;
    ensure!(
        *four <= MOST.0 && *six <= MOST.1,
        "a table has at most {} IPv4 and {} IPv6 routes",
        MOST.0,
        MOST.1
    );
    for (routes, family, is_four) in [(*four, "IPv4", true), (*six, "IPv6", false)] {
        let has_hop = via.iter().any(|ip| ip.is_ipv4() == is_four);
        ensure!(routes == 0 || has_hop, "{routes} {family} routes need a next hop of {family} in --via");
    }
    let table = FullTable::new((*four, *six), via.len(), *seed);
    let wrong = || format!("cannot write {}", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(wrong)?);
    Dump { routes: table.routes(), hops: via, transit: TRANSIT }.write(&mut out).with_context(wrong)?;
    print(&format!("{four} IPv4 and {six} IPv6 routes\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(file: PathBuf, six: usize) -> TableOptions {
        TableOptions { file, four: 100, six, via: vec![[192, 0, 2, 2].into()], seed: 1 }
    }

    #[test]
    fn a_dump_has_a_record_for_each_route_and_one_for_the_peers() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("full.mrt");
        table(&options(file.clone(), 0)).expect("written");
        let (octets, mut records, mut rest) = (std::fs::read(&file).expect("read"), 0, 0);
        while let Some(head) = octets.get(rest..rest + 12) {
            assert_eq!(head[4..6], [0, 13], "TABLE_DUMP_V2");
            rest += 12 + u32::from_be_bytes([head[8], head[9], head[10], head[11]]) as usize;
            records += 1;
        }
        assert_eq!((records, rest), (101, octets.len()));
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let lacks = table(&options(folder.path().join("full.mrt"), 5)).expect_err("no way for IPv6");
        assert!(lacks.to_string().contains("IPv6"), "{lacks}");
        assert!(table(&options(folder.path().join("no/full.mrt"), 0)).is_err());
        let many = TableOptions { four: 3_000_000, ..options(folder.path().join("full.mrt"), 0) };
        assert!(table(&many).is_err());
    }
}
