use super::Tally;

fn read(text: &str) -> (Tally, Vec<String>) {
    let mut tally = Tally::default();
    let shown = text.lines().filter(|line| tally.line(line)).map(str::to_owned).collect();
    (tally, shown)
}

const MIXED: &str = "     Running unittests src/lib.rs (target/debug/deps/ring-1)
running 3 tests
test a ... ok
test b ... FAILED
test c ... ok

successes:

---- a stdout ----
SKIPPED: no /dev/kvm
SKIPPED: said twice

---- c stdout ----
chatter

successes:
    a
    c

failures:

---- b stdout ----
SKIPPED: not counted, it failed
thread 'b' panicked

failures:
    b

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

#[test]
fn a_skipped_test_is_counted_once_and_not_as_passed() {
    let (mut tally, shown) = read(MIXED);
    tally.end_stage("stage", false, 0);
    assert_eq!(tally.to_string(), "1 passed, 1 failed, 1 skipped");
    assert_eq!(tally.skipped, ["a: no /dev/kvm"]);
    assert!(shown.iter().any(|l| l.contains("panicked")));
    assert!(!shown.iter().any(|l| l.contains("chatter")));
}

#[test]
fn results_of_several_programs_add_up() {
    let (mut tally, _) = read(
        "     Running tests/a.rs (x)\ntest result: ok. 2 passed; 0 failed; 1 ignored; 0 measured\n\
           Doc-tests ring\ntest result: ok. 3 passed; 0 failed; 0 ignored\n",
    );
    tally.end_stage("stage", true, 0);
    assert_eq!(tally.to_string(), "5 passed, 0 failed, 1 skipped");
}

#[test]
fn a_program_that_dies_is_a_failure() {
    let (mut tally, _) = read(
        "     Running tests/a.rs (x)\nrunning 1 test\nerror: test failed\n\
         Running tests/b.rs (y)\ntest result: ok. 1 passed; 0 failed; 0 ignored\n",
    );
    tally.end_stage("stage", false, 0);
    assert_eq!(tally.to_string(), "1 passed, 1 failed, 0 skipped");
}

#[test]
fn a_stage_that_does_not_compile_is_a_failure() {
    let (mut tally, shown) = read("error[E0425]: cannot find value\n");
    tally.end_stage("stage", false, 0);
    assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
    assert_eq!(shown.len(), 1);
}

#[test]
fn what_failed_is_told_again_with_the_end_of_what_it_printed() {
    let (mut tally, _) = read(MIXED);
    tally.fail("fuzz target", ["one", "", "two"]);
    let told: Vec<_> = tally.failures.iter().map(|failure| (failure.name.as_str(), &failure.last)).collect();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0].0, "b");
    assert_eq!(told[0].1.back().map(String::as_str), Some("thread 'b' panicked"));
    assert_eq!((told[1].0, told[1].1), ("fuzz target", &["one", "two"].map(str::to_owned).into()));
    let (mut long, _) = read("failures:\n\n---- c stdout ----\n");
    (0..100).for_each(|n| _ = long.line(&n.to_string()));
    assert_eq!(long.failures[0].last.len(), super::TOLD_AGAIN);
    assert_eq!(long.failures[0].last.back().map(String::as_str), Some("99"));
}

const RUNNING: &str = "     Running t1 (in the box)";
const RESULT: &str = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured";

#[test]
fn counts_are_taken_over_and_a_program_without_a_result_has_failed() {
    let (lost, _) = read(RUNNING);
    assert!(lost.is_open());
    let (done, _) = read(&format!("{RUNNING}\n{RESULT}"));
    assert!(!done.is_open());
    let mut tally = Tally::default();
    tally.take(done);
    tally.take(lost);
    assert_eq!((tally.passed, tally.failed), (2, 1));
    let (mixed, _) = read(MIXED);
    tally.take(mixed);
    assert_eq!(tally.to_string(), "3 passed, 2 failed, 1 skipped");
    assert_eq!(names(&tally.failures), ["t1 (in the box): ended without a result", "b"]);
}

fn names(failures: &[super::Failure]) -> Vec<&str> {
    failures.iter().map(|failure| failure.name.as_str()).collect()
}

#[test]
fn what_a_test_prints_starts_no_program() {
    let (mut tally, _) = read(&format!("{RUNNING}\nRunning out of words\n{RESULT}"));
    tally.end_stage("stage", true, 0);
    assert_eq!(tally.to_string(), "2 passed, 0 failed, 0 skipped");
}
