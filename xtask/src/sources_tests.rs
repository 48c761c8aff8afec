use std::path::Path;

use super::{judge, lost_files};

fn faults(path: &str, text: &str) -> Vec<String> {
    judge(Path::new(path), text).iter().map(ToString::to_string).collect()
}

#[test]
fn a_long_file_is_a_fault_and_tests_may_be_longer() {
    let long = "\n".repeat(501);
    assert_eq!(faults("crates/nic/src/device.rs", &long).len(), 1);
    assert_eq!(faults("crates/nic/src/tests.rs", &long).len(), 0);
    assert_eq!(faults("crates/nic/tests/rings.rs", &"\n".repeat(901)).len(), 1);
    assert_eq!(faults("README.md", &long).len(), 0);
}

#[test]
fn forbidden_text_is_found_with_its_line() {
    let found = faults("src/main.rs", "fn main() {\n    todo!()\n}\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("src/main.rs:2: `todo!(`"), "{found:?}");
    assert_eq!(faults("docs/x.md", "see /home/someone/notes").len(), 1);
    assert_eq!(faults("tests/t01.rs", "/tmp/x").len(), 0);
}

#[test]
fn a_crate_forbids_unsafe_code_unless_it_is_one_of_the_few() {
    assert_eq!(faults("crates/fib/src/lib.rs", "//! x").len(), 1);
    assert_eq!(faults("crates/fib/src/lib.rs", "#![forbid(unsafe_code)]").len(), 0);
    assert_eq!(faults("crates/ring/src/lib.rs", "//! x").len(), 0);
}

#[test]
fn a_file_that_a_document_names_is_there() {
    let text = "`crates/nic`, `crates/nic/src/lib`\n`tests/gone.rs`, `crates/nic/src/gone`, `tests/*.rs`";
    let there = |named: &str| ["crates/nic/src/lib.rs", "crates/nic"].contains(&named);
    let found: Vec<_> =
        lost_files(Path::new("docs/nic.md"), text, there).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("docs/nic.md:2: there is no `tests/gone.rs`"), "{found:?}");
    assert!(lost_files(Path::new("CHANGELOG.md"), text, there).is_empty());
    assert!(lost_files(Path::new("crates/nic/src/lib.rs"), text, there).is_empty());
}

#[test]
fn the_tree_itself_can_be_read() {
    super::faults(&crate::step::root()).expect("a tree of readable texts");
}
