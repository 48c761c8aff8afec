//! What a NIC of a group of routers is plugged into: opened once, with more queues than there are members, which the members own.
//!
//! Each member has an attachment of its own, by which it reads the queues that it owns and sends by a queue that it shares. A member
//! that comes or goes changes nothing about the link: what it owned is named another member's ([`port::shelf`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use port::{Shelf, Sink, Source};

use crate::{Attachment, Entry, HandedOver, News, NicRequirements, Outside, Ports, ServiceContext};

/// A link that several routers share.
pub struct Shared {
    link: Arc<dyn Attachment>,
    /// What the group wants of it.
    wanted: NicRequirements,
    state: Mutex<State>,
}

struct State {
    /// Member that owns each queue; `None`: nobody reads it.
    owners: Vec<Option<u16>>,
    /// None until the first member is served.
    open: Option<Open>,
}

#[derive(Clone)]
struct Open {
    /// Its queues, and behind them that of urgent frames if there is one.
    shelf: Arc<Shelf>,
    /// Queues without that of urgent frames.
    queues: usize,
    sinks: Vec<Arc<dyn Sink>>,
    outside: Outside,
}

impl Shared {
    /// Shares what serves a NIC that wants this: as many queues as it has members at most, or more. A link that is there already has those
    /// that it was made with.
    pub fn new(link: Arc<dyn Attachment>, wanted: NicRequirements) -> Arc<Self> {
        let state = State { owners: vec![None; wanted.queues], open: None };
        Arc::new(Self { link, wanted, state: Mutex::new(state) })
    }

    /// What the NIC of a member is plugged into.
    pub fn member(self: &Arc<Self>, number: u16) -> Arc<dyn Attachment> {
        Arc::new(Member { shared: self.clone(), number })
    }

    /// How many queues it has: those that are wanted, until the first member is served.
    pub fn queues(&self) -> usize {
        self.state().owners.len()
    }

    /// The NIC that it is for: `core.wan`.
    pub fn label(&self) -> String {
        self.wanted.label()
    }

    /// What it stands on, if that can go on for a NIC that wants this.
    pub fn held(&self, wanted: &NicRequirements) -> Option<Arc<dyn Attachment>> {
        wanted.is_served_by(&self.wanted).then(|| self.link.clone())
    }

    /// Names the member that is to have a queue; none: nobody. Frames wait in the queue until it has it.
    pub fn assign(&self, queue: usize, owner: Option<u16>) {
        let mut state = self.state();
        let Some(place) = state.owners.get_mut(queue) else { return };
        *place = owner;
        if let Some(open) = &state.open {
            open.assign(queue, owner);
        }
    }

    /// Whether no member holds a queue any more, so that the next one can take it.
    pub fn is_free(&self, queue: usize) -> bool {
        self.state().open.as_ref().is_none_or(|open| open.shelf.is_free(queue))
    }

    /// Frames that members have read from each queue.
    pub fn loads(&self) -> Vec<u64> {
        let state = self.state();
        let queues = state.owners.len();
        let loads = state.open.as_ref().map(|open| open.shelf.loads()).unwrap_or_default();
        loads.into_iter().chain(std::iter::repeat(0)).take(queues).collect()
    }

    /// What it counts, for all members together.
    pub fn outside(&self) -> Outside {
        self.state().open.as_ref().map(|open| open.outside.clone()).unwrap_or_default()
    }

    /// What has happened to it since this was asked last, as [`Attachment::news`].
    pub fn news(&self) -> Option<News> {
        self.link.news()
    }

    /// Whether somebody is at the other end of its cable, as [`Attachment::link`].
    pub fn link(&self) -> Option<bool> {
        self.link.link()
    }

    /// Puts what was opened anew in its place, as [`Attachment::replace`].
    ///
    /// # Errors
    /// It is of another kind or size.
    pub fn replace(&self, by: HandedOver) -> Result<()> {
        self.link.replace(by)
    }

    /// Its queues and the ways out of it, as they are made for the first member that is served.
    fn open(&self, service: &ServiceContext<'_>) -> Result<Open> {
        let mut state = self.state();
        if let Some(open) = &state.open {
            return Ok(open.clone());
        }
        // What stands before a member's NIC is no matter of the link.
        let entry = |_: Entry, sink: Arc<dyn Sink>| sink;
        let (wanted, threads) = (&self.wanted, self.wanted.queues);
        let Ports { mut sources, sinks, urgent, outside, .. } =
            self.link.ports(&ServiceContext { wanted, threads, queues: service.queues, entry: &entry })?;
        ensure!(
            sources.len() > 1 && !sinks.is_empty(),
            "{} has {} queues, and a group shares several",
            wanted.attach,
            sources.len()
        );
        let queues = sources.len();
        state.owners.resize(queues, None);
        sources.extend(urgent);
        let open = Open { shelf: Shelf::new(sources), queues, sinks, outside };
        for (queue, owner) in state.owners.iter().enumerate() {
            open.assign(queue, *owner);
        }
        Ok(state.open.insert(open).clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Names the member that is to have a queue. That of urgent frames goes with the first one: few come by it, so that it is no part of
    /// what is dealt out.
    fn assign(&self, queue: usize, owner: Option<u16>) {
        self.shelf.assign(queue, owner);
        if queue == 0 {
            (self.queues..self.shelf.queues()).for_each(|urgent| self.shelf.assign(urgent, owner));
        }
    }
}

impl Drop for Shared {
    /// Nobody brings frames any more: all members are gone.
    fn drop(&mut self) {
        self.outside().leave();
    }
}

/// The link as one member has it.
struct Member {
    shared: Arc<Shared>,
    number: u16,
}

impl Attachment for Member {
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        let Open { shelf, mut sinks, .. } = self.shared.open(service)?;
        let queues = shelf.reader(self.number).context("cannot make an event descriptor")?;
        let sources = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Source>).collect();
        // Members send by different queues, as far as they go.
        let first = usize::from(self.number) % sinks.len();
        sinks.rotate_left(first);
        Ok(Ports { sources, sinks, ..Ports::default() })
    }

    fn link(&self) -> Option<bool> {
        self.shared.link()
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it is the link of a group, and replaced there")
    }

    fn state(&self) -> Option<(&'static str, String)> {
        self.shared.link.state()
    }
}

#[cfg(test)]
mod tests;
