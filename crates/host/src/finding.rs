//! A finding about the host, as `doctor` and `check` present it.

use std::borrow::Cow;

pub use attach::State;
use serde::Serialize;

/// Result of one check.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Rating of the result.
    pub state: State,
    /// Subject of the check.
    pub what: Cow<'static, str>,
    /// Result.
    pub figure: String,
    /// Meaning for routers, and advice.
    pub meaning: String,
}

impl Finding {
    /// Creates a finding.
    pub fn new(
        state: State,
        what: impl Into<Cow<'static, str>>,
        figure: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self { state, what: what.into(), figure: figure.into(), meaning: meaning.into() }
    }
}

/// Fails with the finding's line if something needed is missing.
///
/// # Errors
/// That line.
pub fn need(finding: Finding) -> anyhow::Result<()> {
    if finding.state == State::No { Err(anyhow::anyhow!(finding.meaning)) } else { Ok(()) }
}
