use super::{Case, measure};
use crate::results::ROUND;
use crate::step::Step;

/// A case that prints this, with an exit status.
fn case(said: &str, status: u8) -> Case {
    let step = Step::new("sh").args(["-c", &format!("printf '{said}'; exit {status}")]);
    Case { name: "x".to_owned(), step, failed: false }
}

const RESULT: &str = "RESULT name=x unit=ms median=2 min=1 max=3 n=5\\n";

#[test]
fn a_result_is_told_with_its_round() {
    let mut case = case(&format!("{RESULT}a word\\n{RESULT}"), 0);
    let found = measure(&mut case, 7).unwrap();
    assert!(found.len() == 2 && !case.failed, "{found:?}");
    for (line, sample) in found {
        assert_eq!(line, "RESULT name=x unit=ms median=2 min=1 max=3 n=5 round=7");
        assert_eq!((sample.median, sample.get(ROUND)), (2.0, Some("7")));
    }
}

#[test]
fn a_case_of_which_a_part_was_not_run_has_failed() {
    let failed = |said: &str, status| {
        let mut case = case(said, status);
        measure(&mut case, 1).unwrap();
        case.failed
    };
    assert!(!failed(RESULT, 0));
    assert!(failed(&format!("{RESULT}NOT-RUN x/other: it was killed\\n"), 0));
    assert!(failed(RESULT, 1) && failed("nothing\\n", 0));
}
