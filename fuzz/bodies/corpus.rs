//! Runs the stored inputs of a fuzz target as an ordinary test.

use std::fs;
use std::path::Path;

/// Runs every file of `fuzz/corpus/TARGET`; the last file named is the one that fails.
pub(crate) fn replay(target: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let listed = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = listed.map(|entry| entry.expect("a listed file").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no inputs", folder.display());
    for file in files {
        println!("{}", file.display());
        run(&fs::read(&file).expect("a readable input"));
    }
}
