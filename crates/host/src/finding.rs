//! One thing that was looked at, as `doctor` and `check` tell it.

use std::borrow::Cow;

pub use attach::State;
use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// How it is to be read.
    pub state: State,
    /// What was looked at.
    pub what: Cow<'static, str>,
    /// What was found.
    pub figure: String,
    /// What that means for routers, and what to do.
    pub meaning: String,
}

impl Finding {
    /// What was found where something was looked at, and what it means.
    pub fn new(
        state: State,
        what: impl Into<Cow<'static, str>>,
        figure: impl Into<String>,
        meaning: impl Into<String>,
    ) -> Self {
        Self { state, what: what.into(), figure: figure.into(), meaning: meaning.into() }
    }
}

/// Fails with the finding's one line where something needed is missing.
///
/// # Errors
/// That line.
pub fn need(finding: Finding) -> anyhow::Result<()> {
    if finding.state == State::No { Err(anyhow::anyhow!(finding.meaning)) } else { Ok(()) }
}
