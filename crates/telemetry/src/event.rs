//! Events: state changes of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Moment;

/// Octets of the longest message; longer ones are truncated.
const LONGEST_MESSAGE: usize = 1024;

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// A run or a router has started to serve.
    Started,
    /// It was told to stop, and has stopped.
    Stopped,
    /// It cannot continue.
    Failed,
    /// A router broke a rule and was stopped or fenced for it.
    Charged,
    /// A router or the data plane will be restarted after a pause.
    Restarting,
    /// It serves again.
    Restarted,
    /// A file was applied to the run.
    Applied,
    /// A change was not carried out.
    Refused,
    /// The data plane ended unexpectedly.
    DataPlaneDied,
    /// A client of the control socket or of the telemetry was disconnected.
    ClientDropped,
    /// A capture ended prematurely.
    CaptureFailed,
    /// The link of a kernel router's NIC went up or down.
    Cable,
    /// A neighbour of a routing protocol came up or went away, or FRR has loaded its configuration.
    ControlPlane,
    /// Information for the owner, without consequences.
    Notice,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
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
        Self::Cable,
        Self::ControlPlane,
        Self::Notice,
    ];

    /// Name in JSON: `data_plane_died`.
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
            Self::Cable => "cable",
            Self::ControlPlane => "control_plane",
            Self::Notice => "notice",
        }
    }
}

/// A state change. Its text form (`Display`) is one line, whatever the message holds; [`Event::json`] is the
/// same content as an object on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Time of the event.
    pub unix_ms: Moment,
    /// Name of the run.
    pub run: String,
    /// Router concerned; `None`: the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// Kind of event.
    pub kind: Kind,
    /// Message of one line.
    pub message: String,
}

impl Event {
    /// Event of the run, now.
    pub fn of_run(run: &str, kind: Kind, message: impl Into<String>) -> Self {
        Self {
            unix_ms: Moment::now(),
            run: run.to_owned(),
            router: None,
            kind,
            message: one_line(message.into()),
        }
    }

    /// Event of one router, now.
    pub fn of_router(run: &str, router: &str, kind: Kind, message: impl Into<String>) -> Self {
        Self { router: Some(router.to_owned()), ..Self::of_run(run, kind, message) }
    }

    /// Sanitizes the texts of an event from another process: one line, bounded length, no control characters.
    pub fn cleaned(mut self) -> Self {
        self.run = one_line(self.run);
        self.router = self.router.map(one_line);
        self.message = one_line(self.message);
        self
    }

    /// One JSON object on one line, with the time also in readable form (`time`).
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Line<'e> {
            time: String,
            #[serde(flatten)]
            event: &'e Event,
        }
        // Strings and a number can always be represented in JSON.
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

/// Removes line ends and control characters, and limits the length: the text may contain input from a guest
/// or a file, and is shown on terminals.
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
