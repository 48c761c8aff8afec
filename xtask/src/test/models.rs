//! Loom models: `crates/*/tests/*_loom.rs`.

use std::path::PathBuf;

use anyhow::Result;

use crate::step::root;

/// Lists the packages that have models.
pub(super) fn packages() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for krate in std::fs::read_dir(root().join("crates"))? {
        let krate = krate?;
        let Ok(tests) = std::fs::read_dir(krate.path().join("tests")) else { continue };
        if tests.filter_map(Result::ok).map(|test| test.path()).any(is_model) {
            let name = krate.file_name().to_string_lossy().replace('_', "-");
            found.push(format!("ringroad-{name}"));
        }
    }
    found.sort();
    Ok(found)
}

fn is_model(path: PathBuf) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with("_loom.rs"))
}
