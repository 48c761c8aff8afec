//! Tests that the experiments and peers print every name that `cargo xtask bench` judges.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use lab::experiment::Experiment;
use lab::experiments::boot::boots;
use lab::experiments::{Case, find};
use measure::{bounds, experiments, headlines};

/// Names that an experiment prints when called with these words.
fn printed(words: &[&str]) -> Vec<String> {
    let mut options = super::options(&format!("run {}", words.join(" ")));
    // Independent of the number of CPUs of this host.
    options.cpus = vec![0, 1];
    let cases: Vec<Case> = if words[0] == "boot" {
        // By itself only the lab's program creates both cases.
        boots(&options, Some("ringroad-lab".into())).unwrap()
    } else {
        (find(words[0]).expect("an experiment").cases)(&options).unwrap()
    };
    let name = |experiment: Experiment| format!("{}/{}", experiment.id, experiment.case);
    let names = |case: Case| match case {
        Case::Alone(one) => vec![name(one)],
        Case::Alternating(a, b) => vec![name(a), name(b)],
    };
    cases.into_iter().flat_map(names).collect()
}

/// Names that a peer's script prints, with `*` for each part that it varies.
fn patterns(script: &str) -> Vec<String> {
    let Some(prefix) = script.lines().find_map(|line| line.strip_prefix("report ")) else {
        return Vec::new();
    };
    let words = script.split("record ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let names = words.map(|word| starred(word.trim_matches('"'))).filter(|name| name != "*");
    names.map(|name| format!("{}_{name}", prefix.trim())).collect()
}

/// Shell word with `*` in place of each of its variables.
fn starred(word: &str) -> String {
    let (first, rest) = word.split_once('$').unwrap_or((word, ""));
    let mut name = first.to_owned();
    for part in rest.split('$').take_while(|_| first.len() < word.len()) {
        let behind = match part.split_once('}') {
            Some((_, behind)) if part.starts_with('{') => behind,
            _ if part.starts_with(|c: char| c.is_ascii_digit()) => &part[1..],
            _ => part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_'),
        };
        name.push('*');
        name.push_str(behind);
    }
    name
}

/// Returns true if a name matches a pattern.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(tail) = name.strip_prefix(first) else { return false };
    (0..=tail.len()).filter(|at| tail.is_char_boundary(*at)).any(|at| fits(&tail[at..], rest))
}

#[test]
fn all_that_is_judged_is_printed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/peers");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|end| end == "sh"));
    let patterns: Vec<String> =
        scripts.flat_map(|path| patterns(&fs::read_to_string(path).unwrap())).collect();
    let printed: BTreeSet<String> =
        experiments::EXPERIMENTS.iter().flat_map(|experiment| printed(experiment.words)).collect();
    let is_printed =
        |name: &String| printed.contains(name) || patterns.iter().any(|pattern| fits(name, pattern));

    let compared = bounds::bounds().into_iter().flat_map(|bound| [bound.ours, bound.theirs]);
    let limited = bounds::LIMITS.iter().map(|limit| limit.name.to_owned());
    let headlines = headlines::SIX.into_iter().flat_map(|headline| {
        let theirs = headline.peer.map(|(_, theirs)| theirs);
        [Some(headline.ours), theirs].into_iter().flatten().map(str::to_owned)
    });
    let unknown: BTreeSet<String> =
        compared.chain(limited).chain(headlines).filter(|name| !is_printed(name)).collect();
    assert!(unknown.is_empty(), "nobody prints {unknown:?}; printed are {printed:#?}, {patterns:#?}");
}

#[test]
fn a_script_prints_what_its_words_become() {
    let script = "for l in 64 1514; do\n  record turn${t}_1cpu_$l \"$(run)\"\n  record \"a_$1_60\" \"$a\"; record \"$key\" 1\ndone\nreport tap\n";
    assert_eq!(patterns(script), ["tap_turn*_1cpu_*", "tap_a_*_60"]);
    assert_eq!((starred("64"), starred("$a$b")), ("64".to_owned(), "**".to_owned()));
    assert!(fits("tap_turn_vnet_1cpu_64", "tap_turn*_1cpu_*") && fits("tap_a_plain_60", "tap_a_*_60"));
    assert!(!fits("tap_turn_64", "tap_turn*_1cpu_*") && !fits("tap_a_plain_64", "tap_a_*_60"));
}
