mod claims;
mod curves;

use std::collections::BTreeMap;

use super::*;
use crate::report::Verdict;
use crate::stats::Summary;

fn figure(id: &str) -> Figure {
    let mut found = find(id).unwrap();
    assert_eq!(found.len(), 1, "{id}");
    found.remove(0)
}

/// Published values of a row, with `None` for missing ones.
fn published(id: &str, row: &str) -> Vec<Option<f64>> {
    let figure = figure(id);
    let row = figure.rows.iter().find(|candidate| candidate.name == row);
    row.unwrap().published.iter().map(Published::number).collect()
}

fn numbers(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().copied().map(Some).collect()
}

#[test]
fn every_file_is_as_it_should_be_and_every_folder_entry_is_listed() {
    let figures = all().unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../figures");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut ids: Vec<String> =
        figures.iter().map(|figure| format!("{}.toml", figure.id.replace('/', "-"))).collect();
    ids.sort();
    assert_eq!(files, ids);
}

#[test]
fn every_cell_names_an_experiment_with_options_that_fit() {
    for figure in all().unwrap() {
        for row in figure.rows.iter().filter(|row| row.not_run.is_none()) {
            for how in figure.columns.iter().filter_map(|column| column.run(row.plays.as_ref())) {
                assert!(crate::experiments::find(&how.run).is_some(), "{}: {}", figure.id, how.run);
                let options = crate::experiment::Options::default();
                let settings = [&figure.setting, &how.with, &row.setting];
                let chosen = settings.iter().try_fold(options, |o, setting| setting.change(&o)).unwrap();
                chosen.check().unwrap();
            }
        }
    }
}

#[test]
fn the_published_numbers_are_those_of_the_papers() {
    assert_eq!(published("001/fig1a", "TX itr=0 BASE"), numbers(&[30.0, 27.0, 314.0, 228.0, 603.0, 17.0]));
    assert_eq!(
        published("001/fig1a", "TX itr=0 CSB"),
        numbers(&[711.0, 332.0, 3874.0, 2272.0, 1925.0, 17.2])
    );
    assert_eq!(published("001/fig1a", "RX itr=100 CSB")[..4], [None, None, None, Some(2140.0)]);
    assert_eq!(
        published("001/fig1b", "TX itr=100 SC"),
        numbers(&[316.0, 196.0, 2291.0, 1850.0, 1730.0, 4.4])
    );
    assert_eq!(published("001/fig1b", "RX pkt-gen")[..3], numbers(&[576.0, 517.0, 6040.0])[..]);
    assert_eq!(published("001/fig1c", "itr=0 CSB"), numbers(&[440.0, 281.0, 3284.0, 1787.0, 1800.0, 7.1]));
    assert_eq!(published("001/fig1d", "itr=100 SC"), numbers(&[540.0, 299.0, 3050.0, 907.0, 899.0, 1.9]));
    assert_eq!(published("001/fig1d", "itr=0 BASE")[5], None);
    assert_eq!(published("001/fig1e", "RX GH"), numbers(&[5400.0, 3310.0, 38660.0]));
    assert_eq!(published("001/fig2a", "VMware TX GG"), numbers(&[65.0, 64.0, 748.0, 3375.0, 4138.0, 9.2]));
    assert_eq!(published("001/fig2b", "2 cpu, SC"), numbers(&[225.0, 176.0, 2064.0, 1060.0, 1100.0, 14.7]));
    assert_eq!(published("004/tx", "64 KB"), [Some(0.91), Some(476.0), None]);
    assert_eq!(published("004/tx", "20 B"), numbers(&[32.0, 2.5, 1.0]));
    assert_eq!(published("004/rx", "15 KB"), numbers(&[127.0, 15.0]));
    assert_eq!(published("004/latency", "e1000")[..3], numbers(&[17.0, 2.0, 12.0])[..]);
    assert_eq!(published("004/latency", "e1000")[3..], [None, Some(60.0)]);
    assert_eq!(published("004/virtio-tx", "20 B")[..4], numbers(&[270.0, 43.3, 32.0, 17.3])[..]);
    assert_eq!(published("004/virtio-rx", "500 B"), numbers(&[970.0, 700.0, 1.38, 430.0, 590.0, 0.72]));
    assert_eq!(published("004/virtio-latency", "virtio-net"), numbers(&[29.0, 35.0]));
    // The paper was unable to present the CPU time of each router.
    let table1 = published("003/table1", "VR1 800");
    assert_eq!(table1[..3], numbers(&[800.0, 400.0, 85.0])[..]);
    assert_eq!((&table1[3..5], &table1[5..]), (&[None; 2][..], &numbers(&[705.0, 400.0, 1105.0])[..]));
    assert_eq!(published("003/table2", "VR1 800")[2..5], numbers(&[60.0, 33.0, 93.0])[..]);
    assert_eq!(published("003/table4", "VR2 500")[2..5], numbers(&[59.0, 41.0, 100.0])[..]);
    assert_eq!(published("003/table5", "VR2 400")[2..5], numbers(&[60.0, 33.0, 93.0])[..]);
    assert_eq!(published("003/table3", "VR2 688")[5..], numbers(&[667.0, 633.0, 1300.0])[..]);
    let overload = figure("003/fig4").column("1.0 (1488)").unwrap();
    let of = |row| published("003/fig4", row)[overload];
    assert_eq!([of("SR-IOV (LXC)"), of("SR-IOV (KVM)")], [Some(1300.0), Some(1250.0)]);
    assert_eq!(of("macvtap (KVM), vhost thread"), Some(100.0));
    assert_eq!(published("003/fig7", "macvtap (KVM)")[4], Some(0.0));
    assert_eq!(published("003/fig7", "SR-IOV (KVM)")[7], Some(949.0));
}

