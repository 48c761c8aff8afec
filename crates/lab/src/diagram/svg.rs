//! SVG drawings of paths. Each router has a row with a lane for user space and guests, a lane for the kernel, and the path of a
//! frame across them.

use std::fmt::Write;

use super::{Path, Space, Station};

/// Sizes in pixels: a box and the gap to its right, a lane, a row, and the left and top margins.
const BOX: (usize, usize) = (128, 46);
const GAP: usize = 26;
const LANE: usize = 92;
const ROW: usize = 244;
const LEFT: usize = 84;
const TOP: usize = 56;

/// Draws paths under a title.
pub fn svg(title: &str, paths: &[Path]) -> String {
    let longest = paths.iter().map(|path| path.stations.len()).max().unwrap_or(0);
    let (width, height) = (LEFT + longest * (BOX.0 + GAP) + GAP, TOP + paths.len() * ROW);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"30\" font-size=\"16\">{}</text>\n",
        escaped(title)
    );
    for (row, path) in paths.iter().enumerate() {
        draw(&mut text, path, TOP + row * ROW, width);
    }
    text.push_str("</svg>\n");
    text
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
        let (from, to) = (corner(at, &pair[0], top), corner(at + 1, &pair[1], top));
        let (x1, y1, x2, y2) = (from.0 + BOX.0, from.1 + BOX.1 / 2, to.0, to.1 + BOX.1 / 2);
        let _ = writeln!(
            text,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"#1f4e8c\" stroke-width=\"2\"/>\n\
             <circle cx=\"{x2}\" cy=\"{y2}\" r=\"4\" fill=\"#1f4e8c\"/>"
        );
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
