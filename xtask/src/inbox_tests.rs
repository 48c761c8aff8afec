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
    let test = |name: &str| (name.to_owned(), Path::new("/x").join(name));
    Programs {
        ringroad: "/x/ringroad".into(),
        tests: names.map(test).to_vec(),
        due: names.map(str::to_owned).to_vec(),
    }
}

#[test]
fn the_script_runs_every_program_that_is_due_and_fails_if_one_does() {
    let wish = Wish { shell: false, binary: None, names: vec!["ping".to_owned()] };
    let mut programs = programs(["t1", "t2", "t3"]);
    programs.due.remove(0);
    let text = script(&programs, &wish);
    for line in
        ["Running t2 ", "/tests/t2 --show-output", "/tests/t3 --show-output", " 'ping' ", "exit $failed"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(!text.contains("t1"), "{text}");
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
    let (mut tally, mut programs) = (Tally::default(), programs(["t1", "t2", "t3", "t4"]));
    assert_eq!(programs.started("     Running t2 (in the box)"), Some("t2"));
    assert_eq!(programs.started("     Running t5 (in the box)"), None);
    let first = said([("t1", Some(0)), ("t2", Some(1)), ("t3", None)]);
    programs.due = settle(&mut tally, &programs, first, false);
    assert_eq!(programs.due, ["t2", "t3", "t4"]);
    assert_eq!((tally.passed, tally.failed, tally.mended.len()), (1, 0, 2));
    let last = said([("t2", Some(0)), ("t3", Some(1))]);
    assert_eq!(settle(&mut tally, &programs, last, true), [""; 0]);
    assert_eq!((tally.passed, tally.failed), (3, 2), "{tally:?}");
}
