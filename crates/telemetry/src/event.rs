//! A state change of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Moment;

/// Octets of the longest message; what is longer is cut.
const LONGEST_MESSAGE: usize = 1024;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A run or a router serves.
    Started,
    /// It was told to stop, and did.
    Stopped,
    /// It cannot go on.
    Failed,
    /// A router broke a rule and was stopped or fenced for it.
    Charged,
    /// A router or the data plane is started again after a while.
    Restarting,
    /// It serves again.
    Restarted,
    /// A running file was changed.
    Applied,
    /// A change was not carried out.
    Refused,
    /// The data plane ended, and nobody had asked it to.
    DataPlaneDied,
    /// A client of the control socket or of the telemetry was cut off.
    ClientDropped,
    /// A capture ended before its time.
    CaptureFailed,
    /// Something that the owner should know, and that changes nothing by itself.
    Notice,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Started,
        Self::Stopped,
        Self::Failed,
        Self::Charged,
        Self::Restarting,
        Self::Restarted,
        Self::Applied,
        Self::Refused,
        Self::DataPlaneDied,
        Self::ClientDropped,
        Self::CaptureFailed,
        Self::Notice,
    ];

    /// As in JSON: `data_plane_died`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Charged => "charged",
            Self::Restarting => "restarting",
            Self::Restarted => "restarted",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::DataPlaneDied => "data_plane_died",
            Self::ClientDropped => "client_dropped",
            Self::CaptureFailed => "capture_failed",
            Self::Notice => "notice",
        }
    }
}

/// A state change. As text (`Display`) it is one line, whatever the message holds; [`Event::json`] is the same as an
/// object on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When it happened.
    pub unix_ms: Moment,
    /// The run's name.
    pub run: String,
    /// The router it is about; none: the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// What changed.
    pub kind: Kind,
    /// One line that says it.
    pub message: String,
}

impl Event {
    /// A change of the run, now.
    pub fn of_run(run: &str, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            unix_ms: Moment::now(),
            run: run.to_owned(),
            router: None,
            kind,
            message: one_line(message.into()),
        }
    }

    /// A change of one router, now.
    pub fn of_router(run: &str, router: &str, kind: Kind, message: impl Into<String>) -> Self {
        Self { router: Some(router.to_owned()), ..Self::of_run(run, kind, message) }
    }

    /// An event that came from another process, with its texts made fit to be shown: one line, bounded, no control
    /// characters.
    pub fn cleaned(mut self) -> Self {
        self.run = one_line(self.run);
        self.router = self.router.map(one_line);
        self.message = one_line(self.message);
        self
    }

    /// One JSON object on one line, with the time also as people read it (`time`).
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'e> {
            time: String,
            #[serde(flatten)]
            event: &'e Event,
        }
        // Text and a number: there is nothing in it that JSON cannot hold.
        serde_json::to_string(&Line { time: self.unix_ms.to_string(), event: self }).unwrap_or_default()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unix_ms, run, router, kind, message } = self;
        write!(out, "{unix_ms} {run}")?;
        if let Some(router) = router {
            write!(out, "/{router}")?;
        }
        write!(out, ": {}", kind.name().replace('_', " "))?;
        if message.is_empty() { Ok(()) } else { write!(out, ": {message}") }
    }
}

/// Text without line ends and control characters, and not too long: it may have been put together from what a guest
/// or a file says, and is shown on terminals.
pub fn one_line(mut text: String) -> String {
    if text.len() > LONGEST_MESSAGE {
        let end = (0..=LONGEST_MESSAGE).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    if text.chars().any(char::is_control) {
        text = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    }
    text
}

#[cfg(test)]
mod tests;
