//! Peers: other routers and switches, run by the scripts in `bench/peers`, which print RESULT lines like ours.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::report::ResultLine;

/// How long a script that was asked to end may take to clean up.
const GRACE: Duration = Duration::from_secs(10);
/// Between two looks at a running script.
const LOOK: Duration = Duration::from_millis(20);

/// How to run a script.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Times each of its measurements is taken.
    pub repeat: u32,
    /// Seconds of each.
    pub seconds: u32,
    /// How long the script may take in all.
    pub limit: Duration,
}

/// Runs a script and returns its results. To compare a peer with something of ours, run it again and again in turn
/// with `repeat` 1. Fails if the script cannot be run, fails, takes too long or prints no result.
pub fn run(script: &Path, length: Length) -> Result<Vec<ResultLine>> {
    let name = script.display();
    ensure!(script.is_file(), "there is no script {name}");
    let mut child = Command::new("bash")
        .arg(script)
        .env("REPS", length.repeat.to_string())
        .env("SECS", length.seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run bash")?;
    let mut output = child.stdout.take().context("the script has no output")?;
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        // What came before an error is still worth reading.
        let _ = output.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let status = wait(&mut child, length.limit)?;
    let Some(status) = status else {
        bail!("{name} took longer than {:?} and was ended", length.limit);
    };
    let Ok(text) = reader.join() else {
        bail!("cannot read what {name} printed");
    };
    judge(&name.to_string(), status, &text)
}

fn judge(name: &str, status: ExitStatus, text: &str) -> Result<Vec<ResultLine>> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    ensure!(status.success(), "{name} failed ({status}); it last said: {last}");
    let results: Vec<ResultLine> = text.lines().filter_map(ResultLine::parse).collect();
    ensure!(!results.is_empty(), "{name} printed no result; it last said: {last}");
    Ok(results)
}

/// Waits for a child; none if it had to be ended, first politely so that it can clean up.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, limit)? {
        return Ok(Some(status));
    }
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // It may have ended by itself just now.
        let _ = kill_process(pid, Signal::TERM);
    }
    if wait_until(child, GRACE)?.is_none() {
        child.kill().context("cannot end a script")?;
        child.wait().context("cannot wait for a script")?;
    }
    Ok(None)
}

fn wait_until(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        let status = child.try_wait().context("cannot wait for a script")?;
        if status.is_some() || start.elapsed() >= limit {
            return Ok(status);
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests;
