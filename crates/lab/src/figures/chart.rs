//! Text charts: for each row, the curve of a figure's columns that have an `x`.

use super::{Figure, FigureResults};

/// Height and width of the plot area, in characters.
const HEIGHT: usize = 16;
const WIDTH: usize = 60;
/// Marks of the rows' curves.
const MARKS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Draws a chart in a fenced code block: forwarded rate, or whatever the first drawn column's unit is, over x. Where curves
/// meet, the first one is visible. Returns an empty string if there is nothing to draw.
pub fn chart(figure: &Figure, played: &FigureResults) -> String {
    let curves = curves(figure, played);
    let points = || curves.iter().flat_map(|(_, points)| points);
    let (x_most, y_most) = points().fold((0.0, 0.0), |(a, b), (x, y)| (f64::max(a, *x), f64::max(b, *y)));
    if x_most <= 0.0 || y_most <= 0.0 {
        return String::new();
    }
    let mut field = vec![vec![b' '; WIDTH + 1]; HEIGHT + 1];
    for ((_, points), mark) in curves.iter().zip(MARKS).rev() {
        let scaled = points.iter().map(|(x, y)| (x / x_most * WIDTH as f64, y / y_most * HEIGHT as f64));
        draw(&mut field, &scaled.collect::<Vec<_>>(), *mark);
    }
    let unit = figure.columns.iter().find(|column| column.x.is_some()).map_or("", |column| &column.unit);
    let mut text = format!("```text\n{y_most:9.1} {unit}\n");
    for line in field.iter().rev() {
        text.push_str("          |");
        text.push_str(String::from_utf8_lossy(line).trim_end());
        text.push('\n');
    }
    text.push_str(&format!("        0 +{} {x_most}\n", "-".repeat(WIDTH)));
    for ((name, _), mark) in curves.iter().zip(MARKS) {
        text.push_str(&format!("          {} {name}\n", char::from(*mark)));
    }
    text.push_str("```\n\n");
    text
}

type Curve<'a> = (&'a str, Vec<(f64, f64)>);

/// Rows that were measured, each with its medians over x.
fn curves<'a>(figure: &'a Figure, played: &FigureResults) -> Vec<Curve<'a>> {
    let mut curves = Vec::new();
    for (row, cells) in figure.rows.iter().zip(&played.cells) {
        let point =
            |(column, cell): (&super::Column, &super::Cell)| Some((column.x?, cell.summary()?.median));
        let points: Vec<_> = figure.columns.iter().zip(cells).filter_map(point).collect();
        if !points.is_empty() {
            curves.push((row.name.as_str(), points));
        }
    }
    curves
}

/// Draws straight lines from point to point, in the plot area's own units.
fn draw(field: &mut [Vec<u8>], points: &[(f64, f64)], mark: u8) {
    let mut set = |x: f64, y: f64, mark: u8| {
        let place = field.get_mut(y.round().max(0.0) as usize);
        if let Some(place) = place.and_then(|line| line.get_mut(x.round().max(0.0) as usize)) {
            *place = mark;
        }
    };
    for pair in points.windows(2) {
        let [(x0, y0), (x1, y1)] = [pair[0], pair[1]];
        let steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let part = step as f64 / steps as f64;
            set(x0 + (x1 - x0) * part, y0 + (y1 - y0) * part, b'.');
        }
    }
    points.iter().for_each(|(x, y)| set(*x, *y, mark));
}

#[cfg(test)]
mod tests;