/// Numbers in the text of paper 000, which has its curves only as pictures: figure, row, column, number.
const PRINTED_IN_000: [(&str, &str, &str, f64); 19] = [
    ("000/fig2", "4 cores, affinity", "peak", 900.0),
    ("000/fig2", "4 cores, bind", "peak", 900.0),
    ("000/fig3", "2 cores", "peak", 900.0),
    ("000/fig5", "1 vhost, 1 vCPU, own cores", "peak", 900.0),
    ("000/fig8", "macvtap", "peak", 900.0),
    ("000/fig8", "xdp (netmap)", "peak", 650.0),
    ("000/fig8", "xdp (netmap)", "in overload", 650.0),
    ("000/fig8", "vhost-net on macvtap", "peak", 900.0),
    ("000/fig9", "vhost-net, 4 cores", "peak", 900.0),
    ("000/fig9", "vhost-net, 4 cores", "active", 3.0),
    ("000/fig9", "vhost-net, 2 cores", "active", 3.0),
    ("000/fig9", "xdp (netmap)", "peak", 650.0),
    ("000/fig9", "xdp (netmap)", "in overload", 650.0),
    ("000/fig9", "xdp (netmap)", "active", 2.0),
    ("000/fig18", "4 cores, 1 router, bind", "peak", 900.0),
    ("000/fig19", "2 cores, no bind", "peak", 100.0),
    ("000/fig19", "2 cores, case A", "peak", 250.0),
    ("000/fig19", "2 cores, case A", "in overload", 120.0),
    ("000/fig19", "2 cores, case B", "peak", 200.0),
];

#[test]
fn what_paper_000_published_are_the_numbers_of_its_text() {
    let name = |id: &str, row: &str, column: &str| format!("{id}: {row} | {column}");
    let wanted = BTreeMap::from(PRINTED_IN_000.map(|(id, row, column, n)| (name(id, row, column), n)));
    let mut found = BTreeMap::new();
    for figure in all().unwrap().iter().filter(|figure| figure.id.starts_with("000/")) {
        for row in &figure.rows {
            for (column, published) in figure.columns.iter().zip(&row.published) {
                let number = published.number().map(|n| (name(&figure.id, &row.name, &column.name), n));
                found.extend(number);
            }
        }
    }
    assert_eq!(found, wanted);
    // Its 900 kpps are those of four cores, which this figure has not.
    assert_eq!(published("003/macvtap", "two cores, bound"), [None, None]);
}

