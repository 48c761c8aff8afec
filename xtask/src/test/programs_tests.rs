use super::*;

const MESSAGE: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///x/ringroad/crates/ring#ringroad-ring@0.1.0","manifest_path":"/x/crates/ring/Cargo.toml","target":{"kind":["KIND"],"name":"NAME"},"profile":{"test":TEST},"executable":EXECUTABLE}"#;

fn message(kind: &str, name: &str, test: bool, executable: &str) -> String {
    let text = MESSAGE.replace("KIND", kind).replace("NAME", name).replace("TEST", &test.to_string());
    text.replace("EXECUTABLE", executable)
}

#[test]
fn test_programs_are_found_in_what_cargo_says() {
    let found = program(&message("test", "ports", true, r#""/x/ports-1""#)).expect("a program");
    assert_eq!((found.name.as_str(), found.target.as_str()), ("ring ports", "ports"));
    assert_eq!((found.path, found.folder), ("/x/ports-1".into(), "/x/crates/ring".into()));
    assert_eq!(program(&message("lib", "ring", true, r#""/x/ring-1""#)).expect("unit tests").name, "ring");
    let of_its_folder =
        message("bin", "xtask", true, r#""/x/xtask-1""#).replace("ring#ringroad-ring@", "xtask#");
    assert_eq!(program(&of_its_folder).expect("unit tests").name, "xtask");
    assert_eq!(program(&message("bin", "ringroad", false, r#""/x/ringroad""#)), None);
    assert_eq!(program(&message("test", "ports", true, "null")), None);
    assert_eq!(program("   Compiling ringroad"), None);
}

fn of(target: &str) -> Program {
    let name = format!("ring {target}");
    Program { name, target: target.to_owned(), path: "/x/t".into(), folder: "/x".into() }
}

fn jobs(target: &str, tests: &[&str], words: &[&str]) -> Vec<(String, Vec<String>, bool)> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let wish = TestOptions::parse(&words).expect("known words");
    let tests: Vec<String> = tests.iter().map(|test| (*test).to_owned()).collect();
    let jobs = of(target).jobs_of(&tests, &wish).into_iter();
    jobs.map(|job| (job.name, job.words[2..].to_vec(), job.alone)).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

#[test]
fn an_end_to_end_test_is_a_job_and_so_is_one_that_must_be_alone() {
    let tests = ["t1::a", "t1::all::b", "t2::alone::c"];
    let a = ("t1::a".to_owned(), words(["--exact", "t1::a"]), false);
    let b = ("t1::all::b".to_owned(), words(["--exact", "t1::all::b"]), false);
    let c = ("t2::alone::c".to_owned(), words(["--exact", "t2::alone::c"]), true);
    assert_eq!(jobs("e2e", &tests, &[]), [a.clone(), c.clone()]);
    assert_eq!(jobs("e2e", &tests, &["--all"]), [a, b, c]);
}

#[test]
fn all_other_tests_of_a_program_are_one_job_without_those_of_other_tiers() {
    let tests = ["a", "all::b", "alone::c"];
    let alone = ("ring kernel: alone::c".to_owned(), words(["--exact", "alone::c"]), true);
    let rest = words(["--exact", "--skip", "all::b", "--skip", "alone::c"]);
    let rest = ("ring kernel".to_owned(), rest, false);
    assert_eq!(jobs("kernel", &tests, &[]), [alone, rest]);
    assert_eq!(jobs("kernel", &["a"], &["nothing of this name"]), []);
    assert_eq!(jobs("kernel", &["long::a"], &["--all"]), []);
}

#[test]
fn a_list_of_tests_is_read() {
    assert_eq!(listed_in("a: test\nb::c: test\nd: benchmark\n\n"), ["a", "b::c"]);
}
