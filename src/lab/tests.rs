use std::path::Path;

use clap::Parser;

use super::{PROGRAM, absent};
use crate::{Command, Verb};

/// Arguments that `ringroad-lab` gets for this command line.
fn told(line: &str) -> Vec<String> {
    let verb = Command::try_parse_from(line.split(' ')).expect("any words will do").verb;
    let (Verb::Lab(words) | Verb::Demo(words)) = verb else { panic!("{line}: another verb") };
    words.words.into_iter().map(|word| word.into_string().expect("text")).collect()
}

#[test]
fn every_word_behind_the_verb_is_handed_on() {
    assert!(told("ringroad lab").is_empty());
    for words in
        ["--help", "-h", "help", "run --help", "run forward --rate=1.5M --cpus 0,1", "list -x --version"]
    {
        assert_eq!(told(&format!("ringroad lab {words}")).join(" "), words);
    }
    for words in ["--nic e1000 --mode=csb", "--itr 100", "-h"] {
        assert_eq!(told(&format!("ringroad demo {words}")).join(" "), words);
    }
}

#[test]
fn what_is_missing_is_named_in_one_line() {
    let line = absent(Path::new("/usr/local/bin/ringroad"));
    assert!(line.contains(&format!("/usr/local/bin/{PROGRAM}")) && line.contains("cargo build"), "{line}");
    assert!(!line.contains('\n'));
}