#[test]
fn a_name_stands_for_a_figure_or_for_all_its_parts() {
    let ids = |name| find(name).unwrap().iter().map(|figure| figure.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids("001/fig1").len(), 5);
    assert_eq!(ids("004/virtio"), ["004/virtio-tx", "004/virtio-rx", "004/virtio-latency"]);
    assert_eq!(ids("004/tx"), ["004/tx"]);
    assert!(ids("001").is_empty() && ids("004/virt").is_empty() == ids("004/t").is_empty());
    assert!(ids("forward").is_empty());
}

#[test]
fn the_slips_of_the_papers_are_found_and_no_others() {
    let of = |id| slips(&figure(id));
    let all: Vec<String> = all().unwrap().iter().flat_map(slips).collect();
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(of("001/fig1d")[0].contains("itr=100 SC | Mbps says 3050, but 299 Kpps make 3492"), "{all:#?}");
    assert!(of("004/tx")[0].contains("20 B | throughput says 2.5, but 32 Kpps make 5.12"), "{all:#?}");
    assert!(of("004/virtio-tx")[0].contains("20 B | gain says 17.3x, but 270 Kpps make 8.44"), "{all:#?}");
}

#[test]
fn a_file_that_makes_no_sense_is_refused() {
    let good = "id = \"9/x\"\ntitle = \"t\"\n[[column]]\nname = \"c\"\nunit = \"Kpps\"\n[[row]]\nname = \"r\"\n\
                plays = \"tx\"\npublished = [1]\n";
    Figure::parse(good).unwrap();
    let wrong = [
        good.replace("[1]", "[1, 2]"),
        good.replace("[1]", "[\"many\"]"),
        good.replace("plays = \"tx\"\n", ""),
        good.replace("unit", "colour"),
        format!("missing = \"both\"\n{good}"),
        format!("draws = \"kvm-path\"\n{good}"),
        "id = \"9/x\"\ntitle = \"t\"\ndraws = \"a horse\"".to_owned(),
        format!("seconds = 0.0\n{good}"),
        format!("headline = {{ what = \"w\", column = \"d\", published = 1 }}\n{good}"),
        "id = \"9/x\"\ntitle = \"neither\"".to_owned(),
        format!("{good}[[column]]\nname = \"d\"\nunit = \"Mbps\"\nof = \"e\"\n"),
        format!(
            "{good}[[shape]]\nclaim = \"x\"\ncolumn = \"c\"\nfirst = \"r\"\nsecond = \"s\"\nat_least = 1\n"
        ),
        format!("{good}[[shape]]\nclaim = \"x\"\ncolumn = \"c\"\nfirst = \"r\"\nsecond = \"r\"\n"),
    ];
    for text in wrong {
        assert!(Figure::parse(&text).is_err(), "{text}");
    }
    let word = good.replace("published", "setting = { mode = \"fast\" }\npublished");
    let options = crate::experiment::Options::default();
    assert!(Figure::parse(&word).unwrap().rows[0].setting.change(&options).is_err());
}

/// Builds a figure with one measured column and two rows, and the given results for it.
fn two_rows(first: &[f64], second: Option<&[f64]>) -> (Figure, FigureResults) {
    let text = "id = \"9/x\"\ntitle = \"t\"\n[[column]]\nname = \"c\"\nunit = \"Kpps\"\n\
                [[column]]\nname = \"m\"\nunit = \"Mbps\"\nof = \"c\"\npayload = 1000\n\
                [[row]]\nname = \"a\"\nplays = \"tx\"\npublished = [4, 32]\n\
                [[row]]\nname = \"b\"\nplays = \"tx\"\npublished = [2, 99]\n\
                [[shape]]\nclaim = \"a is twice b\"\ncolumn = \"c\"\nfirst = \"a\"\nsecond = \"b\"\nat_least = 2\n";
    let figure = Figure::parse(text).unwrap();
    let cells = [Some(first), second].into_iter().zip(&figure.rows).map(|(samples, row)| {
        let found = match samples.and_then(Summary::of) {
            Some(summary) => CellResult::WorkedOut(summary),
            None => CellResult::NotRun("nobody is there".to_owned()),
        };
        let shown = |n: usize| row.published[n].shown();
        let missing = CellResult::NotRun("nobody is there".to_owned());
        vec![
            Cell { published: shown(0), number: row.published[0].number(), found, rounds: Vec::new() },
            Cell { published: shown(1), number: None, found: missing, rounds: Vec::new() },
        ]
    });
    let played = FigureResults { cells: cells.collect() };
    (figure, played)
}

