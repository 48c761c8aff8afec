//! `ringroad events NAME`: what has changed in a run, or about a router of it.

use anyhow::Result;
use api::{Answer, Event, Request};
use telemetry::Moment;

use crate::client::{self, Kind, unexpected};

/// Prints the state changes of a run that it still keeps; of a router, those that are about it.
///
/// # Errors
/// There is no such router or run.
pub(crate) fn events(name: &str, json: bool) -> Result<()> {
    let mut target = client::find(name, Kind::Either)?;
    let is_router = target.status.routers.iter().any(|router| router.name == name);
    let Answer::Events { events, lost, .. } = target.client.ask(&Request::Events { since: None })? else {
        return Err(unexpected().into());
    };
    let wanted = events.iter().filter(|event| !is_router || event.router.as_deref() == Some(name));
    let lines: Result<String> = wanted.map(|event| line(event, json)).collect();
    if lost > 0 && !json {
        client::say(&format!("{lost} older ones are no longer kept\n"))?;
    }
    client::say(&lines?)
}

fn line(event: &Event, json: bool) -> Result<String> {
    if json {
        return Ok(serde_json::to_string(event)? + "\n");
    }
    let about = event.router.as_deref().map(|router| format!("{router}: ")).unwrap_or_default();
    Ok(format!("{} {} {about}{}\n", Moment(event.unix_ms), event.kind, event.message))
}
