//! Reserve thread, for work for which no other thread can be started: a router that reaches its ceiling of
//! tasks does not block the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

use anyhow::{Context, Result};

use super::Job;

/// Job queue of the reserve thread. There is one for the process, as the ceiling of tasks is per process.
static RESERVE: OnceLock<Sender<Job>> = OnceLock::new();

/// Makes sure that the reserve thread exists, permanently.
///
/// # Errors
/// No thread can be started.
pub(crate) fn keep() -> Result<()> {
    if RESERVE.get().is_some() {
        return Ok(());
    }
    let (give, given) = mpsc::channel::<Job>();
    let body = move || {
        for job in given {
            // A job that panics leaves no result, as it would in a thread of its own.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    };
    Builder::new().name("ringroad/reserve".to_owned()).spawn(body).context("cannot start a thread")?;
    // If two were started concurrently, the other one ends because its sender is dropped.
    let _ = RESERVE.set(give);
    Ok(())
}

/// Queues a job; returns it if there is no reserve thread.
pub(super) fn take(job: Job) -> Option<Job> {
    let Some(reserve) = RESERVE.get() else { return Some(job) };
    reserve.send(job).err().map(|refused| refused.0)
}
