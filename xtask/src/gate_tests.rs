use super::*;

fn a_run(code: &str, stressed: bool, green: bool) -> Run {
    Run {
        date: "2026-11-23T13:00:00Z".to_owned(),
        commit: "abc1234".to_owned(),
        code: code.to_owned(),
        stressed,
        end: if green { End::Green } else { End::Red },
        seconds: 240,
        verdict: "1700 passed, 0 failed, 3 skipped".to_owned(),
    }
}

#[test]
fn a_line_says_all_of_a_run() {
    let begun = Run { end: End::None, ..a_run("c0de", true, false) };
    for run in [a_run("c0de", false, true), a_run("c0de", true, false), begun] {
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

#[test]
fn a_run_without_an_end_counts_as_red_and_one_with_an_end_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gate/runs");
    let green_run = || Ok(Tally::default());
    let begun = |date: &str| Run { date: date.to_owned(), ..begun("mine", false) };
    noted(&path, begun("1"), green_run).expect("noted");
    noted(&path, begun("2"), green_run).expect("noted");
    let runs = known(&path).expect("a journal");
    assert_eq!((runs.len(), green(&runs, "mine")), (2, (2, 0)));
    // Aborted by an error.
    noted(&path, begun("3"), || anyhow::bail!("no packages")).expect_err("broken");
    assert_eq!(green(&known(&path).expect("a journal"), "mine"), (0, 0));
    // Killed: the run never returns.
    let cut_off = || std::panic::catch_unwind(|| noted(&path, begun("4"), || panic!("cut off")));
    noted(&path, begun("5"), green_run).expect("noted");
    assert!(cut_off().is_err());
    let runs = known(&path).expect("a journal");
    assert_eq!((runs.len(), green(&runs, "mine")), (5, (0, 0)));
}

#[test]
fn text_that_tests_read_is_code() {
    for text in ["README.md", "docs/cores.md", "docs/packet-way.svg", "results/a/000-fig1.txt", "LICENSE"] {
        assert!(is_text(text), "{text}");
    }
    for code in ["src/main.rs", "examples/edge.toml", "Cargo.lock"].into_iter().chain(TESTED_TEXT) {
        assert!(!is_text(code), "{code}");
        assert!(root().join(code).exists() || code == "examples/edge.toml", "{code} is not there");
    }
}
