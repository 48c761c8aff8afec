//! The threads of a multistage group: each balancer is one, which moves what comes from the links that were dealt out to it into their
//! balancing tables. They start when the first member is served, and end with the group.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use config::{Group, GroupKind};
use ledger::Group as Counters;
use sandbox::Confinement;

use crate::groups::{IoCounts, thread_groups};
use crate::io_thread::{Idle, IoThread, Pump};

/// The balancers of a group; none where members own the queues of links.
pub(super) struct Balancers {
    count: usize,
    confinement: Confinement,
    state: Mutex<State>,
}

struct State {
    idle: Idle,
    /// Until there is one for each link: by number of the NIC.
    waiting: Vec<(usize, Pump)>,
    threads: Vec<IoThread>,
}

impl Balancers {
    pub(super) fn new(group: &Group, confinement: Confinement) -> Self {
        let count = match &group.kind {
            GroupKind::Parallel => 0,
            GroupKind::Multistage(stages) => stages.balancers.max(1) as usize,
        };
        let state = State { idle: group.pattern.spin.into(), waiting: Vec::new(), threads: Vec::new() };
        Self { count, confinement, state: Mutex::new(state) }
    }

    /// Has what comes from the link of a NIC moved, once there is that of each of so many.
    ///
    /// # Errors
    /// No thread can be had.
    pub(super) fn add(&self, group: &str, (nic, pump): (usize, Pump), nics: usize) -> Result<()> {
        let mut state = self.state();
        state.waiting.push((nic, pump));
        if state.waiting.len() < nics {
            return Ok(());
        }
        let mut dealt: Vec<Vec<Pump>> = (0..self.count).map(|_| Vec::new()).collect();
        for (nic, pump) in std::mem::take(&mut state.waiting) {
            if let Some(own) = dealt.get_mut(nic % self.count.max(1)) {
                own.push(pump);
            }
        }
        for (number, pumps) in dealt.into_iter().enumerate().filter(|(_, pumps)| !pumps.is_empty()) {
            let name = format!("{group}/lb{number}");
            let thread = IoThread::spawn(&name, &[], pumps, state.idle, self.confinement)?;
            state.threads.push(thread);
        }
        Ok(())
    }

    /// Ends them.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        let (waiting, threads) = (std::mem::take(&mut state.waiting), std::mem::take(&mut state.threads));
        drop(state);
        IoThread::stop_all(threads);
        drop(waiting);
    }

    /// Names and kernel thread IDs of them.
    pub(super) fn threads(&self) -> Vec<(String, i32)> {
        let state = self.state();
        state.threads.iter().map(IoThread::thread).map(|thread| (thread.name().to_owned(), thread.tid())).collect()
    }

    /// Has them sleep after this time without work.
    pub(super) fn set_idle(&self, idle: Idle) {
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

    /// Calls `visit` with what each thread counts.
    pub(super) fn each_group(&self, visit: &mut dyn FnMut(&str, &dyn Counters)) {
        thread_groups(&self.counts(), visit);
    }

    /// Calls `visit` with the name of each thread, and what it has spent.
    pub(super) fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.counts().iter().for_each(|io| io.tell(visit));
    }
}
