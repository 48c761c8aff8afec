//! `guarantee`, beside a neighbour that never idles: a hostile guest that spins on the CPU of the promise, and is started again when
//! it is stopped for that. (One of `spin = "always"` is no such guest: beside others its threads sleep early.) Nobody offers it
//! anything, so that no limit and no drop can keep it down. A sample is what was delivered of the promise meanwhile; beside it
//! how late timers came to a program on that CPU, what the neighbour took of it, and what was left of it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::cores;
use sched::account::Split;

use super::capacity;
use super::lateness::{Late, Sleeper, TRIALS};
use super::load::{Manner, Step, step};
use super::promise::{PROMISED, STEP, delivered, promise, settle};
use super::usage::{self, Reader};
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Link;
use crate::experiments::room::{File, Memory, Room, program};
use crate::ledger_snapshot::Snapshot;

/// Lines of the neighbour's table.
const NEVER_IDLES: &str = "role = \"hostile\"\nmisdeed = \"spin\"\nrestart = \"always\"\n";
/// Its place among the routers.
const NEIGHBOUR: usize = 1;
/// The step goes on by so much where trials are still missing, and no longer than that in all.
const MORE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(30);

/// See the head of this file.
pub struct Spinner {
    options: Options,
    cpus: (usize, usize),
}

/// What was seen while the neighbour spun.
struct Seen {
    step: Step,
    late: Late,
    split: Split,
}

impl Spinner {
    /// Load on the first CPU of the options, both routers on the second.
    ///
    /// # Errors
    /// There are not two CPUs.
    pub fn new(options: &Options) -> Result<Self> {
        Ok(Self { options: options.clone(), cpus: (options.cpu(0)?, options.cpu(1)?) })
    }

    fn room(&self, promised: f64, memory: &Memory) -> Result<Room> {
        let here = capacity::on(self.cpus.1);
        let promise = promise(promised, self.options.frame);
        let routers = [format!("{here}{promise}"), format!("{here}{NEVER_IDLES}")];
        let file = File {
            options: &self.options,
            link: Link::Tap,
            queue_len: None,
            routers: &routers,
            memory: Some(memory),
        };
        Room::open(&program()?, &file).with_context(|| format!("with {}", promise.trim()))
    }

    /// The promise is asked for, for a step and until enough timers have come.
    fn watch(&self, room: &Room, rates: &[f64]) -> Result<Seen> {
        let mut reader = Reader::by_ticks()?;
        let mut look = || reader.look(&usage::threads(room.supervisor())?);
        let sleeper = Sleeper::start(self.cpus.1)?;
        let (before, end) = (look()?, Instant::now() + PATIENCE);
        let mut all = step(room, rates, (Duration::ZERO, self.options.step(STEP)), Manner::PLAIN)?;
        while !sleeper.is_enough() {
            ensure!(Instant::now() < end, "fewer than {TRIALS} timers came within {PATIENCE:?}");
            all.add(&step(room, rates, (Duration::ZERO, MORE), Manner::PLAIN)?);
        }
        let split = Split::between(&before, &look()?);
        Ok(Seen { step: all, late: sleeper.end()?, split })
    }

    fn measure(&self, room: &Room, capacity: f64) -> Result<Sample> {
        let promised = PROMISED * capacity;
        let rates = [promised, 0.0];
        let settled = settle(room, &rates, promised)?;
        let Seen { step, late, split } = self.watch(room, &rates)?;
        let packets: u64 = step.forwarded.iter().sum();
        ensure!(packets > 0, "nothing came through");
        let spun = usage::used(&split, Some(NEIGHBOUR));
        let [_, idle] = usage::of_cpu(&split, self.cpus.1).context("nothing is told of the CPU")?;
        let more = vec![
            ("capacity_kpps", capacity * 1e-3),
            ("promised_kpps", promised * 1e-3),
            ("offered_short", step.short(0, promised)),
            ("settled_ms", settled),
            ("neighbour_cpu", spun.vcpu + spun.vhost),
            ("idle_cpu", idle),
            ("timer_median_ms", late.median_ms),
            ("timer_p99_ms", late.p99_ms),
            ("timer_trials", late.trials as f64),
            ("timer_stolen", late.stolen as f64),
        ];
        let value = delivered(&step, promised);
        Ok(Sample { value, packets, lost: 0, exits: None, more, ledger: Snapshot::new() })
    }
}

impl Experiment for Spinner {
    fn id(&self) -> &'static str {
        "guarantee"
    }

    fn case(&self) -> String {
        format!("{}/{}/tap/beside-spinner", self.options.device(), self.options.frame)
    }

    fn unit(&self) -> &'static str {
        "delivered/promised"
    }

    fn cpus(&self) -> Option<(usize, usize)> {
        Some(self.cpus)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn prepare(&mut self) -> Result<()> {
        program().map(drop)
    }

    fn run_slice(&mut self, _: Duration) -> Result<Sample> {
        cores::pin(self.cpus.0)?;
        let memory = Memory::new()?;
        let capacity = capacity::measure(&self.options, Link::Tap, self.cpus.1, Some(&memory))?;
        let room = self.room(PROMISED * capacity, &memory)?;
        let sample = self.measure(&room, capacity);
        room.close()?;
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_neighbour_spins_beside_what_is_promised() {
        let (promise, place) = (promise(12_345.6, 60), capacity::on(1));
        for lines in [format!("{place}{promise}"), format!("{place}{NEVER_IDLES}")] {
            let nics = "[[router.nic]]\nname = \"n\"\nattach = \"tap:t\"\naddress = \"192.0.2.1/24\"\n";
            let text = format!("[[router]]\nname = \"r\"\n{lines}{nics}");
            let plan = config::parse(&text, "lab").unwrap();
            let router = &plan.routers[0];
            let spins = router.role == config::Role::Hostile(config::Misdeed::Spin);
            assert_ne!(router.guarantee.is_some(), spins, "{lines}");
        }
    }
}
