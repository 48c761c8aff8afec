use super::*;

fn a_run(code: &str, stressed: bool, green: bool) -> Run {
    Run {
        date: "2026-11-23T13:00:00Z".to_owned(),
        commit: "abc1234".to_owned(),
        code: code.to_owned(),
        stressed,
        green,
        seconds: 240,
        verdict: "1700 passed, 0 failed, 3 skipped".to_owned(),
    }
}

#[test]
fn a_line_says_all_of_a_run() {
    for run in [a_run("c0de", false, true), a_run("c0de", true, false)] {
        assert_eq!(read(&line(&run)), Some(run));
    }
    assert_eq!(read("2026-11-23 abc"), None);
}

#[test]
fn only_green_runs_of_this_code_since_its_last_red_one_count() {
    let (mine, other) = ("mine", "other");
    let mut runs = vec![a_run(mine, false, true), a_run(mine, true, true), a_run(other, false, false)];
    assert_eq!(green(&runs, mine), (1, 1));
    assert_eq!(green(&runs, other), (0, 0));
    runs.push(a_run(mine, true, false));
    assert_eq!(green(&runs, mine), (0, 0));
    runs.extend([a_run(mine, false, true), a_run(other, false, true), a_run(mine, false, true)]);
    assert_eq!((green(&runs, mine), green(&runs, other)), ((2, 0), (1, 0)));
}

#[test]
fn ten_quiet_and_five_stressed_runs_are_wanted_unless_said_otherwise() {
    let parsed = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    assert_eq!(parsed(&[]).unwrap(), Wanted { quiet: 10, stressed: 5 });
    assert_eq!(parsed(&["--quiet", "1", "--stressed", "0"]).unwrap(), Wanted { quiet: 1, stressed: 0 });
    for wrong in [&["--quiet"][..], &["--quiet", "x"], &["ten"]] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
}
