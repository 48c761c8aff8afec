//! Figures and tables of the papers: for each, a file states the varied parameters, the published values, and the shape
//! that must hold.
//!
//! `file` parses them; `play` runs the experiment of each cell; `table` prints our results beside the published ones,
//! `headline` the best of them; `chart` draws; `shape` and `proportion` judge. A cell that cannot be measured records the reason and does not affect
//! the others.

mod cell;
mod chart;
mod file;
mod headline;
mod play;
mod proportion;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod together;

use anyhow::{Context, Result};

pub use cell::{Cell, CellResult};
pub use chart::chart;
pub use file::{
    Column, Contradiction, Figure, Headline, Hosts, ProportionalityClaim, Published, Row, Setting, Shape,
};
pub use play::{FigureResults, play};
pub use shape::{ClaimResult, judge, judge_all};
pub use table::{slips, table};

/// Includes the contents of files in `figures/`.
macro_rules! files {
    ($($name:literal)*) => { [$(include_str!(concat!("../../../../figures/", $name, ".toml"))),*] };
}

/// Contents of the figure files.
const FILES: [&str; 55] = files![
    "000-fig1" "000-fig1-paths" "000-fig2" "000-fig3" "000-fig4" "000-fig5" "000-fig6" "000-fig7"
    "000-fig8" "000-fig9" "000-fig10" "000-fig11" "000-fig12" "000-fig13" "000-fig14" "000-fig15"
    "000-fig16" "000-fig17-bridge" "000-fig17-ovs" "000-fig18" "000-fig19" "000-A.20" "000-efficiency"
    "001-fig1a" "001-fig1b" "001-fig1c" "001-fig1d" "001-fig1e" "001-fig2a" "001-fig2b" "001-fig3"
    "002-scalability" "003-fig1" "003-fig2" "003-fig3" "003-fig4" "003-fig5" "003-fig6" "003-fig7"
    "003-fig8" "003-fig9" "003-macvtap" "003-table1" "003-table2" "003-table3" "003-table4" "003-table5"
    "003-control1" "003-control3" "004-tx" "004-rx" "004-latency" "004-virtio-tx" "004-virtio-rx"
    "004-virtio-latency"
];

/// Default seconds of each cell: six slices, the fewest that have a confidence interval.
pub const SECONDS: f64 = 1.2;
/// Default repetitions of each cell.
pub const REPEAT: u32 = 1;

/// Returns all figures, in the order of the papers.
///
/// # Errors
/// A file is invalid; the error gives its index. Tests ensure that this does not happen.
pub fn all() -> Result<Vec<Figure>> {
    let read = |(n, text): (usize, &&str)| Figure::parse(text).with_context(|| format!("figure file {n}"));
    FILES.iter().enumerate().map(read).collect()
}

/// Returns the figures selected by a name: `001/fig1a`, or `001/fig1` for all of its parts, or `004/virtio`.
///
/// # Errors
/// As [`all`].
pub fn find(name: &str) -> Result<Vec<Figure>> {
    let is_part = |rest: &str| rest.starts_with(|next: char| next == '-' || next.is_ascii_lowercase());
    let belongs =
        |figure: &Figure| figure.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_part(rest));
    Ok(all()?.into_iter().filter(|figure| name.contains('/') && belongs(figure)).collect())
}
