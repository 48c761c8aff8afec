use super::*;

#[test]
fn test_programs_are_found_in_what_cargo_says() {
    let message = |kind: &str, executable: &str| {
        format!(
            r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"t28"}},"executable":{executable}}}"#
        )
    };
    assert_eq!(test_of(&message("test", r#""/x/t28-1""#)), Some(("t28".to_owned(), "/x/t28-1".into())));
    assert_eq!(test_of(&message("lib", r#""/x/inbox-1""#)), None);
    assert_eq!(test_of(&message("test", "null")), None);
    assert_eq!(test_of("   Compiling ringroad"), None);
}

fn programs<const N: usize>(names: [&str; N]) -> Programs {
    Programs {
        ringroad: "/x/ringroad".into(),
        tests: vec![("t1".to_owned(), "/x/t1".into())],
        due: names.map(str::to_owned).to_vec(),
    }
}

#[test]
fn the_script_runs_every_test_that_is_due_and_fails_if_one_does() {
    assert_eq!(listed_in("a: test\nb::c: test\nd: benchmark\n\n"), ["a", "b::c"]);
    let text = script(&programs(["t1 b::c", "t2 d"]));
    for line in ["Running t1 b::c (in", "/tests/t1 b::c --exact", "/tests/t2 d --exact", "exit $failed"] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// What programs said, each with its number of failed tests; none: it gave no result.
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
fn what_failed_or_was_lost_runs_in_another_machine_and_counts_once() {
    let (mut tally, mut programs) = (Tally::default(), programs(["t1 a", "t2 a", "t2 b", "t4 a"]));
    assert_eq!(programs.started("     Running t2 a (in the box)"), Some("t2 a"));
    assert_eq!(programs.started("     Running t5 a (in the box)"), None);
    let first = said([("t1 a", Some(0)), ("t2 a", Some(1)), ("t2 b", None)]);
    programs.due = settle(&mut tally, &programs, first, false);
    assert_eq!(programs.due, ["t2 a", "t2 b", "t4 a"]);
    assert_eq!((tally.passed, tally.failed, tally.again.len()), (1, 0, 2));
    let last = said([("t2 a", Some(0)), ("t2 b", Some(1))]);
    assert_eq!(settle(&mut tally, &programs, last, true), [""; 0]);
    assert_eq!((tally.passed, tally.failed), (3, 2), "{tally:?}");
}
