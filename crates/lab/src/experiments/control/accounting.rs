//! `accounting`: burns 30 % of a core in a vCPU, in a vhost thread or in softirqs, compares that with the share that the CPU
//! accounting reports in the corresponding column, and measures the cost of the accounting itself.
//!
//! A sample is the share that the account reports, in percent of the core. Beside it stand the share that the burn measured itself
//! (`burn`), the difference of the two, the share by ticks alone, and all other columns of the core. For `cost` the sample is the
//! CPU time of a thread that reads threads and cores once a second, as `top` does; for `tracer` it is the time that the tracer
//! adds to an interrupt, and the forwarding rate that it costs a router.

mod burn;
mod tracing;

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host::cores;
use sched::account::{Account, CoreSplit, Sample as Taken, Split};

use self::burn::{Application, Burn, Burner, Softirqs};
use super::on;
use crate::experiment::{Experiment, ExtraFigures, Options, Sample};
use crate::experiments::Case;
use crate::metric::cpu_time;
use crate::metric::usage::Reader;
use crate::rig::router_run::{File, Link, RouterRun};

/// Share of the core that is burnt.
const PART: f64 = 0.3;
/// Shortest sample: long enough for the kernel's ticks to resolve a share of 30 % to one percent.
const LEAST: Duration = Duration::from_secs(6);
/// Lead-in before the first reading.
const LEAD: Duration = Duration::from_millis(300);
/// Number of routers whose threads are read for `cost`, and the interval of the readings.
const ROUTERS: usize = 8;
const EACH: Duration = Duration::from_secs(1);

/// Place of the burn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Vcpu,
    Vhost,
    Softirq,
}

impl Place {
    /// Returns the time that the account attributes to the burn, in nanoseconds.
    const fn said(self, core: &CoreSplit) -> f64 {
        match self {
            Self::Vcpu => core.guest,
            Self::Vhost => core.vhost,
            Self::Softirq => core.softirq,
        }
    }
}

/// Returns a case for each place of a burn, and the cases for the costs.
///
/// # Errors
/// There are fewer than two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let accounting = Accounting { options: options.clone(), cpus: (options.cpu(0)?, options.cpu(1)?) };
    let (device, percent) = (options.device(), "percent-of-a-core");
    let case = |name: String, unit, measure: fn(&Accounting) -> Result<Sample>| {
        let (accounting, cpus) = (accounting.clone(), accounting.cpus);
        let slice = move |_: Duration| {
            cores::pin(cpus.0)?;
            measure(&accounting)
        };
        Case::from(Experiment::unbuilt(("accounting", unit), name, slice).whole().between(cpus))
    };
    Ok(vec![
        case(format!("{device}/vcpu"), percent, |of| of.burnt(Place::Vcpu)),
        case("vhost".to_owned(), percent, |of| of.burnt(Place::Vhost)),
        case("softirq".to_owned(), percent, |of| of.burnt(Place::Softirq)),
        case(format!("cost/{ROUTERS}-routers"), percent, Accounting::cost),
        case("tracer/interrupt".to_owned(), "ns", |of| tracing::of_an_interrupt(of.cpus.1)),
        case(format!("tracer/{device}/tap"), "percent-less", |of| {
            tracing::of_forwarding(&of.options, of.cpus.1)
        }),
    ])
}

/// Parameters of the experiment: the load generator runs on the first CPU, the burn on the second.
#[derive(Clone)]
struct Accounting {
    options: Options,
    cpus: (usize, usize),
}

impl Accounting {
    fn burn(&self, place: Place) -> Result<Box<dyn Burn>> {
        let (near, far) = self.cpus;
        Ok(match place {
            Place::Vcpu => Box::new(Application::start(&self.options, near, far)?),
            Place::Vhost => Box::new(Burner::start(far)?),
            Place::Softirq => Box::new(Softirqs::start(far)?),
        })
    }

    fn burnt(&self, place: Place) -> Result<Sample> {
        let mut burn = self.burn(place)?;
        burn.go(LEAD)?;
        let threads = burn.threads();
        let mut reader = Reader::traced()?;
        let before = reader.look(&threads)?;
        let took = burn.go(self.options.step(LEAST))?;
        let after = reader.look(&threads)?;
        let (took, doubt) = burn.judged(took)?;
        let mut sample = told(place, self.cpus.1, (before, after), took)?;
        let traced = f64::from(u8::from(reader.is_traced()));
        sample.more.extend([("burnt_doubt_points", doubt * 100.0), ("traced", traced)]);
        Ok(sample)
    }

    fn cost(&self) -> Result<Sample> {
        let routers = vec![on(self.cpus.1); ROUTERS];
        RouterRun::with_routers(&File::new(&self.options, Link::Tap, &routers), |room| {
            self.read_each_second(room)
        })
    }

    fn read_each_second(&self, room: &RouterRun) -> Result<Sample> {
        let threads = room.threads()?;
        ensure!(threads.len() >= 2 * ROUTERS, "there are {} threads of {ROUTERS} routers", threads.len());
        let mut account = Account::open(&[], &threads).context("cannot open the account")?;
        let mut last = account.sample();
        let length = self.options.step(LEAST);
        let (start, before, mut looks) = (Instant::now(), cpu_time(), 0u32);
        while start.elapsed() < length {
            looks += 1;
            thread::sleep((EACH * looks).saturating_sub(start.elapsed()));
            let now = account.sample();
            black_box(Split::between(&last, &now));
            last = now;
        }
        let (took, passed) = (cpu_time().saturating_sub(before), start.elapsed());
        ensure!(last.threads.len() == threads.len(), "a router's thread has ended");
        let more = [
            ("threads", threads.len() as f64),
            ("looks", f64::from(looks)),
            ("us_a_look", took.as_secs_f64() * 1e6 / f64::from(looks)),
        ];
        let value = took.as_secs_f64() / passed.as_secs_f64() * 100.0;
        Ok(Sample { value, more: more.into(), ..Sample::default() })
    }
}

/// Builds the sample from the account's readings around a burn that took the share `took` of a core.
fn told(place: Place, cpu: usize, (before, after): (Taken, Taken), took: f64) -> Result<Sample> {
    let core = core(cpu, &before, &after)?;
    let [before, after] = [before, after].map(|taken| Taken { traced: None, ..taken });
    let ticks = self::core(cpu, &before, &after)?;
    let said = |core: &CoreSplit| place.said(core) / core.all() * 100.0;
    let mut more = ExtraFigures::from([
        ("burnt_percent", took * 100.0),
        ("apart_points", said(&core) - took * 100.0),
        ("by_ticks_percent", said(&ticks)),
    ]);
    more.extend(core.columns().map(|(column, ns)| (column, ns / core.all() * 100.0)));
    Ok(Sample { value: said(&core), more, ..Sample::default() })
}

fn core(cpu: usize, before: &Taken, after: &Taken) -> Result<CoreSplit> {
    let split = Split::between(before, after);
    let core = u32::try_from(cpu).ok().and_then(|cpu| split.cores.get(&cpu).copied());
    core.filter(|core| core.all() > 0.0).with_context(|| format!("the account knows nothing of CPU {cpu}"))
}

#[cfg(test)]
mod tests;
