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

#[test]
fn the_script_runs_every_program_and_fails_if_one_does() {
    let programs = Programs {
        ringroad: "/x/ringroad".into(),
        tests: vec![("t1".to_owned(), "/x/t1".into()), ("t2".to_owned(), "/x/t2".into())],
    };
    let text = script(&programs, &Wish { shell: false, binary: None, names: vec!["ping".to_owned()] });
    for line in
        ["Running t1 ", "/tests/t1 --show-output", "/tests/t2 --show-output", " 'ping' ", "exit $failed"]
    {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn another_machine_goes_on_with_the_program_that_was_lost() {
    let test = |name: &str| (name.to_owned(), PathBuf::from(name));
    let programs = Programs { ringroad: "/x/ringroad".into(), tests: ["t1", "t11", "t2"].map(test).to_vec() };
    assert_eq!(programs.from("t11 (in the box)"), Some(vec![test("t11"), test("t2")]));
    assert_eq!(programs.from("t3 (in the box)"), None);
}
