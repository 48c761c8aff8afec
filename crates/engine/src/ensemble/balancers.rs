//! The threads of a multistage group: each balancer is one, which moves frames from the links that it owns into their balancing tables.
//! They start when the first member is served, and end with the group.
//!
//! ```text
//!  wan0 --> shelf --> core/lb0 owns it     core/lb1 is cut     --> shelf of lan0 --> core/lb0 owns both
//!  lan0 --> shelf --> core/lb1 owns it
//! ```
//!
//! A link lies on a shelf ([`port::Shelf`]), from which one balancer at a time reads it. If a balancer is cut, because the plan has fewer
//! of them or its thread has ended, its links are assigned to another one, which continues at the same frame: none overtakes another one.
//!
//! A thread that stands still within a burst keeps its links: they cannot be taken from it. Then the data plane has to end ([`Pulse`]), and
//! the next one takes the links over as they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use config::Group;
use ledger::Group as Counters;
use port::{Shelf, ShelfQueue, Sink};
use sandbox::Confinement;

use super::standstill::{Pulse, Verdict};
use crate::groups::{IoCounts, thread_groups};
use crate::io_thread::{Idle, IoThread, Pump};

/// The balancers of a group; none if members own the queues of links.
pub(super) struct Balancers {
    count: usize,
    confinement: Confinement,
    state: Mutex<State>,
}

struct State {
    idle: Idle,
    /// Number of them that are to have links.
    wanted: usize,
    /// Sources and sinks of links, by NIC number, until those of all links are there.
    waiting: Vec<(usize, Vec<Pump>)>,
    /// Queues of each link, by NIC number, which one balancer reads.
    links: Vec<Arc<Shelf>>,
    threads: Vec<IoThread>,
    /// State of the watch over each thread.
    pulses: Vec<Pulse>,
    /// Name of one that stands still.
    standing: Option<String>,
}

/// Returns the balancer that gets a link, of those that can: its own, else one of the others.
pub(super) fn owner(nic: usize, able: &[usize], count: usize) -> Option<u16> {
    let own = nic.checked_rem(count)?;
    let at = nic.checked_rem(able.len())?;
    let number = if able.contains(&own) { Some(&own) } else { able.get(at) };
    number.and_then(|number| u16::try_from(*number).ok())
}

impl State {
    /// Assigns links to balancers that can move their frames; returns the number of links that have changed hands.
    fn deal(&self, count: usize) -> u64 {
        let is_able = |number: &usize| {
            *number < self.wanted && self.threads.get(*number).is_some_and(|io| !io.thread().is_finished())
        };
        let able: Vec<usize> = (0..count).filter(is_able).collect();
        let mut moved = 0;
        for (nic, link) in self.links.iter().enumerate() {
            let (before, after) = (link.owner(0), owner(nic, &able, count));
            if before != after {
                (0..link.queues()).for_each(|queue| link.assign(queue, after));
                moved += u64::from(before.is_some());
            }
        }
        moved
    }

    /// Checks that threads make passes over their links; wakes those that may sleep.
    fn watch(&mut self, now: Duration) {
        for (io, pulse) in self.threads.iter().zip(&mut self.pulses) {
            let thread = io.thread();
            let cpu = || Duration::from_nanos(thread.meter().read());
            match pulse.look(now, io.counters().passes.get(), cpu) {
                Verdict::Wake => io.set_idle(self.idle),
                Verdict::Stands if !thread.is_finished() => self.standing = Some(thread.name().to_owned()),
                Verdict::Stands | Verdict::Goes => {}
            }
        }
    }
}

impl Balancers {
    pub(super) fn new(group: &Group, confinement: Confinement) -> Self {
        let count = group.balancers() as usize;
        let state = State {
            idle: group.pattern.spin.into(),
            wanted: count,
            waiting: Vec::new(),
            links: Vec::new(),
            threads: Vec::new(),
            pulses: vec![Pulse::default(); count],
            standing: None,
        };
        Self { count, confinement, state: Mutex::new(state) }
    }

