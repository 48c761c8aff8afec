use std::time::Duration;

use super::*;

fn wish(words: &[&str]) -> TestOptions {
    TestOptions::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).expect("known words")
}

#[test]
fn the_modules_of_a_test_say_its_tier_and_whether_it_is_alone() {
    for (test, tier) in [
        ("t01_config_errors::whole_files", Tier::Commit),
        ("t08_signals::all::every_variant", Tier::All),
        ("t08_signals::long::killed", Tier::Long),
        ("t32_sched::alone::all::weights", Tier::All),
        // Neither a test's own name counts, nor a module name that merely contains the word.
        ("all", Tier::Commit),
        ("install::small::it_is_long", Tier::Commit),
    ] {
        assert_eq!(Tier::of(test), tier, "{test}");
    }
    assert!(tier::is_alone("t32_sched::alone::all::weights"));
    assert!(!tier::is_alone("alone"));
}

#[test]
fn a_wish_names_tiers_and_tests() {
    let (commit, all, long) = ("t1::a", "t1::all::b", "t1::long::c");
    let taken = |words: &[&str]| [commit, all, long].map(|test| wish(words).takes(test));
    assert_eq!(taken(&[]), [true, false, false]);
    assert_eq!(taken(&["--all"]), [true, true, false]);
    assert_eq!(taken(&["--long"]), [false, false, true]);
    assert_eq!(taken(&["--all", "::b", "::c"]), [false, true, false]);
    assert!(wish(&["--stressed"]).stressed);
    assert!(TestOptions::parse(&["--longer".to_owned()]).is_err());
}

#[test]
fn the_table_has_all_stages_and_the_slowest_jobs() {
    let mut times = Times::default();
    times.add("build", Duration::from_millis(61_500));
    times.add("tests alone", Duration::from_secs(2));
    for n in 0..20 {
        times.job(&format!("job {n}"), Duration::from_secs(n));
    }
    let lines = times.lines();
    assert_eq!(lines[..4], ["time", "    61.5 s  build", "     2.0 s  tests alone", "    63.5 s  together"]);
    assert_eq!(lines[4], "the slowest of 20 jobs");
    assert_eq!((lines[5].as_str(), lines.len()), ("    19.0 s  job 19", 17));
}

fn job(name: &str, script: &str, alone: bool) -> Job {
    let words = ["sh", "-c", script].map(str::to_owned).to_vec();
    let folder = crate::step::root();
    let limit = Duration::from_secs(30);
    Job { name: name.to_owned(), words, folder, alone, limit, cases: None, common: None }
}

const RESULT: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured'";

#[test]
fn a_job_counts_its_tests_and_one_without_a_result_has_failed() {
    let count = |script: &str| job("j", script, true).run(false).tally.to_string();
    assert_eq!(count(RESULT), "2 passed, 0 failed, 0 skipped");
    assert_eq!(count("true"), "0 passed, 1 failed, 0 skipped");
    assert_eq!(count("kill -9 $$"), "0 passed, 1 failed, 0 skipped");
    // A program that fails after its result, while cleaning up, has failed as well.
    assert_eq!(count(&format!("{RESULT}; exit 1")), "2 passed, 1 failed, 0 skipped");
    let late = Job { limit: Duration::from_secs(1), ..job("late", "sleep 20", true) }.run(false);
    assert_eq!(late.tally.to_string(), "0 passed, 1 failed, 0 skipped");
    assert!(late.printed.iter().any(|line| line.starts_with("ended after 1 s")), "{:?}", late.printed);
}

#[test]
fn a_job_knows_the_folder_that_it_has_in_common_with_others() {
    let script = format!("echo \"${}\"; {RESULT}", support::COMMON_FOLDER);
    let done = Job { common: Some("/x/common".into()), ..job("j", &script, true) }.run(false);
    assert_eq!(done.printed[0], "/x/common");
}

#[test]
fn all_jobs_of_a_pool_run_and_those_alone_run_last() {
    let (mut tally, mut times) = (Tally::default(), Times::default());
    let folder = tempfile::tempdir().expect("a folder");
    let note = |name: &str| format!("echo {name} >> {}; {RESULT}", folder.path().join("log").display());
    let jobs =
        vec![job("last", &note("last"), true), job("a", &note("a"), false), job("b", &note("b"), false)];
    Pool::new(jobs, &mut tally, &mut times).run();
    assert_eq!(tally.to_string(), "6 passed, 0 failed, 0 skipped");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert_eq!(log.lines().last(), Some("last"));
    assert_eq!(log.lines().count(), 3);
}

#[test]
fn namespaces_of_its_own_hide_what_others_have() {
    if !private::possible() {
        println!("SKIPPED: not root");
        return;
    }
    let script = "ls -d /run/*; ls /sys/class/net; echo $$; [ -d /sys/fs/cgroup/cpu ] || ls /sys/fs/cgroup/cgroup.procs";
    let done = job("private", script, false).run(true);
    let printed: Vec<&str> =
        done.printed.iter().map(String::as_str).filter(|line| !line.contains("cgroup")).collect();
    assert!(printed[0].contains("/run/*"), "something is in /run: {printed:?}");
    assert_eq!(printed[1], "lo");
    assert!(printed[2].parse::<u32>().is_ok_and(|id| id < 100), "{printed:?}");
}

#[test]
fn a_fuzz_target_that_finds_something_is_a_failure() {
    let mut tally = Tally::default();
    let done = |target: &str, well| Fuzzed { target: target.to_owned(), well, printed: Vec::new() };
    count(&done("rings", true), &mut tally);
    count(&done("pci", false), &mut tally);
    assert_eq!(tally.to_string(), "1 passed, 1 failed, 0 skipped");
}
