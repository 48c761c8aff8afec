//! The headline of a figure: the best of our cells beside a number of the paper's text.

use super::table::three_digits;
use super::{Figure, FigureResults};

/// Formats the headline of a figure; `None` if its file has none.
pub(super) fn headline(figure: &Figure, played: &FigureResults) -> Option<String> {
    let headline = figure.headline.as_ref()?;
    let (what, published) = (&headline.what, three_digits(headline.published));
    let column = figure.column(&headline.column)?;
    let median = |cells: &Vec<super::Cell>| Some(cells.get(column)?.summary()?.median);
    let rows = figure.rows.iter().zip(&played.cells).filter_map(|(row, cells)| Some((row, median(cells)?)));
    let unit = figure.columns.get(column).map_or("", |column| column.unit.as_str());
    Some(match rows.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
        Some((row, best)) => {
            format!("headline: {what}: {} {unit} ({}), the paper's {published}", three_digits(best), row.name)
        }
        None => format!("headline: {what}: not run, the paper's {published} {unit}"),
    })
}
