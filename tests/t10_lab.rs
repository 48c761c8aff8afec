//! Objective: an experiment of the lab ends in one RESULT line and one JSON object, two variants in a ratio, a report
//! in a table; what cannot be run is one clear line.

use std::process::{Command, Output};

fn ringroad(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringroad")).args(arguments).output().expect("the command starts")
}

fn stdout(arguments: &[&str]) -> String {
    let output = ringroad(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line that the command ends with in failure.
fn failure(arguments: &[&str]) -> String {
    let output = ringroad(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

const SHORT: [&str; 4] = ["--seconds", "0.02", "--repeat", "1"];

#[test]
fn the_list_names_what_can_be_run() {
    let list = stdout(&["lab", "list"]);
    for name in ["forward", "switch", "guest-to-guest", "round-trip", "boot", "idle"] {
        assert!(
            list.lines().any(|line| line.split_whitespace().next() == Some(name)),
            "{name} is not in\n{list}"
        );
    }
}

#[test]
fn what_cannot_be_run_is_one_line() {
    let line = failure(&["lab", "run", "switch", "backward"]);
    assert!(line.contains("`backward`") && line.contains("forward"), "{line}");
    let line = failure(&["lab", "run", "switch", "--versus", "colour=red"]);
    assert!(line.contains("colour=red"), "{line}");
    let line = failure(&["lab", "run", "switch", "--seconds", "0"]);
    assert!(line.contains("seconds"), "{line}");
    let line = failure(&["lab", "run", "switch", "--cpus", "4000"]);
    assert!(line.contains("4000"), "{line}");
    let line = failure(&["lab", "report", "no/such/file"]);
    assert!(line.contains("no/such/file"), "{line}");
}

#[test]
fn results_are_told_in_lines_in_json_and_in_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("results.json");
    let file = file.to_str().unwrap();
    let text = stdout(&[&["lab", "run", "switch", "--json", file], &SHORT[..]].concat());
    let results: Vec<&str> = text.lines().filter(|line| line.starts_with("RESULT name=switch/")).collect();
    assert_eq!(results.len(), 3, "{text}");
    let written = std::fs::read_to_string(file).unwrap();
    assert_eq!(written.lines().count(), 3);
    for line in written.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&record["id"], &record["unit"]), (&"switch".into(), &"mpps".into()));
        assert_eq!(record["samples"].as_array().unwrap().len(), 1);
    }
    let table = stdout(&["lab", "report", file]);
    assert_eq!(table.lines().filter(|line| line.starts_with("| switch/")).count(), 3, "{table}");
}

#[test]
fn two_variants_end_in_their_ratio() {
    let text = stdout(&[&["lab", "run", "generator", "--versus", "frame=1514"], &SHORT[..]].concat());
    let first_words: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(first_words, ["RESULT", "RESULT", "RATIO"], "{text}");
}

#[test]
fn a_router_forwards_and_the_line_says_how_well() {
    support::needs!(Kvm);
    let text = stdout(&[&["lab", "run", "forward"], &SHORT[..]].concat());
    let line = text
        .lines()
        .find(|line| line.starts_with("RESULT name=forward/kvm/virtio-net/64 unit=mpps "))
        .unwrap();
    for key in ["median=", "min=", "max=", "n=", "lost=", "exits_per_packet=", "c2c_ns=", "generator_mpps="] {
        assert!(line.contains(&format!(" {key}")), "{key} is not in {line}");
    }
}

#[test]
fn a_boot_is_measured_from_the_start_of_the_command() {
    support::needs!(Kvm);
    let text = stdout(&[&["lab", "run", "boot"], &SHORT[..]].concat());
    for case in ["in-process", "command"] {
        let start = format!("RESULT name=boot/kvm/virtio-net/{case} unit=ms median=");
        let rest = text.lines().find_map(|line| line.strip_prefix(&start)).expect(case);
        let median: f64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!(median > 0.0 && median < 10_000.0);
    }
}
