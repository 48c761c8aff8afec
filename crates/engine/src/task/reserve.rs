//! One thread that is kept for work for which no other one can be had: who reaches the ceiling of tasks keeps nobody else waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;

use anyhow::{Context, Result};

use super::Job;

/// Where it is given what it is to do. There is one for the process, as its ceiling is.
static RESERVE: OnceLock<Sender<Job>> = OnceLock::new();

/// Makes sure that it is there, from now on and for good.
///
/// # Errors
/// No thread can be had.
pub(crate) fn keep() -> Result<()> {
    if RESERVE.get().is_some() {
        return Ok(());
    }
    let (give, given) = mpsc::channel::<Job>();
    let body = move || {
        for job in given {
            // What panics has left no outcome, as it would in a thread of its own.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    };
    Builder::new().name("ringroad/reserve".to_owned()).spawn(body).context("cannot start a thread")?;
    // Where two were made at the same time, the other one ends: nobody gives it anything.
    let _ = RESERVE.set(give);
    Ok(())
}

/// Takes a job over; it comes back where there is no such thread.
pub(super) fn take(job: Job) -> Option<Job> {
    let Some(reserve) = RESERVE.get() else { return Some(job) };
    reserve.send(job).err().map(|refused| refused.0)
}
