//! Walls that no compiler keeps: what the command must not carry, which runs as root for months.

use anyhow::{Result, ensure};

use crate::step::{COMMAND, LAB, output};

/// What measures and what tests: packages that are no part of the command, also not by way of another one.
const OUTSIDE: [&str; 4] = ["ringroad-lab", LAB.0, "ringroad-support", "ringroad-hostbox"];

/// Packages behind the wall that the command carries all the same, a line each.
///
/// # Errors
/// Cargo does not tell what it carries.
pub(crate) fn faults() -> Result<Vec<String>> {
    let words = ["tree", "--locked", "-p", COMMAND, "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let tree = output("cargo", &words);
    ensure!(!tree.is_empty(), "`cargo {}` tells nothing", words.join(" "));
    Ok(carried(&tree))
}

/// Those in such a tree: lines of a package, its version, and where it lies.
fn carried(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<&str> = names.filter(|name| OUTSIDE.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    let line = |name| format!("Cargo.toml: the command carries {name}: it belongs to the lab or to tests");
    found.into_iter().map(line).collect()
}

#[cfg(test)]
#[path = "walls_tests.rs"]
mod tests;
