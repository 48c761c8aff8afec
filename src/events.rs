//! `ringroad events NAME`: prints the events of a run, or of one of its routers.

use std::fmt::Write as _;

use anyhow::Result;
use api::{Answer, Client, Error, Event, Request};
use command_line::client::{self, Kind, unexpected};
use command_line::group;
use telemetry::Moment;

/// Prints the events that a run still keeps; for a router or a group, those that concern it or its members.
///
/// # Errors
/// There is no such router or run.
pub(crate) fn events(name: &str, json: bool) -> Result<()> {
    let mut target = client::find(name, Kind::Either)?;
    let is_router = target.status.routers.iter().any(|router| group::is_meant(&router.name, name));
    let report = Report { router: is_router.then_some(name), json };
    client::print_from_run(&report.of(&mut target.client)?)
}

/// Selection and format of the events.
struct Report<'n> {
    /// Only events of this router, or of this group and its members.
    router: Option<&'n str>,
    /// As JSON, one object per line.
    json: bool,
}

impl Report<'_> {
    /// Fetches all events that a run keeps. An answer holds only some of them, so requests are repeated until
    /// no events are left.
    fn of(&self, run: &mut Client) -> Result<String> {
        let (mut report, mut from) = (String::new(), 0);
        loop {
            let Answer::Events { events, next, lost } = run.ask(&Request::Events { since: Some(from) })?
            else {
                return Err(unexpected().into());
            };
            self.page(&mut report, &events, lost)?;
            if events.is_empty() {
                return Ok(report);
            }
            if next <= from {
                return Err(Error::new(format!(
                    "the run answers with events that end before number {from}, where they were to begin: is it of another version?"
                ))
                .into());
            }
            from = next;
        }
    }

    /// Adds the events of one answer.
    fn page(&self, report: &mut String, events: &[Event], lost: u64) -> Result<()> {
        if lost > 0 && !self.json {
            writeln!(report, "{lost} older ones are no longer kept")?;
        }
        let is_its = |of: &Option<String>, name| of.as_deref().is_some_and(|of| group::is_meant(of, name));
        let wanted = events.iter().filter(|e| self.router.is_none_or(|name| is_its(&e.router, name)));
        wanted.map(|event| line(event, self.json)).try_for_each(|line| {
            report.push_str(&line?);
            Ok(())
        })
    }
}

fn line(event: &Event, json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(event)? + "\n");
    }
    let about = event.router.as_deref().map(|router| format!("{router}: ")).unwrap_or_default();
    Ok(format!("{} {} {about}{}\n", Moment(event.unix_ms), event.kind, event.message))
}

#[cfg(test)]
mod tests;
