//! `container-boot`: time from the request to start a router to the first frame that it forwards. Each trial stops the router,
//! starts it, and sends probes until the first one arrives.
//!
//! A sample is the 99th percentile of 100 trials. Trials in which the hypervisor stole CPU time are dropped and counted.

use std::thread::scope;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use api::{Client, Request};

use super::Stand;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::metric::usage::Reader;
use crate::rig::router_run::{Probe, RouterRun, change};
use crate::stats;

/// Number of trials that count, and maximum number of trials including the dropped ones.
const TRIALS: usize = 100;
const MOST: usize = 400;
/// Interval between two probes, which is also the error of a trial.
const EVERY: Duration = Duration::from_micros(50);
/// Timeout for the first frame: a Linux guest boots in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Set-ups whose outer interfaces persist when the router stops.
const STANDS: [Stand; 2] = [Stand::KERNEL_MACVLAN, Stand::KERNEL_BRIDGE];

/// Returns a case with macvlans, and one with veth pairs in bridges.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let one = |stand: Stand| {
        let measure = move |options: &Options, cpu: usize| {
            stand.with_routers(options, &[cpu], |room| Ok(Trials::of(room, TRIALS)?.sample()))
        };
        let name = stand.name.to_owned();
        Experiment::pinned(("container-boot", "ms"), name, options, measure).map(Case::from)
    };
    STANDS.into_iter().map(one).collect()
}

/// Results of all trials.
pub(in crate::experiments) struct Trials {
    /// Times of the trials that count, in milliseconds, sorted.
    took: Vec<f64>,
    /// Number of dropped trials.
    stolen: usize,
}

impl Trials {
    /// Stops and starts the first router of a room until this many trials count.
    ///
    /// # Errors
    /// The router does not stop, start or forward, or the hypervisor disturbs too many trials.
    pub(super) fn of(room: &RouterRun, wanted: usize) -> Result<Self> {
        let (mut client, router) = (room.client()?, room.router(0));
        Self::by(wanted, || trial(room, &mut client, &router))
    }

    /// Makes trials, each of which returns the time that it took, until this many count.
    ///
    /// # Errors
    /// A trial fails, or the hypervisor disturbs too many of them.
    pub(in crate::experiments) fn by(
        wanted: usize,
        mut trial: impl FnMut() -> Result<Duration>,
    ) -> Result<Self> {
        let (mut trials, mut reader) = (Self { took: Vec::new(), stolen: 0 }, Reader::by_ticks()?);
        while trials.took.len() < wanted {
            ensure!(trials.stolen + trials.took.len() < MOST, "too many trials lost CPU time to others");
            let before = stolen(&mut reader)?;
            let took = trial()?;
            if stolen(&mut reader)? == before {
                trials.took.push(took.as_secs_f64() * 1e3);
            } else {
                trials.stolen += 1;
            }
        }
        trials.took.sort_unstable_by(f64::total_cmp);
        Ok(trials)
    }

    /// Returns a percentile in milliseconds, by nearest rank.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.took.len() * percent).div_ceil(100).max(1);
        self.took.get(rank - 1).copied().unwrap_or(f64::NAN)
    }

    /// Returns the 99th percentile, in milliseconds, with median, extremes and numbers of trials.
    pub(in crate::experiments) fn sample(&self) -> Sample {
        let more = [
            ("median_ms", stats::median(&self.took).unwrap_or(f64::NAN)),
            ("shortest_ms", self.took.first().copied().unwrap_or(f64::NAN)),
            ("longest_ms", self.took.last().copied().unwrap_or(f64::NAN)),
            ("trials", self.took.len() as f64),
            ("stolen", self.stolen as f64),
        ];
        Sample { value: self.percentile(99), more: more.into(), ..Sample::default() }
    }
}

/// Returns the steal time of all CPUs so far, in ticks: time in which the hypervisor ran others.
pub(in crate::experiments) fn stolen(reader: &mut Reader) -> Result<u64> {
    Ok(reader.look(&[])?.cores.values().map(|core| core.steal).sum())
}

/// Runs one trial: stops a router, starts it again, and waits for the first frame.
fn trial(room: &RouterRun, client: &mut Client, router: &str) -> Result<Duration> {
    change(client, &Request::Stop { name: router.to_owned() })?;
    let request = Request::Start { router: router.to_owned() };
    let mut probe = Probe::new(room, 0, EVERY)?;
    let start = Instant::now();
    scope(|scope| {
        let asked = scope.spawn(|| change(client, &request));
        while probe.took.is_empty() {
            ensure!(start.elapsed() < PATIENCE, "no frame was forwarded within {PATIENCE:?}");
            probe.turn();
        }
        let took = start.elapsed();
        asked.join().map_err(|_| anyhow!("a thread of the lab has died"))??;
        Ok(took)
    })
}

#[cfg(test)]
mod tests;