fn verdict(first: &[f64], second: Option<&[f64]>) -> (Verdict, String) {
    let (figure, played) = two_rows(first, second);
    judge(&figure, &figure.shapes[0], &played)
}

#[test]
fn a_shape_is_judged_by_the_widest_interval_that_both_cells_allow() {
    let around = |middle: f64| [0.95, 0.97, 1.0, 1.0, 1.03, 1.05].map(|part| part * middle);
    assert_eq!(verdict(&around(3.0), Some(&around(1.0))).0, Verdict::Holds);
    assert_eq!(verdict(&around(1.5), Some(&around(1.0))).0, Verdict::Fails);
    let (open, why) = verdict(&around(2.0), Some(&around(1.0)));
    assert_eq!(open, Verdict::NotRun);
    assert!(why.contains("ratio 2.00 [1.81, 2.21], asked at least 2"), "{why}");
    let (few, why) = verdict(&[3.0; 5], Some(&[1.0; 5]));
    assert!(few == Verdict::NotRun && why.contains("fewer than 6"), "{why}");
    let (missing, why) = verdict(&[3.0; 6], None);
    assert!(missing == Verdict::NotRun && why.contains("b | c: nobody is there"), "{why}");
    // Zero samples in the second cell leave the ratio open upwards.
    assert_eq!(verdict(&around(9.0), Some(&[0.0, 1.0, 1.0, 1.0, 1.0, 1.0])).0, Verdict::Holds);
    let (zero, why) = verdict(&[3.0; 6], Some(&[0.0; 6]));
    assert!(zero == Verdict::NotRun && why.contains("nothing to divide by"), "{why}");
}

#[test]
fn a_table_shows_ours_beside_theirs_and_why_a_cell_is_empty() {
    let (figure, played) = two_rows(&[3.456; 6], None);
    let text = table(&figure, &played);
    assert!(text.contains("| a | 3.46 (4) | - (32) |"), "{text}");
    assert!(text.contains("| b | - (2) | - (99) |"), "{text}");
    assert!(text.contains("* not run: nobody is there"), "{text}");
    assert!(text.contains("* a slip in the paper: b | m says 99, but 2 Kpps make 16.0"), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.iter().all(|row| row.matches('|').count() == 4), "{text}");
}

#[test]
fn the_headline_is_the_best_cell_beside_the_papers_number() {
    let (mut figure, mut played) = two_rows(&[3.456; 6], Some(&[5.0; 6]));
    assert!(!table(&figure, &played).contains("headline"));
    let column = "c".to_owned();
    figure.headline = Some(Headline { what: "most of all".to_owned(), column, published: 1200.0 });
    let told = |figure: &Figure, played: &FigureResults| {
        let text = table(figure, played);
        text.lines().find(|line| line.contains("headline")).map(str::to_owned)
    };
    let wanted = "* headline: most of all: 5.00 Kpps (b), the paper's 1200";
    assert_eq!(told(&figure, &played).as_deref(), Some(wanted));
    played.cells[1][0].found = CellResult::NotRun("too few CPUs".to_owned());
    assert!(told(&figure, &played).is_some_and(|line| line.contains("3.46 Kpps (a)")));
    played.cells[0][0].found = CellResult::NotRun("too few CPUs".to_owned());
    assert!(told(&figure, &played).is_some_and(|line| line.ends_with("not run, the paper's 1200 Kpps")));
    // It is item 33 of the papers, and of a column that there is.
    assert_eq!(super::find("000/fig18").unwrap()[0].headline.as_ref().unwrap().published, 1200.0);
}

