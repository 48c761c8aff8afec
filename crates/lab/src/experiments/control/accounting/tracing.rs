//! Cost of accounting interrupts by the tracer: time per interrupt, and lost forwarding rate of a router. Within one run,
//! measurements with and without the tracer alternate.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sched::account::Tracer;

use super::burn::{Softirqs, StolenTime};
use crate::experiment::{Options, Sample};
use crate::experiments::control::on;
use crate::rig::router_run::{File, Link, RouterRun};
use crate::scenario::load::{SendMode, step};
use crate::stats;

/// Turns of a sample, each measured with and without the tracer.
const TURNS: usize = 8;
/// Length of each half of a turn, and of its lead-in.
const HALF: Duration = Duration::from_millis(300);
const LEAD: Duration = Duration::from_millis(50);

/// Forwarding rate (thousands of frames a second), and interrupts and softirqs a second.
type Half = (f64, f64);

/// Measures the halves of all turns: without the tracer and with it, in an order that changes from turn to turn.
fn in_turn<T>(mut half: impl FnMut() -> Result<T>) -> Result<Vec<[T; 2]>> {
    let mut traced = |is_traced: bool| {
        let tracer = is_traced.then(Tracer::start).transpose().context("no tracer here")?;
        let half = half();
        drop(tracer);
        half
    };
    let turn = |n: usize| {
        let is_even = n.is_multiple_of(2);
        let (first, second) = (traced(!is_even)?, traced(is_even)?);
        Ok(if is_even { [first, second] } else { [second, first] })
    };
    (0..TURNS).map(turn).collect()
}

/// Nanoseconds that the tracer adds to an interrupt with its softirq.
///
/// # Errors
/// There is no tracer, or no way to interrupt the CPU.
pub(super) fn of_an_interrupt(cpu: usize) -> Result<Sample> {
    let softirqs = Softirqs::start(cpu)?;
    let turns = in_turn(|| Ok(softirqs.interrupted(HALF).0))?;
    let each = |taken: &StolenTime| taken.lost / taken.gaps.max(1.0) * 1e9;
    let of = |part: &dyn Fn(&[StolenTime; 2]) -> f64| median(turns.iter().map(part));
    let more = [
        ("untraced_ns", of(&|[without, _]| each(without))),
        ("interrupts_a_second", of(&|[_, with]| with.gaps / with.elapsed)),
    ];
    Ok(Sample {
        value: of(&|[without, with]| each(with) - each(without)),
        more: more.into(),
        ..Sample::default()
    })
}

/// Percentage by which the tracer reduces the rate of a router on one core, at the highest load that the socket can offer.
///
/// # Errors
/// There is no tracer, or the router does not run.
pub(super) fn of_forwarding(options: &Options, cpu: usize) -> Result<Sample> {
    let routers = [on(cpu)];
    let turns: Vec<[Half; 2]> = RouterRun::with_routers(&File::new(options, Link::Tap, &routers), |room| {
        in_turn(|| {
            let before = events(cpu)?;
            let step = step(room, &[f64::INFINITY], (LEAD, HALF), SendMode::PLAIN)?;
            let seconds = (LEAD + HALF).as_secs_f64();
            Ok((step.forwarded_kpps(0), events(cpu)?.saturating_sub(before) as f64 / seconds))
        })
    })?;
    ensure!(turns.iter().flatten().all(|(kpps, _)| *kpps > 0.0), "nothing came through");
    let of = |part: fn(&[Half; 2]) -> f64| median(turns.iter().map(part));
    let more = [
        ("untraced_kpps", of(|[without, _]| without.0)),
        ("traced_kpps", of(|[_, with]| with.0)),
        ("events_a_second", of(|[_, with]| with.1)),
    ];
    let value = of(|[without, with]| (1.0 - with.0 / without.0) * 100.0);
    Ok(Sample { value, more: more.into(), ..Sample::default() })
}

/// Median over all turns.
fn median(turns: impl Iterator<Item = f64>) -> f64 {
    stats::median(&turns.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// Number of interrupts and softirqs of a CPU since boot.
fn events(cpu: usize) -> Result<u64> {
    let tables = ["/proc/interrupts", "/proc/softirqs"].map(|name| fs::read_to_string(name).context(name));
    let mut all = 0;
    for table in tables {
        all += of_cpu(&table?, cpu).with_context(|| format!("nothing is counted for CPU {cpu}"))?;
    }
    Ok(all)
}

/// Sums the column of a CPU.
fn of_cpu(table: &str, cpu: usize) -> Option<u64> {
    let mut lines = table.lines();
    let name = format!("CPU{cpu}");
    let column = lines.next()?.split_ascii_whitespace().position(|word| word == name)?;
    // The counts follow the name of a line; some lines have a single number for all CPUs.
    let counts = lines.filter_map(|line| line.split_ascii_whitespace().nth(column + 1)?.parse::<u64>().ok());
    Some(counts.sum())
}

#[cfg(test)]
mod tests;
