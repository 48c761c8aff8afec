//! The control plane of a group at one of its links. Frames for it are sorted out before a member or a balancer gets them. Its own frames
//! leave by the link, moved by a thread: `core/wan-control`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use attach::Visit;
use config::{Group, Nic};
use ledger::Group as Counters;
use port::{Sink, Source};
use punt::PuntCounters;
use sandbox::Confinement;
use uplink::{ReadCounters, WriteCounters};

use super::link::IsPulled;
use crate::control::{PuntGate, Shadow, ShadowCounters, ShadowEntry, ShadowSource, SortedCounters};
use crate::groups::{IoCounts, thread_groups};
use crate::io_thread::{Idle, IoThread, Pump};
use crate::supplies::HostServices;

/// Time without work after which the thread sleeps: a control plane sends little.
const SPIN: Duration = Duration::from_micros(50);

/// See the module.
pub(super) struct Voice {
    shadow: Arc<Shadow>,
    name: String,
    entry: ShadowEntry,
    read: Arc<ReadCounters>,
    written: Arc<WriteCounters>,
    lost: Arc<ShadowCounters>,
    confinement: Confinement,
    state: Mutex<State>,
}

struct State {
    /// Frames of the control plane, until the link has a sink.
    waiting: Option<ShadowSource>,
    thread: Option<IoThread>,
    /// Counters of the sources that are in use, and the sums of those that are gone.
    gates: Vec<Arc<PuntGate>>,
    past: PuntGate,
}

impl State {
    /// Forgets sources that are gone, but keeps their counts.
    fn retire(&mut self) {
        let Self { gates, past, .. } = self;
        gates.retain(|gate| {
            let is_used = Arc::strong_count(gate) > 1;
            if !is_used {
                past.sorted.add_all(&gate.sorted);
                past.classes.add_all(&gate.classes);
            }
            is_used
        });
    }
}

impl Voice {
    /// Creates it for a NIC of a group with a control plane; a held shadow stays in use.
    ///
    /// # Errors
    /// There is no shadow, or no descriptors are left.
    pub(super) fn new(
        (group, nic): (&Group, &Nic),
        supplies: &mut HostServices,
        held: Option<Arc<Shadow>>,
        is_pulled: &IsPulled,
    ) -> Result<Option<Self>> {
        if group.pattern.control.is_none() {
            return Ok(None);
        }
        let label = group.wanted(nic).label();
        let shadow = Shadow::served(&label, &group.name, supplies, held)?;
        let cable = is_pulled.clone();
        let opened = shadow.open((&group.pattern, nic), Arc::new(move || cable.get()))?;
        let (source, entry) = opened.into_source();
        let (read, lost) = (source.read(), source.lost());
        let state =
            State { waiting: Some(source), thread: None, gates: Vec::new(), past: PuntGate::default() };
        Ok(Some(Self {
            shadow,
            name: format!("{}/{}-control", group.name, nic.name),
            written: entry.sink().counters(),
            entry,
            read,
            lost,
            confinement: supplies.confinement,
            state: Mutex::new(state),
        }))
    }

    /// Returns the shadow, which stays in use at a link that replaces this one.
    pub(super) fn shadow(&self) -> Arc<Shadow> {
        self.shadow.clone()
    }

    /// Sorts out the frames of these sources, which one thread reads.
    pub(super) fn sort(&self, sources: Vec<Box<dyn Source>>) -> Vec<Box<dyn Source>> {
        let gate = Arc::<PuntGate>::default();
        let mut state = self.state();
        state.retire();
        state.gates.push(gate.clone());
        drop(state);
        let sort = |source| self.entry.sort(source, self.entry.sink(), gate.clone());
        sources.into_iter().map(sort).collect()
    }

    /// Sends the control plane's frames to this sink, if they have none yet.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub(super) fn speak(&self, out: &Arc<dyn Sink>) -> Result<()> {
        let mut state = self.state();
        if state.thread.is_some() {
            return Ok(());
        }
        let source =
            state.waiting.take().context("its control plane could not be served: start the run anew")?;
        let pumps = vec![Pump { source: Box::new(source), sink: out.clone() }];
        let thread = IoThread::spawn(&self.name, &[], pumps, Idle::Sleep(SPIN), self.confinement)?;
        state.thread = Some(thread);
        Ok(())
    }

    /// Returns name and kernel thread ID of its thread.
    pub(super) fn thread(&self) -> Option<(String, i32)> {
        let state = self.state();
        let thread = state.thread.as_ref().map(IoThread::thread);
        thread.map(|thread| (thread.name().to_owned(), thread.tid()))
    }

    /// Calls `visit` with the counters at the link.
    pub(super) fn each_group(&self, visit: &mut Visit<'_>) {
        let (sorted, classes) = <(SortedCounters, PuntCounters)>::default();
        let state = self.state();
        for gate in state.gates.iter().map(|gate| &**gate).chain([&state.past]) {
            sorted.add_all(&gate.sorted);
            classes.add_all(&gate.classes);
        }
        drop(state);
        visit("sorted", &sorted);
        visit("punt", &classes);
        visit("shadow", &*self.lost);
        visit("shadow.read", &*self.read);
        visit("shadow.write", &*self.written);
    }

    fn counts(&self) -> Vec<IoCounts> {
        let state = self.state();
        IoCounts::of(state.thread.as_slice())
    }

    /// Calls `visit` with the counters of its thread.
    pub(super) fn each_thread_group(&self, visit: &mut dyn FnMut(&str, &dyn Counters)) {
        thread_groups(&self.counts(), visit);
    }

    /// Calls `visit` with the name of its thread, and its CPU time.
    pub(super) fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        self.counts().iter().for_each(|io| io.tell(visit));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
