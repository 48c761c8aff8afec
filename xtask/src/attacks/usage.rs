//! Resources that a run takes of the host, and its response times.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use api::{Answer, Client, Request};
use support::{Process, descendants_of, on_cpu, ran_and_waited, threads_of};

use super::scene::OTHER_CPU;

/// Interval between two requests.
const TURN: Duration = Duration::from_millis(200);
/// Page size in octets.
const PAGE: u64 = 4096;

/// Process IDs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) supervisor: u32,
    pub(super) plane: u32,
}

/// CPU time of threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct CpuTimes {
    /// Control thread of the data plane, which supervises all routers.
    pub(super) control: u64,
    /// The neighbour's threads.
    pub(super) near: u64,
    /// Time in which the neighbour's threads were runnable but waited for a CPU.
    pub(super) near_waited: u64,
    pub(super) supervisor: u64,
}

impl CpuTimes {
    pub(super) fn of(ids: Ids) -> Self {
        let mut ran = Self::default();
        let ran_by = |process, thread| ran_and_waited(process, thread).unwrap_or_default();
        ran.control = ran_by(ids.plane, ids.plane).0;
        ran.supervisor = ran_by(ids.supervisor, ids.supervisor).0;
        for process in descendants_of(ids.supervisor) {
            for (thread, name) in threads_of(process.id).unwrap_or_default() {
                if name.starts_with("near/") {
                    let (time, waited) = ran_by(process.id, thread);
                    ran.near += time;
                    ran.near_waited += waited;
                }
            }
        }
        ran
    }

    /// Increase since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            control: self.control.saturating_sub(before.control),
            near: self.near.saturating_sub(before.near),
            near_waited: self.near_waited.saturating_sub(before.near_waited),
            supervisor: self.supervisor.saturating_sub(before.supervisor),
        }
    }

    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            control: self.control + more.control,
            near: self.near + more.near,
            near_waited: self.near_waited + more.near_waited,
            supervisor: self.supervisor + more.supervisor,
        }
    }
}

/// Memory and descriptors of supervisor and data plane together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Resident memory in octets.
    pub(super) octets: u64,
    pub(super) descriptors: usize,
}

impl Held {
    pub(super) fn of(ids: Ids) -> Self {
        let mut held = Self::default();
        for id in [ids.supervisor, ids.plane] {
            held.octets += resident(id).unwrap_or(0);
            held.descriptors += Process::look(id).and_then(|process| process.descriptors().ok()).unwrap_or(0);
        }
        held
    }

    fn most(self, other: Self) -> Self {
        Self { octets: self.octets.max(other.octets), descriptors: self.descriptors.max(other.descriptors) }
    }
}

fn resident(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/statm")).ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE)
}

/// Observations of a client that polls the run continually.
#[derive(Clone, Debug, Default)]
pub(super) struct Observations {
    /// Number of answers to `ps`.
    pub(super) answers: u64,
    /// Longest response time, without the time in which the client itself waited for a CPU.
    pub(super) longest: Duration,
    /// Longest response time including that.
    pub(super) longest_in_all: Duration,
    /// Replacements of the data plane, and missing answers.
    pub(super) troubles: Vec<String>,
    pub(super) most: Held,
}

/// Thread that requests `ps` continually.
pub(super) struct Watch {
    enough: Arc<AtomicBool>,
    seen: Arc<Mutex<Observations>>,
    thread: JoinHandle<Result<()>>,
}

impl Watch {
    pub(super) fn start(client: Client, ids: Ids) -> Result<Self> {
        let (enough, seen) =
            (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Observations::default())));
        let (stop, write) = (Arc::clone(&enough), Arc::clone(&seen));
        let body = move || on_cpu(OTHER_CPU).and_then(|()| watch(client, ids, &stop, &write));
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(body)?;
        Ok(Self { enough, seen, thread })
    }

    pub(super) fn stop(self) -> Result<Observations> {
        self.enough.store(true, Relaxed);
        self.thread.join().map_err(|_| anyhow!("a panic in who asks"))??;
        Ok(self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn watch(mut client: Client, ids: Ids, stop: &AtomicBool, seen: &Mutex<Observations>) -> Result<()> {
    let (process, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
    let waited = || ran_and_waited(process, thread).map(|(_, waited)| waited).context("no schedstat");
    while !stop.load(Relaxed) {
        let (since, own) = (Instant::now(), waited()?);
        let answer = client.ask(&Request::Ps {});
        let in_all = since.elapsed();
        let own = Duration::from_nanos(waited()?.saturating_sub(own));
        let held = Held::of(ids);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.answers += 1;
        seen.longest = seen.longest.max(in_all.saturating_sub(own));
        seen.longest_in_all = seen.longest_in_all.max(in_all);
        seen.most = seen.most.most(held);
        match answer {
            Ok(Answer::Ps(status)) if status.data_plane == Some(ids.plane) => {}
            Ok(Answer::Ps(status)) => {
                seen.troubles.push(format!("data plane {:?}, no longer {}", status.data_plane, ids.plane));
                return Ok(());
            }
            other => {
                seen.troubles.push(format!("ps is answered by {other:?}"));
                return Ok(());
            }
        }
        drop(seen);
        thread::sleep(TURN);
    }
    Ok(())
}
