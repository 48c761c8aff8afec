//! Runs what is kept of a fuzz target's inputs as an ordinary test.

use std::fs;
use std::path::Path;

/// Runs every file of `fuzz/corpus/TARGET`; a file that fails is the last one named.
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
