//! Waits until no frame is under way in a run any more.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use api::{Answer, Client, Request};

use crate::Counters;

/// Where runs of root listen.
const RUNS: &str = "/run/ringroad/runs";
/// How long a run may take for an answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(25);
/// Looks without a frame counted, after which a ledger that adds up is believed: what is in a TAP's queue is in no ledger yet.
const QUIET_LOOKS: u32 = 4;
/// Looks where the ledger never adds up, as a router that breaks the rules need not keep its own part of it.
const MANY_QUIET_LOOKS: u32 = 40;
/// Somebody goes on sending: whoever asks for the end has a reason.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a run is waited for to count comes long before this.
const LONG: Duration = Duration::from_secs(60);

/// Waits until the ledgers of all routers of a run add up and nothing moves in them; `supervisor` is the run's process.
///
/// A run that does not answer has nothing to be waited for.
pub(crate) fn wait(supervisor: u32) {
    let Some(mut client) = client(supervisor) else { return };
    let end = Instant::now() + PATIENCE;
    let (mut before, mut quiet) = (None, 0);
    while Instant::now() < end {
        let Ok(counters) = Counters::running(&mut client) else { return };
        let frames = counters.frames();
        quiet = if before.replace(frames) == Some(frames) { quiet + 1 } else { 0 };
        let adds_up = counters.routers().iter().all(|router| counters.faults(router).is_empty());
        if quiet >= if adds_up { QUIET_LOOKS } else { MANY_QUIET_LOOKS } {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// Waits until `wanted` is true of what a run has counted; `supervisor` is its process.
pub(crate) fn counters(supervisor: u32, wanted: impl Fn(&Counters) -> bool) -> Result<Counters> {
    let mut client = client(supervisor).context("no run answers")?;
    let end = Instant::now() + LONG;
    loop {
        let counters = Counters::running(&mut client)?;
        if wanted(&counters) {
            return Ok(counters);
        }
        ensure!(Instant::now() < end, "not so within {LONG:?}: {counters:?}");
        thread::sleep(LOOK);
    }
}

/// What a run has counted so far; `supervisor` is its process.
pub(crate) fn now(supervisor: u32) -> Option<Counters> {
    Counters::running(&mut client(supervisor)?).ok()
}

/// A connection to the run with this process.
pub(crate) fn client(supervisor: u32) -> Option<Client> {
    let folders = fs::read_dir(RUNS).ok()?.filter_map(Result::ok);
    let sockets = folders.map(|folder| folder.path().join("control"));
    sockets.filter_map(|socket: PathBuf| Client::connect(&socket, ANSWER).ok()).find_map(|mut client| {
        let Ok(Answer::Ps(status)) = client.ask(&Request::Ps {}) else { return None };
        (status.pid == supervisor).then_some(client)
    })
}
