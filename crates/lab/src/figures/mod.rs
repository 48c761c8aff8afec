//! Figures and tables of the papers: one file each says what is varied, what was published, and which shape is to hold.
//!
//! `file` reads them; `play` runs the experiment of each cell; `table` puts what came out beside what was published;
//! `chart` draws; `shape` and `proportion` judge. A cell that cannot be run says why and leaves the others alone.

mod cell;
mod chart;
mod file;
mod play;
mod proportion;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod together;

use anyhow::{Context, Result};

pub use cell::{Cell, Found};
pub use chart::chart;
pub use file::{Column, Contradiction, Figure, Hosts, Line, Published, Row, Setting, Shape};
pub use play::{Played, play};
pub use shape::{Judged, judge, judge_all};
pub use table::{slips, table};

/// The files, as they lie in `figures/`.
const FILES: [&str; 32] = [
    include_str!("../../../../figures/000-fig1.toml"),
    include_str!("../../../../figures/000-fig2.toml"),
    include_str!("../../../../figures/000-fig3.toml"),
    include_str!("../../../../figures/000-fig4.toml"),
    include_str!("../../../../figures/000-fig5.toml"),
    include_str!("../../../../figures/000-fig6.toml"),
    include_str!("../../../../figures/000-fig7.toml"),
    include_str!("../../../../figures/000-fig8.toml"),
    include_str!("../../../../figures/000-fig9.toml"),
    include_str!("../../../../figures/000-fig10.toml"),
    include_str!("../../../../figures/000-fig11.toml"),
    include_str!("../../../../figures/000-fig12.toml"),
    include_str!("../../../../figures/000-fig13.toml"),
    include_str!("../../../../figures/000-fig14.toml"),
    include_str!("../../../../figures/000-fig15.toml"),
    include_str!("../../../../figures/001-fig1a.toml"),
    include_str!("../../../../figures/001-fig1b.toml"),
    include_str!("../../../../figures/001-fig1c.toml"),
    include_str!("../../../../figures/001-fig1d.toml"),
    include_str!("../../../../figures/001-fig1e.toml"),
    include_str!("../../../../figures/001-fig2a.toml"),
    include_str!("../../../../figures/001-fig2b.toml"),
    include_str!("../../../../figures/001-fig3.toml"),
    include_str!("../../../../figures/003-table2.toml"),
    include_str!("../../../../figures/003-table4.toml"),
    include_str!("../../../../figures/003-table5.toml"),
    include_str!("../../../../figures/004-tx.toml"),
    include_str!("../../../../figures/004-rx.toml"),
    include_str!("../../../../figures/004-latency.toml"),
    include_str!("../../../../figures/004-virtio-tx.toml"),
    include_str!("../../../../figures/004-virtio-rx.toml"),
    include_str!("../../../../figures/004-virtio-latency.toml"),
];

/// Seconds of each cell if nobody says otherwise: six slices, the fewest that have an interval.
pub const SECONDS: f64 = 1.2;
/// Repetitions of each cell if nobody says otherwise.
pub const REPEAT: u32 = 1;

/// All figures, in the order of the papers.
///
/// # Errors
/// A file that is not as it should be, by its number; the tests see to it that there is none.
pub fn all() -> Result<Vec<Figure>> {
    let read = |(n, text): (usize, &&str)| Figure::parse(text).with_context(|| format!("figure file {n}"));
    FILES.iter().enumerate().map(read).collect()
}

/// The figures of this name: `001/fig1a`, or `001/fig1` for all of its parts, or `004/virtio`.
///
/// # Errors
/// As [`all`].
pub fn find(name: &str) -> Result<Vec<Figure>> {
    let is_part = |rest: &str| rest.starts_with(|next: char| next == '-' || next.is_ascii_lowercase());
    let belongs =
        |figure: &Figure| figure.id.strip_prefix(name).is_some_and(|rest| rest.is_empty() || is_part(rest));
    Ok(all()?.into_iter().filter(|figure| name.contains('/') && belongs(figure)).collect())
}