#[test]
fn a_figure_that_is_missing_in_the_paper_says_so() {
    let figure = figure("001/fig3");
    let text = table(&figure, &FigureResults::default());
    assert!(text.contains("announces") && !text.contains("|--"), "{text}");
}

#[test]
fn cells_that_cannot_be_run_say_why_and_leave_the_others_alone() {
    let text = "id = \"9/x\"\ntitle = \"t\"\n[[column]]\nname = \"c\"\nunit = \"Kpps\"\n\
                runs = { wire = { run = \"generator\" }, none = { run = \"nothing\" } }\n\
                [[column]]\nname = \"m\"\nunit = \"Mbps\"\nof = \"c\"\npayload = 1000\n\
                [[row]]\nname = \"a\"\nplays = \"none\"\npublished = [1, 1]\n\
                [[row]]\nname = \"b\"\nplays = \"wire\"\npublished = [1, \"-\"]\n\
                [[row]]\nname = \"c\"\nplays = \"wire\"\npublished = [\"-\", \"-\"]\n";
    let figure = Figure::parse(text).unwrap();
    let options = crate::experiment::Options { seconds: 0.01, repeat: 6, ..Default::default() };
    let mut out = Vec::new();
    let played = play(&figure, &options, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("NOT-RUN 9/x a | c: there is no experiment `nothing`"), "{out}");
    assert!(out.contains("RESULT name=generator/"), "{out}");
    let rate = played.cell(&figure, "b", "c").unwrap().summary().unwrap();
    let throughput = played.cell(&figure, "b", "m").unwrap().summary().unwrap();
    assert!((throughput.median / rate.median - 8.0).abs() < 1e-9 && rate.n == 6);
    assert!(played.cell(&figure, "c", "c").unwrap().summary().is_none());
}

#[test]
fn a_table_of_cases_in_turn_has_the_interval_of_the_median_and_ratios_only_where_there_are_some() {
    let text = |beside: &str| {
        let text = format!(
            "id = \"9/x\"\ntitle = \"t\"\nin_turn = 6\n{beside}\
             [[column]]\nname = \"c\"\nunit = \"Kpps\"\nruns = {{ wire = {{ run = \"generator\" }} }}\n\
             [[row]]\nname = \"a\"\nplays = \"wire\"\npublished = [1]\n"
        );
        let figure = Figure::parse(&text).unwrap();
        let options = crate::experiment::Options { seconds: 0.01, repeat: 6, ..Default::default() };
        let played = play(&figure, &options, &mut Vec::new()).unwrap();
        (table(&figure, &played), played.cells[0][0].summary().unwrap())
    };
    let (alone, summary) = text("");
    let head = "| in turn | median [95 %] | min..max, n | mean ± 99 % | c2c ns |\n";
    assert!(alone.contains(head) && !alone.contains("ratio"), "{alone}");
    let (low, high) = summary.ci95.unwrap();
    let shown = [summary.median, low, high, summary.min, summary.max].map(super::table::three_digits);
    let [median, low, high, min, max] = shown;
    assert!(alone.contains(&format!("| a, c | {median} [{low}, {high}] | {min}..{max}, 6 | ")), "{alone}");
    let (beside, _) = text("beside = \"a\"\n");
    assert!(
        beside.contains(" | ratio to a [95 %] |\n") && beside.contains(" 1.00 [1.00, 1.00] |"),
        "{beside}"
    );
    for text in [alone, beside] {
        let rows = text.lines().skip_while(|line| !line.starts_with("| in turn"));
        let bars: Vec<usize> = rows.take(3).map(|row| row.matches('|').count()).collect();
        assert!(bars.iter().all(|n| *n == bars[0]), "{text}");
    }
}

