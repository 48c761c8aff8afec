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
