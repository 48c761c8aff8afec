//! `ringroad ps`: lists runs and routers.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use api::RouterStatus;
use command_line::client::{self, Found};
use command_line::group;
use serde_json::json;

/// Lists all runs of this user with their routers; a group is one of them, unless its members are asked for.
///
/// # Errors
/// The runs cannot be looked for.
pub(crate) fn ps(json: bool, members: bool) -> Result<()> {
    let mut found = client::runs()?;
    for status in found.iter_mut().filter_map(|run| run.status.as_mut().ok()).filter(|_| !members) {
        status.routers = group::folded(&status.routers);
    }
    client::print_from_run(&if json { lines(&found) } else { table(&found) })
}

fn lines(found: &[Found]) -> String {
    let line = |run: &Found| match &run.status {
        Ok(status) => json!(status).to_string(),
        Err(error) => json!({ "run": run.name, "error": error.message }).to_string(),
    };
    found.iter().map(|run| line(run) + "\n").collect()
}

fn table(found: &[Found]) -> String {
    let mut rows = vec![["RUN", "PID", "ROUTER", "ENGINE", "STATE", "FOR", "RESTARTS"].map(str::to_owned)];
    let mut notes = Vec::new();
    for run in found {
        match &run.status {
            Ok(status) => {
                let pid = status.pid.to_string();
                rows.extend(status.routers.iter().map(|router| row(&run.name, &pid, router)));
                let note = |router: &RouterStatus| {
                    let told = [router.member.as_deref(), router.reason.as_deref()];
                    told.into_iter().flatten().collect::<Vec<_>>().join("; ")
                };
                notes.extend(status.routers.iter().map(note));
            }
            Err(error) => {
                rows.push([run.name.as_str(), "-", "-", "-", "no answer", "-", "-"].map(str::to_owned));
                notes.push(error.message.clone());
            }
        }
    }
    aligned(&rows, &notes)
}

fn row(run: &str, pid: &str, router: &RouterStatus) -> [String; 7] {
    [
        run.to_owned(),
        pid.to_owned(),
        router.name.clone(),
        router.engine.clone(),
        router.state.name().to_owned(),
        format_duration(router.since_ms),
        router.restarts.to_string(),
    ]
}

/// Aligns columns; remarks about a row follow it.
fn aligned(rows: &[[String; 7]], notes: &[String]) -> String {
    let mut widths = [0; 7];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    let none = String::new();
    for (number, row) in rows.iter().enumerate() {
        let note = number.checked_sub(1).and_then(|number| notes.get(number)).unwrap_or(&none);
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str((line + note).trim_end());
        text.push('\n');
    }
    text
}

/// Formats a time in its two largest units.
pub(crate) fn format_duration(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests;