/// Judges figure 13 with these medians of peak and overload for the lengths 5, 35, 50, 110, 500 and auto; all
/// rounds lie within 2 % of them.
fn figure_13(medians: [(f64, f64); 6]) -> Vec<Verdict> {
    let figure = figure("000/fig13");
    let cell = |median: f64| {
        let rounds: Vec<f64> = (0..15).map(|n| median * (0.98 + f64::from(n * 7 % 15) / 350.0)).collect();
        let found = CellResult::WorkedOut(Summary::of(&rounds).unwrap());
        Cell { published: "-".to_owned(), number: None, found, rounds }
    };
    let cells = medians.iter().map(|&(peak, overload)| vec![cell(peak), cell(overload)]).collect();
    let played = FigureResults { cells };
    let about_auto = figure.shapes.iter().filter(|shape| shape.claim.starts_with("auto"));
    about_auto.map(|shape| judge(&figure, shape, &played).0).collect()
}

#[test]
fn auto_is_judged_beside_the_papers_curve_of_fixed_lengths() {
    use Verdict::{Fails, Holds};
    // The paper's result: 110 has the highest peak and falls in overload, 35 and 50 are flat, 5 and 500 are
    // bad.
    let fixed = [(200.0, 200.0), (290.0, 290.0), (300.0, 300.0), (320.0, 250.0), (320.0, 200.0)];
    let with = |auto| figure_13([fixed[0], fixed[1], fixed[2], fixed[3], fixed[4], auto]);
    assert_eq!(with((320.0, 318.0)), [Holds; 6]);
    assert_eq!(with((306.0, 292.0)), [Holds; 6], "5 % below is allowed");
    assert_eq!(with((320.0, 290.0)), [Holds, Holds, Holds, Holds, Holds, Fails], "it falls in overload");
    assert_eq!(
        with((295.0, 295.0)),
        [Holds, Holds, Holds, Fails, Fails, Holds],
        "it is as low as a short one"
    );
    assert_eq!(with((150.0, 100.0)), [Fails; 6]);
}

#[test]
fn an_interval_that_is_too_wide_says_nothing_and_a_narrow_one_counts() {
    let summary = |median, low| Summary {
        n: 9,
        median,
        min: low,
        max: median,
        mean: median,
        ci95: Some((low, median)),
    };
    let verdict = |first: f64, second| {
        let (mut figure, mut played) = two_rows(&[first; 9], Some(&[1.0; 9]));
        figure.shapes[0].at_least = None;
        figure.shapes[0].not_below = Some(0.05);
        played.cells[1][0].found = CellResult::WorkedOut(second);
        judge(&figure, &figure.shapes[0], &played).0
    };
    assert_eq!(verdict(92.0, summary(100.0, 91.0)), Verdict::Holds, "within the interval");
    assert_eq!(verdict(90.0, summary(100.0, 91.0)), Verdict::Fails);
    assert_eq!(verdict(90.0, summary(100.0, 50.0)), Verdict::NotRun);
    assert_eq!(verdict(96.0, summary(100.0, 50.0)), Verdict::Holds, "its own median is near enough");
    assert_eq!(verdict(49.0, summary(100.0, 50.0)), Verdict::Fails, "below all of a wide interval");
}

