//! Dependency rules that no compiler checks: packages that others must not contain.

use anyhow::{Result, ensure};

use crate::step::{COMMAND, LAB, output};

/// Packages, and those that they must not depend on, not even indirectly. The command, which runs as root for months, contains nothing
/// for measuring and testing; none of the kinds of ports stands on another; virtual machines of other programs, and queues of NICs, need
/// none of ours; and the supervisor and the data plane, between which the trust boundary lies, share no code of their own.
const FORBIDDEN: [(&str, &[&str]); 9] = [
    (
        COMMAND,
        &[
            "ringroad-lab",
            LAB.0,
            "ringroad-fpm-peer",
            "ringroad-conformance",
            "ringroad-support",
            "ringroad-hostbox",
        ],
    ),
    ("ringroad-port", &["ringroad-nic", "ringroad-switch", "ringroad-uplink"]),
    ("ringroad-nic", &["ringroad-switch", "ringroad-uplink"]),
    ("ringroad-switch", &["ringroad-nic", "ringroad-uplink"]),
    ("ringroad-uplink", &["ringroad-nic", "ringroad-switch"]),
    ("ringroad-nic-port", &["ringroad-switch", "ringroad-uplink", "ringroad-vmm"]),
    ("ringroad-vhost-user", &["ringroad-switch", "ringroad-uplink", "ringroad-vmm"]),
    ("ringroad-supervisor", &["ringroad-data-plane"]),
    ("ringroad-data-plane", &["ringroad-supervisor"]),
];

/// Lists the packages that contain forbidden ones all the same, one pair per line.
///
/// # Errors
/// Cargo does not print a dependency tree.
pub(crate) fn faults() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (package, forbidden) in FORBIDDEN {
        let words = ["tree", "--locked", "-p", package, "-e", "normal", "--prefix", "none", "-f", "{p}"];
        let tree = output("cargo", &words);
        ensure!(!tree.is_empty(), "`cargo {}` tells nothing", words.join(" "));
        found.extend(carried(package, forbidden, &tree));
    }
    Ok(found)
}

/// Returns the forbidden packages in a package's dependency tree, whose lines consist of a package, its version, and its path.
fn carried(package: &str, forbidden: &[&str], tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    let mut found: Vec<&str> = names.filter(|name| forbidden.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    let line = |name| {
        format!(
            "Cargo.toml: {package} carries {name}: it must not depend on that, see xtask/src/forbidden_deps.rs"
        )
    };
    found.into_iter().map(line).collect()
}

#[cfg(test)]
#[path = "forbidden_deps_tests.rs"]
mod tests;
