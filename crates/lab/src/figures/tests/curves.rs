//! Tests that the judging code tells right curves from wrong ones: each figure has a curve for which each claim comes out as the
//! figure states, and wrong curves for which the failing claims are listed (`curves.toml`).

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;
use crate::report::Verdict;
use crate::stats::Summary;

/// Rounds per cell.
const ROUNDS: usize = 10;
/// Relative spread of a cell's rounds about its value.
const WIDTH: f64 = 0.005;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Curves {
    curve: Vec<Curve>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Curve {
    figure: String,
    /// Row, column (empty: all columns), and value.
    right: Vec<(String, String, f64)>,
    /// Value of a row per unit of its parameter (`at`).
    proportional: Option<f64>,
    /// Cells with a wider spread of their rounds: row, column, and spread.
    #[serde(default)]
    wide: Vec<(String, String, f64)>,
    flat: Vec<String>,
    reversed: Vec<String>,
    droop: Vec<String>,
}

/// Value of each cell, by row and column, and the spread of its rounds.
type Cells = Vec<Vec<(f64, f64)>>;

fn curves() -> Vec<(Figure, Curve)> {
    let curves: Curves = toml::from_str(include_str!("curves.toml")).unwrap();
    curves.curve.into_iter().map(|curve| (figure(&curve.figure), curve)).collect()
}

/// Returns the figure with this name.
pub(super) fn figure(id: &str) -> Figure {
    find(id).unwrap().into_iter().find(|figure| figure.id == id).unwrap()
}

/// Creates a cell whose rounds spread about a value, in an order that depends on `turn`.
pub(super) fn cell(value: f64, width: f64, turn: usize) -> Cell {
    let place = |n: usize| ((n + turn) * 7 % ROUNDS) as f64 / (ROUNDS - 1) as f64 * 2.0 - 1.0;
    let rounds: Vec<f64> = (0..ROUNDS).map(|n| value * (1.0 + width * place(n))).collect();
    let found = CellResult::WorkedOut(Summary::of(&rounds).unwrap());
    Cell { published: "-".to_owned(), number: None, found, rounds }
}

fn played(cells: &Cells) -> FigureResults {
    let mut turn = 0;
    let mut each = |(value, width): &(f64, f64)| {
        turn += 3;
        cell(*value, *width, turn)
    };
    FigureResults { cells: cells.iter().map(|row| row.iter().map(&mut each).collect()).collect() }
}

/// Returns the right curve of a figure.
fn right(figure: &Figure, curve: &Curve) -> Cells {
    let printed = |row: &Row| -> Vec<(f64, f64)> {
        let slope = curve.proportional.zip(row.at).map(|(slope, at)| slope * at);
        let value = |published: &Published| slope.or(published.number()).unwrap_or(100.0);
        row.published.iter().map(|published| (value(published), WIDTH)).collect()
    };
    let mut cells: Cells = figure.rows.iter().map(printed).collect();
    for (row, column, value) in &curve.right {
        for at in places(figure, row, column) {
            cells[at.0][at.1].0 = *value;
        }
    }
    for (row, column, width) in &curve.wide {
        for at in places(figure, row, column) {
            cells[at.0][at.1].1 = *width;
        }
    }
    cells
}

/// Indices of the cells of a row in one column, or in all columns.
fn places(figure: &Figure, row: &str, column: &str) -> Vec<(usize, usize)> {
    let row = figure.row(row).unwrap_or_else(|| panic!("{}: no row {row}", figure.id));
    let is_meant = |name: &String| column.is_empty() || name == column;
    let found: Vec<_> = (0..figure.columns.len()).filter(|&at| is_meant(&figure.columns[at].name)).collect();
    assert!(!found.is_empty(), "{}: no column {column}", figure.id);
    found.into_iter().map(|at| (row, at)).collect()
}

/// Returns the verdict on each claim.
fn verdicts(figure: &Figure, cells: &Cells) -> BTreeMap<String, (Verdict, String)> {
    let played = played(cells);
    let judged = judge_all(figure, &played);
    judged.into_iter().map(|judged| (judged.claim.to_owned(), (judged.verdict, judged.why))).collect()
}

fn failing(figure: &Figure, cells: &Cells) -> Vec<String> {
    let found = verdicts(figure, cells).into_iter().filter(|(_, (verdict, _))| *verdict == Verdict::Fails);
    found.map(|(claim, _)| claim).collect()
}

/// Also checks that every figure with claims has curves.
#[test]
fn every_claim_of_every_figure_comes_out_for_the_right_curve_as_the_figure_says() {
    let curves = curves();
    for figure in
        all().unwrap().iter().filter(|figure| !(figure.shapes.is_empty() && figure.lines.is_empty()))
    {
        assert!(curves.iter().any(|(known, _)| known.id == figure.id), "{}: no curve", figure.id);
    }
    for (figure, curve) in &curves {
        let found = verdicts(figure, &right(figure, curve));
        let contradicted = |claim: &str| {
            let shapes = figure.shapes.iter().map(|shape| (&shape.claim, &shape.contradicts));
            let lines = figure.lines.iter().map(|line| (&line.claim, &line.contradicts));
            shapes.chain(lines).any(|(name, contradicts)| name == claim && contradicts.is_some())
        };
        let claims = figure.shapes.len() + figure.lines.len();
        assert_eq!(found.len(), claims, "{}: two claims of one name", figure.id);
        for (claim, (verdict, why)) in &found {
            let wanted = if contradicted(claim) { Verdict::Contradicts } else { Verdict::Holds };
            assert_eq!(*verdict, wanted, "{}: {claim}: {why}", figure.id);
        }
    }
}

/// Index of the column with the heaviest load: the one in overload, or else the last.
fn heaviest(figure: &Figure) -> usize {
    figure.column("in overload").unwrap_or(figure.columns.len().saturating_sub(1))
}

#[test]
fn a_curve_droops_where_the_load_is_heaviest() {
    let name = |id: &str| {
        let figure = figure(id);
        figure.columns[heaviest(&figure)].name.clone()
    };
    // Columns with kicks and exits, or with active threads, come after it.
    assert_eq!(["000/fig1", "000/fig9", "000/fig3"].map(name), ["in overload"; 3]);
    assert_eq!(name("000/fig10"), "1.65 (1485)");
}

#[test]
fn wrong_curves_fail_by_the_claims_that_they_are_against() {
    let mut wrong = Vec::new();
    for (figure, curve) in &curves() {
        let right = right(figure, curve);
        let flat = right.iter().map(|row| row.iter().map(|(_, width)| (100.0, *width)).collect()).collect();
        let reversed: Cells = right.iter().rev().cloned().collect();
        let mut droop = right.clone();
        let column = heaviest(figure);
        droop.iter_mut().filter_map(|row| row.get_mut(column)).for_each(|(value, _)| *value /= 2.0);
        let mut check = |name: &str, cells: &Cells, stated: &[String]| {
            let mut stated = stated.to_vec();
            stated.sort();
            let found = failing(figure, cells);
            if found != stated {
                wrong.push(format!("{} {name} = {found:?}", figure.id));
            }
        };
        check("flat", &flat, &curve.flat);
        check("reversed", &reversed, &curve.reversed);
        check("droop", &droop, &curve.droop);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_claim_is_refused_when_one_cell_is_off() {
    for (figure, curve) in &curves() {
        let right = right(figure, curve);
        for shape in &figure.shapes {
            let mut cells = right.clone();
            let ((row, column), (other_row, other_column)) = cells_of(figure, shape);
            cells[row][column] = off(shape, cells[row][column], cells[other_row][other_column]);
            let (verdict, why) = &verdicts(figure, &cells)[&shape.claim];
            assert_eq!(*verdict, Verdict::Fails, "{}: {}: {why}", figure.id, shape.claim);
        }
        for line in &figure.lines {
            let mut cells = right.clone();
            let (row, column) = places(figure, &line.rows[1], &line.column)[0];
            cells[row][column].0 *= 0.8;
            let (verdict, why) = &verdicts(figure, &cells)[&line.claim];
            assert_eq!(*verdict, Verdict::Fails, "{}: {}: {why}", figure.id, line.claim);
        }
    }
}

/// Changes the first cell of a shape so that the shape must fail: the cell misses the claim, or meets it where a contradiction is
/// stated.
fn off(shape: &Shape, (value, width): (f64, f64), (second, _): (f64, f64)) -> (f64, f64) {
    let is_to_hold = shape.contradicts.is_some();
    match (shape.at_least, shape.at_most, shape.not_below, shape.spread_at_most) {
        (.., Some(_)) => (value, 0.2),
        (_, _, Some(part), _) => (second * (1.0 - part) * 0.5, width),
        (Some(least), most, ..) if is_to_hold => {
            (second * most.map_or(least * 1.5, |most| f64::midpoint(least, most)), width)
        }
        (None, Some(most), ..) if is_to_hold => (second * most * 0.5, width),
        (Some(least), ..) => (second * least * 0.5, width),
        (None, Some(most), ..) => (second * most * 2.0, width),
        (None, None, None, None) => (value, width),
    }
}

/// [`off`] leaves a cell below the lower bound where a claim has two.
#[test]
fn a_claim_with_two_bounds_is_refused_above_the_upper_one_too() {
    for (figure, curve) in &curves() {
        for shape in figure.shapes.iter().filter(|shape| shape.contradicts.is_none()) {
            let (Some(_), Some(most)) = (shape.at_least, shape.at_most) else { continue };
            let mut cells = right(figure, curve);
            let ((row, column), (other_row, other_column)) = cells_of(figure, shape);
            cells[row][column].0 = cells[other_row][other_column].0 * most * 1.5;
            let (verdict, why) = &verdicts(figure, &cells)[&shape.claim];
            assert_eq!(*verdict, Verdict::Fails, "{}: {}: {why}", figure.id, shape.claim);
        }
    }
}

/// Indices of the two cells of a shape.
fn cells_of(figure: &Figure, shape: &Shape) -> ((usize, usize), (usize, usize)) {
    let second = shape.second_column.as_ref().unwrap_or(&shape.column);
    (places(figure, &shape.first, &shape.column)[0], places(figure, &shape.second, second)[0])
}

#[test]
fn what_the_papers_printed_keeps_every_claim_that_is_about_it() {
    for figure in all().unwrap().into_iter().filter(|figure| !figure.id.starts_with("000")) {
        let printed = |row: &str, column: &str| {
            let (row, column) = (figure.row(row)?, figure.column(column)?);
            figure.rows[row].published[column].number()
        };
        let number =
            |row: &Row| row.published.iter().map(|value| (value.number().unwrap_or(100.0), WIDTH)).collect();
        let found = verdicts(&figure, &figure.rows.iter().map(number).collect());
        for shape in &figure.shapes {
            let second = shape.second_column.as_ref().unwrap_or(&shape.column);
            if printed(&shape.first, &shape.column).is_some() && printed(&shape.second, second).is_some() {
                let (verdict, why) = &found[&shape.claim];
                assert_eq!(*verdict, Verdict::Holds, "{}: {}: {why}", figure.id, shape.claim);
            }
        }
    }
}