#[test]
fn cases_that_run_in_turn_run_once_and_are_compared_round_by_round() {
    let text = "id = \"9/x\"\ntitle = \"t\"\nin_turn = 7\nbeside = \"a\"\n[[column]]\nname = \"c\"\nunit = \"Kpps\"\n\
                runs = { wire = { run = \"generator\" }, none = { run = \"nothing\" } }\n\
                [[column]]\nname = \"m\"\nunit = \"Mbps\"\nof = \"c\"\npayload = 1000\n\
                [[column]]\nname = \"x\"\nunit = \"times\"\nof = \"m\"\nover = \"c\"\n\
                [[row]]\nname = \"a\"\nplays = \"wire\"\npublished = [1, 1, 1]\n\
                [[row]]\nname = \"b\"\nplays = \"wire\"\npublished = [1, 1, 1]\n\
                [[row]]\nname = \"n\"\nplays = \"none\"\npublished = [1, 1, 1]\n\
                [[row]]\nname = \"u\"\nplays = \"wire\"\nsetting = { frame = 128 }\npublished = [\"-\", \"-\", \"-\"]\n";
    let figure = Figure::parse(text).unwrap();
    let options = crate::experiment::Options { seconds: 0.01, repeat: 1, ..Default::default() };
    let mut out = Vec::new();
    let played = play(&figure, &options, &mut out).unwrap();
    let [a, b] = ["a", "b"].map(|row| played.cell(&figure, row, "c").unwrap().rounds.clone());
    assert!(a.len() == 7 && a == b, "{a:?} {b:?}");
    // Cells computed from others keep their rounds.
    let [worked, ratio] = ["m", "x"].map(|column| played.cell(&figure, "a", column).unwrap().rounds.clone());
    assert_eq!(worked, a.iter().map(|rate| rate * 8.0).collect::<Vec<_>>());
    assert!(ratio.len() == 7 && ratio.iter().all(|ratio| (ratio - 8.0).abs() < 1e-9), "{ratio:?}");
    assert!(played.cell(&figure, "u", "c").unwrap().summary().is_none(), "nobody asks for it");
    let text = table(&figure, &played);
    assert!(text.contains(" 7 | ") && text.contains("| 1.00 [1.00, 1.00] |"), "{text}");
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains("NOT-RUN 9/x n | c: there is no experiment `nothing`"), "{out}");
    assert_eq!(out.matches("RESULT ").count(), 2, "once in each row: {out}");
}

#[test]
fn what_is_compared_is_played_in_turn_in_rounds_enough_for_an_interval() {
    for figure in all().unwrap().iter().filter(|figure| figure.plays_something()) {
        assert!(figure.rounds >= 6, "{}: {} rounds", figure.id, figure.rounds);
    }
}

#[test]
fn cases_that_run_in_turn_have_names_by_which_they_are_told_apart() {
    let options = crate::experiment::Options { cpus: vec![0, 1, 2, 3, 4], ..Default::default() };
    for figure in all().unwrap() {
        let mut known = BTreeMap::new();
        for row in figure.rows.iter().filter(|row| row.not_run.is_none()) {
            for how in figure.columns.iter().filter_map(|column| column.run(row.plays.as_ref())) {
                let chosen = play::chosen(&figure, row, how, &options).unwrap();
                let found = play::experiment(how, &chosen).unwrap();
                let name = format!("{}/{}", found.id, found.case);
                let played = format!("{chosen:?}");
                let first = known.entry(name.clone()).or_insert_with(|| played.clone());
                assert_eq!(*first, played, "{}: two cases are {name}", figure.id);
            }
        }
    }
}

#[test]
fn each_cell_is_in_the_unit_of_its_column() {
    let options = crate::experiment::Options { cpus: vec![0, 1, 2, 3, 4], ..Default::default() };
    for figure in all().unwrap() {
        for row in figure.rows.iter().filter(|row| row.not_run.is_none()) {
            for column in &figure.columns {
                let run = column.run(row.plays.as_ref()).filter(|how| how.take.is_none());
                let Some(how) = run else { continue };
                let chosen = play::chosen(&figure, row, how, &options).unwrap();
                let unit = play::experiment(how, &chosen).unwrap().unit;
                assert!(play::factor(unit, &column.unit).is_ok(), "{} {}: {unit}", figure.id, column.name);
            }
        }
    }
    assert_eq!(play::factor("mpps", "Kpps").unwrap(), 1000.0);
    assert_eq!(play::factor("mbps", "Mbps").unwrap(), 1.0);
    assert!(play::factor("ms", "us").is_err() && play::factor("mpps", "Mbps").is_err());
}

#[test]
fn a_figure_that_is_drawn_has_no_table() {
    let figure = figure("003/fig1");
    assert!(!figure.plays_something());
    let text = table(&figure, &FigureResults::default());
    assert!(text.contains("003/fig1: forwarding path") && !text.contains("|--"), "{text}");
}
