//! Waits until no frame is in flight in a run.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Result, ensure};
use api::{Answer, Client, Request};

use crate::Counters;

/// Folder of root's runs.
const RUNS: &str = "/run/ringroad/runs";
/// Timeout of a run's answer.
const ANSWER: Duration = Duration::from_secs(60);
/// Interval between two readings.
const LOOK: Duration = Duration::from_millis(25);
/// Unchanged readings after which a ledger that adds up is accepted: frames in a TAP's queue are in no ledger yet.
const QUIET_LOOKS: u32 = 4;
/// Unchanged readings after which a ledger that does not add up is accepted: a hostile router need not maintain its part of
/// it.
const MANY_QUIET_LOOKS: u32 = 40;
/// Time limit if frames keep being sent: the caller has its reasons.
const PATIENCE: Duration = Duration::from_secs(10);
/// How a run ends a line about its data plane that does not answer: it comes up, is down, or died of the question.
const ASK_AGAIN: &str = "ask again in a second";
/// Timeout for a run to answer, or to count what is awaited.
const LONG: Duration = Duration::from_secs(60);

/// Waits until the ledgers of all routers of a run add up and do not change; `supervisor` is the run's process.
///
/// It returns at once if the run does not answer.
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

/// Waits until a run's counters satisfy `wanted`; `supervisor` is its process.
pub(crate) fn counters(supervisor: u32, wanted: impl Fn(&Counters) -> bool) -> Result<Counters> {
    let mut client = answering(supervisor)?;
    let end = Instant::now() + LONG;
    loop {
        let counters = match Counters::running(&mut client) {
            Ok(counters) if wanted(&counters) => return Ok(counters),
            // A run answers before its data plane does, and while that is started again.
            Err(error) if !format!("{error:#}").contains(ASK_AGAIN) => return Err(error),
            other => other,
        };
        ensure!(Instant::now() < end, "not so within {LONG:?}: {counters:?}");
        thread::sleep(LOOK);
    }
}

/// Counters of a run so far; `supervisor` is its process.
pub(crate) fn now(supervisor: u32) -> Option<Counters> {
    Counters::running(&mut client(supervisor)?).ok()
}

/// Connects to the run with this process as soon as it answers: its links are made earlier.
pub(crate) fn answering(supervisor: u32) -> Result<Client> {
    let end = Instant::now() + LONG;
    loop {
        if let Some(client) = client(supervisor) {
            return Ok(client);
        }
        ensure!(Instant::now() < end, "no run answers within {LONG:?}");
        thread::sleep(LOOK);
    }
}

/// Connects to the run with this process, if it answers.
pub(crate) fn client(supervisor: u32) -> Option<Client> {
    let folders = fs::read_dir(RUNS).ok()?.filter_map(Result::ok);
    let sockets = folders.map(|folder| folder.path().join("control"));
    sockets.filter_map(|socket: PathBuf| Client::connect(&socket, ANSWER).ok()).find_map(|mut client| {
        let Ok(Answer::Ps(status)) = client.ask(&Request::Ps {}) else { return None };
        (status.pid == supervisor).then_some(client)
    })
}
