use super::*;

fn run_of(commit: &str, line: &str) -> Run {
    let text = format!("# AMD EPYC, 2 CPUs, Linux 6.18\n# commit {commit}\n# 2026-11-23\n{line}\n");
    Run::parse("000/fig13", &text).unwrap()
}

#[test]
fn a_run_that_another_one_takes_the_place_of_stays_whatever_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let fails = "SHAPE 000/fig13 fails: a (peak): b";
    let place = run_of("aaaaaaa", fails).keep(folder.path()).unwrap();
    run_of("aaaaaaa", "SHAPE 000/fig13 not-run: a (peak): b").keep(folder.path()).unwrap();
    let last = run_of("bbbbbbb", "SHAPE 000/fig13 holds: a (peak): b");
    assert_eq!(last.keep(folder.path()).unwrap(), place);
    let kept = runs(&folder.path().join("results")).unwrap();
    assert_eq!((kept.len(), &kept[0].lines), (1, &last.lines));
    let lines: Vec<&String> = kept[0].earlier.iter().flat_map(|run| &run.lines).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().any(|line| *line == fails), "{lines:?}");
}

#[test]
fn a_bench_is_kept_though_something_is_missing_and_says_so() {
    let lines = || vec!["RESULT name=boot unit=ms median=2 min=1 max=3 n=5".to_owned()];
    assert_eq!(with_missing(lines(), &[]), Some(lines()));
    let kept = with_missing(lines(), &["ovs".to_owned(), "l3fwd".to_owned()]).unwrap();
    let run = Run { lines: kept, ..run_of("aaaaaaa", "") };
    assert_eq!((run.lines[0].clone(), run.missing()), (lines()[0].clone(), Some("ovs, l3fwd")));
    assert_eq!(with_missing(Vec::new(), &["ovs".to_owned()]), None);
}

#[test]
fn a_figure_is_repeated_as_often_as_is_said_and_else_as_its_file_says() {
    assert_eq!(
        of_figure("ringroad-lab", "000/fig13", Some(6)).shown(),
        "ringroad-lab run 000/fig13 --repeat 6"
    );
    assert_eq!(of_figure("ringroad-lab", "000/fig13", None).shown(), "ringroad-lab run 000/fig13");
    let drawn = of_figure("ringroad-lab", "003/fig9", None).shown();
    assert!(
        drawn.starts_with("ringroad-lab run 003/fig9 --svg ") && drawn.ends_with("docs/diagrams"),
        "{drawn}"
    );
}
