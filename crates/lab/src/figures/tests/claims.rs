//! Claims about the sharing of cores: lines, and the case that each cell measures.

use super::curves::{cell, figure};
use super::*;
use crate::report::Verdict;
use crate::stats::Summary;

/// Figures with claims about which thread gets the core.
const ABOUT_CORES: [&str; 21] = [
    "000/fig2",
    "000/fig3",
    "000/fig4",
    "000/fig5",
    "000/fig6",
    "000/fig7",
    "000/fig10",
    "000/fig11",
    "000/fig12",
    "000/fig14",
    "000/fig15",
    "000/fig18",
    "000/fig19",
    "003/macvtap",
    "003/table1",
    "003/control1",
    "003/table2",
    "003/table3",
    "003/control3",
    "003/table4",
    "003/table5",
];

/// Results of a figure in which `value` gives each cell by row and column.
fn played(figure: &Figure, value: impl Fn(&str, &str) -> f64) -> FigureResults {
    let row = |row: &Row| {
        figure.columns.iter().map(|column| cell(value(&row.name, &column.name), 0.005, 0)).collect()
    };
    FigureResults { cells: figure.rows.iter().map(row).collect() }
}

fn verdicts(id: &str, value: impl Fn(&str, &str) -> f64) -> Vec<(String, Verdict, String)> {
    let figure = figure(id);
    let played = played(&figure, value);
    let judged = judge_all(&figure, &played);
    judged.into_iter().map(|judged| (judged.claim.to_owned(), judged.verdict, judged.why)).collect()
}

#[test]
fn a_rate_in_proportion_to_its_reservation_holds_and_other_curves_fail() {
    for id in ["000/fig10", "000/fig11", "000/fig12"] {
        let of = |value: &dyn Fn(f64) -> f64| {
            let figure = figure(id);
            let at = |row: &str| figure.rows[figure.row(row).unwrap()].at.unwrap_or(1.0);
            let lines = verdicts(id, |row, _| value(at(row)));
            lines.into_iter().filter(|(claim, ..)| claim.contains("proportional")).collect::<Vec<_>>()
        };
        let all = |value: &dyn Fn(f64) -> f64, wanted: Verdict| {
            let found = of(value);
            assert_eq!(found.len(), 2);
            assert!(found.iter().all(|(_, verdict, _)| *verdict == wanted), "{id}: {found:?}");
        };
        all(&|q| (500.0 * q).min(400.0), Verdict::Holds);
        all(&|q| 300.0 * q * q, Verdict::Fails);
        all(&|q| 50.0 + 200.0 * q, Verdict::Fails);
        // A curve without a point below the plateau proves nothing.
        all(&|_| 400.0, Verdict::NotRun);
    }
}

#[test]
fn a_line_whose_cells_are_too_noisy_is_left_open() {
    let figure = figure("000/fig10");
    let mut played =
        played(&figure, |row, _| figure.rows[figure.row(row).unwrap()].at.unwrap_or(1.0) * 400.0);
    let line = &figure.lines[0];
    let (row, column) = (figure.row(&line.rows[0]).unwrap(), figure.column(&line.column).unwrap());
    let rounds: Vec<f64> = (0..10).map(|n| 140.0 * (0.8 + f64::from(n) * 0.04444)).collect();
    let cell = &mut played.cells[row][column];
    (cell.found, cell.rounds) = (CellResult::WorkedOut(Summary::of(&rounds).unwrap()), rounds);
    let judged = judge_all(&figure, &played);
    let found = judged.iter().find(|judged| judged.claim == line.claim).unwrap();
    assert!(found.verdict == Verdict::NotRun && found.why.contains("too wide"), "{}", found.why);
}

#[test]
fn a_machine_that_is_slower_in_some_rounds_is_not_what_a_line_is_judged_by() {
    let figure = figure("000/fig10");
    let at = |row: &str| figure.rows[figure.row(row).unwrap()].at.unwrap_or(1.0);
    let mut played = played(&figure, |row, _| at(row) * 400.0);
    for cell in played.cells.iter_mut().flatten() {
        let rounds = (0..).zip(&cell.rounds).map(|(n, rate)| rate * (0.8 + f64::from(n) * 0.04444));
        cell.rounds = rounds.collect();
        cell.found = CellResult::WorkedOut(Summary::of(&cell.rounds).unwrap());
    }
    let verdict = |played: &FigureResults| {
        let judged = judge_all(&figure, played);
        judged.into_iter().find(|judged| judged.claim == figure.lines[0].claim).unwrap()
    };
    let found = verdict(&played);
    assert!(found.verdict == Verdict::Holds, "{}", found.why);
    // Without alternating rounds, noise cannot be told from a deviation of the curve.
    played.cells.iter_mut().flatten().for_each(|cell| cell.rounds.clear());
    let found = verdict(&played);
    assert!(found.verdict == Verdict::NotRun && found.why.contains("too wide"), "{}", found.why);
}