    /// Adds the queues of a NIC's link; starts the threads once those of this many NICs were added.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub(super) fn add(&self, group: &str, (nic, own): (usize, Vec<Pump>), nics: usize) -> Result<()> {
        let mut state = self.state();
        state.waiting.push((nic, own));
        if state.waiting.len() < nics {
            return Ok(());
        }
        let mut waiting = std::mem::take(&mut state.waiting);
        waiting.sort_by_key(|(nic, _)| *nic);
        let mut pumps: Vec<Vec<Pump>> = (0..self.count).map(|_| Vec::new()).collect();
        for (_, queues) in waiting {
            let parts = queues.into_iter().map(|Pump { source, sink }| (source, sink));
            let (sources, sinks): (Vec<_>, Vec<_>) = parts.unzip();
            let link = Shelf::new(sources);
            for (number, own) in (0..).zip(&mut pumps) {
                let queues = link.reader(number).context("cannot make an event descriptor")?;
                let pump = |(queue, sink): (ShelfQueue, &Arc<dyn Sink>)| Pump {
                    source: Box::new(queue),
                    sink: sink.clone(),
                };
                own.extend(queues.into_iter().zip(&sinks).map(pump));
            }
            state.links.push(link);
        }
        for (number, pumps) in pumps.into_iter().enumerate() {
            let name = format!("{group}/lb{number}");
            let thread = IoThread::spawn(&name, &[], pumps, state.idle, self.confinement)?;
            state.threads.push(thread);
        }
        state.deal(self.count);
        Ok(())
    }

    /// Adopts the number of balancers, and their idle time, of a changed plan.
    pub(super) fn follow(&self, group: &Group) {
        self.set_idle(group.pattern.spin.into());
        self.state().wanted = (group.balancers() as usize).min(self.count);
    }

    /// Moves the links of balancers that are cut to others, and returns their number. Finds threads that stand still.
    pub(super) fn look(&self, now: Duration) -> u64 {
        let mut state = self.state();
        state.watch(now);
        state.deal(self.count)
    }

    /// Returns the name of a thread that makes no passes over its links any more, if there is one.
    pub(super) fn standing(&self) -> Option<String> {
        self.state().standing.clone()
    }

    /// Wakes all of them to look for frames, because the resource behind a link was replaced.
    pub(super) fn rouse(&self) {
        let state = self.state();
        state.threads.iter().for_each(|io| io.set_idle(state.idle));
    }

    /// Ends one of them, as a defect would.
    #[cfg(test)]
    pub(super) fn cut(&self, number: usize) {
        if let Some(io) = self.state().threads.get_mut(number) {
            io.stop();
        }
    }

    /// Ends them.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        let (waiting, threads) = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.threads));
        let links = std::mem::take(&mut state.links);
        drop(state);
        IoThread::stop_all(threads);
        drop((waiting, links));
    }

    /// Returns their names and kernel thread IDs.
    pub(super) fn threads(&self) -> Vec<(String, i32)> {
        let state = self.state();
        let threads = state.threads.iter().map(IoThread::thread);
        threads.map(|thread| (thread.name().to_owned(), thread.tid())).collect()
    }

    /// Sets the time without work after which they sleep.
    fn set_idle(&self, idle: Idle) {
        let mut state = self.state();
        if state.idle != idle {
            state.idle = idle;
            state.threads.iter().for_each(|io| io.set_idle(idle));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> Vec<IoCounts> {
        IoCounts::of(&self.state().threads)
    }

    /// Calls `visit` with the counters of each thread.
    pub(super) fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Counters)) {
        thread_groups(&self.counts(), visit);
    }

    /// Calls `visit` with the name of each thread, and its CPU time.
    pub(super) fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.counts().iter().for_each(|io| io.tell(visit));
    }
}

#[cfg(test)]
mod tests;
