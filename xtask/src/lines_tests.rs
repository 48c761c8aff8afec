use std::path::Path;

use super::{Count, Lines, count, crate_of, of_file};

const FILE: &str = "//! A file.\n\nfn one() {}\n    // why\n#[cfg(test)]\nmod tests {\n    fn two() {}\n\n}\nfn three() {}\n";

#[test]
fn tests_comments_and_blank_lines_are_told_apart() {
    let product = Lines { all: 5, code: 2 };
    assert_eq!(of_file(Path::new("src/one.rs"), FILE), Count { product, test: Lines { all: 5, code: 4 } });
    let test = Lines { all: 10, code: 6 };
    for path in
        ["tests/e2e/t01.rs", "crates/fib/src/tests.rs", "xtask/src/lines_tests.rs", "crates/nic/benches/a.rs"]
    {
        assert_eq!(of_file(Path::new(path), FILE), Count { product: Lines::default(), test }, "{path}");
    }
}

#[test]
fn a_file_belongs_to_its_crate() {
    let crates =
        ["crates/fib/src/lib.rs", "src/main.rs", "tests/e2e/main.rs"].map(|path| crate_of(Path::new(path)));
    assert_eq!(crates, ["fib", "src", "tests"]);
}

#[test]
fn the_tree_itself_is_counted() {
    let counts = count(&crate::step::root()).expect("a tree of readable files");
    for name in ["config", "engine", "src", "guest"] {
        assert!(counts[name].product.code > 100, "{name}: {:?}", counts[name]);
    }
    assert_eq!(counts["tests"].product, Lines::default());
}
