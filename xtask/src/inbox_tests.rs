use super::*;

fn programs<const N: usize>(names: [&str; N]) -> Programs {
    Programs { ringroad: "/x/ringroad".into(), tests: Vec::new(), due: names.map(str::to_owned).to_vec() }
}

#[test]
fn the_script_runs_every_test_that_is_due_and_fails_if_one_does() {
    let text = script(&programs(["t1 b::c", "t2 d"]));
    for line in ["Running t1 b::c (in", "/tests/t1 b::c --exact", "/tests/t2 d --exact", "exit $failed"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// Outputs of programs, each with its number of failed tests; none: it gave no result.
fn said<const N: usize>(programs: [(&str, Option<usize>); N]) -> Vec<(String, Tally)> {
    let said = programs.map(|(name, failed)| {
        let mut tally = Tally::default();
        tally.line(&format!("     Running {name}{IN_THE_BOX}"));
        if let Some(failed) = failed {
            tally.line("failures:");
            (0..failed).for_each(|n| _ = tally.line(&format!("---- test{n} stdout ----")));
            tally.line(&format!("test result: ?. 1 passed; {failed} failed; 0 ignored"));
        }
        (name.to_owned(), tally)
    });
    Vec::from(said)
}

#[test]
fn what_came_to_no_result_runs_in_another_machine_and_what_failed_has_failed() {
    let (mut tally, mut programs) = (Tally::default(), programs(["t1 a", "t2 a", "t2 b", "t4 a"]));
    assert_eq!(programs.started("     Running t2 a (in the box)"), Some("t2 a"));
    assert_eq!(programs.started("     Running t5 a (in the box)"), None);
    let first = said([("t1 a", Some(0)), ("t2 a", Some(1)), ("t2 b", None)]);
    programs.due = settle(&mut tally, &programs, first, End::TimedOut);
    assert_eq!(programs.due, ["t2 b", "t4 a"]);
    assert_eq!((tally.passed, tally.failed), (2, 1));
    let last = said([("t2 b", Some(0)), ("t4 a", Some(0))]);
    assert_eq!(settle(&mut tally, &programs, last, End::Status(1)), [""; 0]);
    assert_eq!((tally.passed, tally.failed), (4, 1), "{tally:?}");
}

#[test]
fn a_program_that_dies_while_its_machine_goes_on_has_failed() {
    let programs = programs(["t1 a", "t2 a"]);
    for (second, end) in [(Some(0), End::TimedOut), (None, End::Status(1))] {
        let mut tally = Tally::default();
        let done = said([("t1 a", None), ("t2 a", second)]);
        assert_eq!(settle(&mut tally, &programs, done, end), [""; 0]);
        assert_eq!(tally.failed, if second.is_some() { 1 } else { 2 }, "{tally:?}");
    }
}
