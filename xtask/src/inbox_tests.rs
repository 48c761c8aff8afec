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
    Programs { ringroad: "/x/ringroad".into(), tests: names.map(test).to_vec(), first: 0 }
}

#[test]
fn the_script_runs_every_program_and_fails_if_one_does() {
    let wish = Wish { shell: false, binary: None, names: vec!["ping".to_owned()] };
    let text = script(&programs(["t1", "t2"]), &wish);
    for line in
        ["Running t1 ", "/tests/t1 --show-output", "/tests/t2 --show-output", " 'ping' ", "exit $failed"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn another_machine_goes_on_with_the_program_that_was_lost() {
    let mut programs = programs(["t1", "t11", "t2"]);
    assert_eq!(programs.place("t3 (in the box)"), None);
    programs.first = programs.place("t11 (in the box)").expect("it is one of them");
    let text = script(&programs, &Wish::default());
    assert!(!text.contains("/tests/t1 "), "{text}");
    assert!(text.contains("/tests/t11 ") && text.contains("/tests/t2 "), "{text}");
}
