use super::*;
use crate::figures::{Cell, CellResult};
use crate::stats::Summary;

#[test]
fn a_curve_is_where_its_points_are() {
    let text = "id = \"9/x\"\ntitle = \"t\"\n[[column]]\nname = \"a\"\nunit = \"Kpps\"\nx = 0.5\n\
                [[column]]\nname = \"b\"\nunit = \"Kpps\"\nx = 1.0\n[[row]]\nname = \"r\"\nplays = \"p\"\n\
                published = [\"-\", \"-\"]\n";
    let figure = Figure::parse(text).unwrap();
    let cell = |value: f64| Cell {
        published: "-".to_owned(),
        number: None,
        found: CellResult::WorkedOut(Summary::of(&[value]).unwrap()),
        rounds: Vec::new(),
    };
    let drawn = chart(&figure, &FigureResults { cells: vec![vec![cell(100.0), cell(50.0)]] });
    let lines: Vec<&str> = drawn.lines().collect();
    let column = |line: &str| line.find('A').map(|at| at - 11);
    assert_eq!(column(lines[2]), Some(WIDTH / 2), "{drawn}");
    assert_eq!(column(lines[2 + HEIGHT / 2]), Some(WIDTH), "{drawn}");
    assert!(lines[1].contains("100.0 Kpps") && drawn.contains("A r"), "{drawn}");
    assert_eq!(chart(&figure, &FigureResults::default()), "");
}
