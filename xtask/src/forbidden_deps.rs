//! Dependency rules that no compiler checks: packages that the command, which runs as root for months, must
//! not contain.

use anyhow::{Result, ensure};

use crate::step::{COMMAND, LAB, output};

/// Packages for measuring and testing, which must not be dependencies of the command, not even indirect ones.
const OUTSIDE: [&str; 6] = [
    "ringroad-lab",
    LAB.0,
    "ringroad-fpm-peer",
    "ringroad-conformance",
    "ringroad-support",
    "ringroad-hostbox",
];

/// Lists the forbidden packages that the command contains all the same, one per line.
///
/// # Errors
/// Cargo does not print the dependency tree.
pub(crate) fn faults() -> Result<Vec<String>> {
    let words = ["tree", "--locked", "-p", COMMAND, "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let tree = output("cargo", &words);
    ensure!(!tree.is_empty(), "`cargo {}` tells nothing", words.join(" "));
    Ok(carried(&tree))
}

/// Returns the forbidden packages in a dependency tree, whose lines consist of a package, its version, and
/// its path.
fn carried(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<&str> = names.filter(|name| OUTSIDE.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    let line = |name| format!("Cargo.toml: the command carries {name}: it belongs to the lab or to tests");
    found.into_iter().map(line).collect()
}

#[cfg(test)]
#[path = "forbidden_deps_tests.rs"]
mod tests;
