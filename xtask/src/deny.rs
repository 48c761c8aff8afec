//! Licences and sources of the crates we depend on.

use anyhow::Result;

use crate::step::{Step, succeeds};

/// Runs cargo-deny where it is installed. `None`: it is not.
pub(crate) fn check() -> Result<Option<bool>> {
    if !succeeds("cargo", &["deny", "--version"]) {
        return Ok(None);
    }
    // Advisories need a download of their database: not part of this check.
    Step::new("cargo")
        .args(["deny", "--all-features", "check", "bans", "licenses", "sources"])
        .run()
        .map(Some)
}
