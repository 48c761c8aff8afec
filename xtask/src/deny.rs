//! Licences and sources of our dependencies.

use anyhow::Result;

use crate::step::{Step, succeeds};

/// Runs cargo-deny. `None`: it is not installed.
pub(crate) fn check() -> Result<Option<bool>> {
    if !succeeds("cargo", &["deny", "--version"]) {
        return Ok(None);
    }
    // Advisories require a download of their database, so they are not part of this check.
    Step::new("cargo")
        .args(["deny", "--all-features", "check", "bans", "licenses", "sources"])
        .run()
        .map(Some)
}
