//! SVG drawings of paths and of stages. Each router has a row with a lane for user space and guests, a lane for the kernel, and the path of
//! a frame across them. Each stage of a group is a column.

use std::fmt::Write;

use super::{Graph, Path, Space, Stage, Station};

/// Sizes in pixels: a box and the gap to its right, a lane, a row, and the left and top margins.
const BOX: (usize, usize) = (128, 46);
const GAP: usize = 26;
const LANE: usize = 92;
const ROW: usize = 244;
const LEFT: usize = 84;
const TOP: usize = 56;
/// Gap between two columns of stages, and height of a station's place in a column.
const COLUMN_GAP: usize = 84;
const PLACE: usize = 70;

/// Draws paths under a title.
pub fn svg(title: &str, paths: &[Path]) -> String {
    let longest = paths.iter().map(|path| path.stations.len()).max().unwrap_or(0);
    let (width, height) = (LEFT + longest * (BOX.0 + GAP) + GAP, TOP + paths.len() * ROW);
    let mut text = head(title, (width, height));
    for (row, path) in paths.iter().enumerate() {
        draw(&mut text, path, TOP + row * ROW, width);
    }
    text.push_str("</svg>\n");
    text
}

/// Draws the stages of a group under a title.
pub fn svg_of_stages(title: &str, graph: &Graph) -> String {
    let most = graph.stages.iter().map(|stage| stage.stations.len()).max().unwrap_or(0);
    let columns = graph.stages.len();
    let size = (2 * LEFT + columns * (BOX.0 + COLUMN_GAP) - COLUMN_GAP, TOP + 40 + most * PLACE);
    let mut text = head(title, size);
    for (column, pair) in graph.stages.windows(2).enumerate() {
        let [here, there] = pair else { continue };
        for (from, to) in &here.lines {
            let (from, to) = (place(column, *from, (here, most)), place(column + 1, *to, (there, most)));
            joined(&mut text, from, to);
        }
    }
    for (column, stage) in graph.stages.iter().enumerate() {
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" fill=\"#33485f\">{}</text>",
            LEFT + column * (BOX.0 + COLUMN_GAP) + BOX.0 / 2,
            TOP + 14,
            escaped(&stage.title)
        );
        for (at, station) in stage.stations.iter().enumerate() {
            station_box(&mut text, station, place(column, at, (stage, most)));
        }
    }
    text.push_str("</svg>\n");
    text
}

/// Returns the upper left corner of a station of a column, where the longest column has `most`.
fn place(column: usize, at: usize, (stage, most): (&Stage, usize)) -> (usize, usize) {
    let above = (most - stage.stations.len()) * PLACE / 2;
    (LEFT + column * (BOX.0 + COLUMN_GAP), TOP + 30 + above + at * PLACE)
}

/// Draws the line from the box with this corner to the box with that one.
fn joined(text: &mut String, from: (usize, usize), to: (usize, usize)) {
    let (x1, y1, x2, y2) = (from.0 + BOX.0, from.1 + BOX.1 / 2, to.0, to.1 + BOX.1 / 2);
    let _ = writeln!(
        text,
        "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#1f4e8c\" stroke-width=\"2\"/>\n\
         <circle cx=\"{x2}\" cy=\"{y2}\" r=\"4\" fill=\"#1f4e8c\"/>"
    );
}

/// Begins a drawing of this size under a title.
fn head(title: &str, (width, height): (usize, usize)) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"16\">{}</text>\n",
        escaped(title)
    )
}

/// Draws one row.
fn draw(text: &mut String, path: &Path, top: usize, width: usize) {
    let border = top + 24 + LANE;
    let _ = writeln!(
        text,
        "<line x1=\"8\" y1=\"{border}\" x2=\"{}\" y2=\"{border}\" stroke=\"#888888\" stroke-dasharray=\"6 4\"/>\n\
         <text x=\"8\" y=\"{}\" fill=\"#555555\">user</text>\n<text x=\"8\" y=\"{}\" fill=\"#555555\">kernel</text>",
        width - 8,
        border - 12,
        border + 20,
    );
    parts(text, path, top);
    for (at, pair) in path.stations.windows(2).enumerate() {
        joined(text, corner(at, &pair[0], top), corner(at + 1, &pair[1], top));
    }
    for (at, station) in path.stations.iter().enumerate() {
        station_box(text, station, corner(at, station, top));
    }
}

/// Draws frames around the parts of the test bed, with their names.
fn parts(text: &mut String, path: &Path, top: usize) {
    let mut at = 0;
    for run in path.stations.chunk_by(|one, other| one.part == other.part) {
        if let Some(Some(part)) = run.first().map(|station| &station.part) {
            let (x, width) = (LEFT + at * (BOX.0 + GAP) - 10, run.len() * (BOX.0 + GAP) - GAP + 20);
            let _ = writeln!(
                text,
                "<rect x=\"{x}\" y=\"{}\" width=\"{width}\" height=\"{}\" rx=\"8\" fill=\"#f4f6f9\" stroke=\"#9aa7b8\"/>\n\
                 <text x=\"{}\" y=\"{}\" fill=\"#33485f\">{}</text>",
                top + 4,
                2 * LANE + 40,
                x + 8,
                top + 20,
                escaped(part)
            );
        }
        at += run.len();
    }
}

/// Draws the box of a station.
fn station_box(text: &mut String, station: &Station, (x, y): (usize, usize)) {
    let fill = match station.space {
        Space::Kernel => "#ffe9c7",
        Space::User => "#d9ecd5",
    };
    let middle = x + BOX.0 / 2;
    let _ = writeln!(
        text,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{fill}\" stroke=\"#444444\"/>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
        BOX.0,
        BOX.1,
        y + 20,
        escaped(&station.name),
        y + 36,
        escaped(&station.what)
    );
}

/// Returns the upper left corner of the n-th station of a row.
fn corner(at: usize, station: &Station, top: usize) -> (usize, usize) {
    let lane = match station.space {
        Space::User => 0,
        Space::Kernel => LANE,
    };
    (LEFT + at * (BOX.0 + GAP), top + 36 + lane)
}

/// Escapes the special characters of XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