#[test]
fn the_rates_of_unprotected_routers_fail_where_protection_is_claimed() {
    // Rates of table 4 in place of those of table 5.
    let lost = |_: &str, column: &str| if column == "VR1" { 682.0 } else { 800.0 };
    let failed = verdicts("003/table5", lost).iter().filter(|(_, v, _)| *v == Verdict::Fails).count();
    assert_eq!(failed, 8);
}

#[test]
fn a_virtual_machine_that_is_worse_with_many_routes_or_nics_fails_by_these_only() {
    let falls = |what: &'static str| {
        let ratio = move |row: &str, column: &str| match column {
            "ratio" if row.ends_with(what) && !row.starts_with("2 ") => 0.8,
            "ratio" => 0.9,
            _ => 1000.0,
        };
        let found = verdicts("002/scalability", ratio);
        let failed = found.iter().filter(|(_, verdict, _)| *verdict == Verdict::Fails);
        failed.map(|(claim, ..)| claim.clone()).collect::<Vec<_>>()
    };
    assert_eq!((falls("routes").len(), falls("NICs").len()), (4, 3));
    assert!(falls("routes").iter().all(|claim| claim.contains("beside 2 routes")), "{:?}", falls("routes"));
    assert!(falls("nothing").is_empty());
}

/// Each group of rows is compared within itself, so its rows may differ in what the group is about, and in nothing else. Beyond two
/// routes there are as many flows as destinations, unless there are more flows anyway.
#[test]
fn each_group_of_rows_about_scalability_varies_one_parameter() {
    use crate::experiment::Options;
    /// Sets what a group of rows is about to one value.
    type Reset = fn(&mut Options);
    let figure = figure("002/scalability");
    let chosen = |row: &Row| {
        let how = figure.columns[0].run(row.plays.as_ref()).unwrap();
        play::chosen(&figure, row, how, &Options::default()).unwrap()
    };
    let groups: [(&str, usize, Reset); 4] = [
        ("routes", 5, |options| options.routes = 0),
        ("flow", 5, |options| options.flows = 0),
        ("NICs", 4, |options| options.nics = 0),
        ("octets", 6, |options| options.frame = 0),
    ];
    for (what, count, reset) in groups {
        let rows: Vec<Options> = figure
            .rows
            .iter()
            .filter(|row| row.name.trim_end_matches('s').ends_with(what.trim_end_matches('s')))
            .map(chosen)
            .collect();
        assert_eq!(rows.len(), count, "{what}");
        let others = |options: &Options| {
            let mut options = options.clone();
            reset(&mut options);
            format!("{options:?}")
        };
        assert!(rows.iter().all(|row| others(row) == others(&rows[0])), "{what}");
        let is_few = |row: &Options| row.routes > 2 && row.flows < row.routes;
        assert!(!rows.iter().any(is_few), "{what}: the number of routes decides on that of flows");
    }
}

#[test]
fn every_cell_about_cores_names_one_case() {
    let options = crate::experiment::Options { cpus: vec![0, 1, 2, 3, 4], ..Default::default() };
    for id in ABOUT_CORES {
        let figure = figure(id);
        for row in &figure.rows {
            let mut cells = 0;
            for how in figure.columns.iter().filter_map(|column| column.run(row.plays.as_ref())) {
                let chosen = play::chosen(&figure, row, how, &options).unwrap();
                let found = play::experiment(how, &chosen).map(|found| found.case);
                let case = how.case.as_deref().unwrap();
                assert!(found.as_ref().is_ok_and(|name| name.ends_with(case)), "{id}: {case}: {found:?}");
                cells += 1;
            }
            assert!(cells > 0, "{id}: {} plays nothing", row.name);
        }
    }
}
