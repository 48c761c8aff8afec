use super::*;
use crate::step::root;

fn script(text: &str) -> Step {
    Step::new("sh").args(["-c", text])
}

const WELL: &str = "echo '     Running unittests src/lib.rs (target/a)'; echo 'test result: ok. 3 passed; 0 failed; 0 ignored'";
const FOUND: &str = "echo '     Running unittests src/lib.rs (target/b)'; \
                     echo 'SUMMARY: AddressSanitizer: heap-buffer-overflow'; exit 1";

// These tests discard the lines they are given: if printed, they would be counted as results of this test
// program.

#[test]
fn tests_are_counted_and_what_the_sanitizer_finds_has_failed() {
    let mut tally = Tally::default();
    run_all(&[("a", script(WELL)), ("b", script(WELL))], None, &mut tally, &mut |_| {}).expect("started");
    assert_eq!(tally.to_string(), "6 passed, 0 failed, 0 skipped");
    let mut tally = Tally::default();
    run_all(&[("a", script(WELL)), ("b", script(FOUND))], None, &mut tally, &mut |_| {}).expect("started");
    assert!(tally.passed == 3 && tally.failed > 0, "{tally}");
    // A crate that does not build.
    let mut tally = Tally::default();
    run_all(&[("a", script("exit 101"))], None, &mut tally, &mut |_| {}).expect("started");
    assert_eq!(tally.to_string(), "0 passed, 1 failed, 0 skipped");
}

#[test]
fn without_nightly_each_crate_is_skipped_with_the_reason() {
    assert_eq!(missing(true), None);
    let mut tally = Tally::default();
    run_all(&[("a", script(WELL)), ("b", script(FOUND))], missing(false), &mut tally, &mut |_| {})
        .expect("nothing is run");
    assert_eq!(tally.to_string(), "0 passed, 0 failed, 2 skipped");
    assert!(tally.skipped.iter().all(|line| line.contains("nightly toolchain")), "{:?}", tally.skipped);
}

#[test]
fn the_crates_that_serve_rings_of_others_are_among_them() {
    for name in CRATES {
        assert!(root().join("crates").join(name.replace('-', "_")).is_dir(), "{name}");
    }
    assert!(CRATES.contains(&"nic-port"));
    assert!(tests_of("ring").shown().contains("--show-output"), "skips are counted");
}
