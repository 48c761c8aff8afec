//! What the verbs of a program stand on: how it prints, complains and ends, how times are written, and which runs it can ask
//! ([`client`]). `ringroad` and `ringroad-lab` share it, and answer alike.
#![forbid(unsafe_code)]

pub mod client;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

/// A time that can be waited for.
///
/// # Errors
/// What was written is none, or longer than anybody waits.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write seconds, e.g. 10 or 0.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    // A thousand years are enough, and can be added to any moment.
    if seconds > 3.2e10 {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// The exit code of a program; what went wrong is told before.
pub fn end(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// One line on stderr; faults of a file are one line each and begin with its name, as compilers do.
fn complain(error: &anyhow::Error) {
    let text = match error.downcast_ref::<config::Errors>() {
        Some(errors) => errors.to_string(),
        None => format!("ringroad: {error:#}").replace('\n', " "),
    };
    // Nothing is left to be done where stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Writes to stdout; a reader that has left (`ringroad doctor | head -1`) is no fault.
///
/// # Errors
/// Stdout does not take it.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
