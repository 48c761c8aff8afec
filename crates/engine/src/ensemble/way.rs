//! The way of frames from a link to the members of a group: by queues that members own, by a balancer before them, or by balancers that are
//! virtual machines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use attach::{
    Attachment, Entry, HandedOver, News, NicRequirements, Outside, Ports, ServiceContext, Shared, Visit,
};
use config::{Group, GroupKind, Spread};
use group::{Assignment, Member as Number, Shares, rounds};
use port::steer::BUCKETS;
use port::{Sink, Source, ingress};
use switch::Balancer;

use super::front::Front;

/// Maximum number of turns in a round, if frames are dealt out one by one.
const TURNS: usize = 256;

/// Way of frames to members.
pub(super) enum Way {
    /// Members own the queues of the link.
    Owned(Arc<Shared>),
    /// A balancer reads the link, and spreads its frames over queues of members.
    Balanced(Arc<Stage>),
    /// Virtual machines do so; members are behind them in an interconnection.
    Machines(Arc<Front>),
}

/// A balancer at a link.
pub(super) struct Stage {
    link: Arc<dyn Attachment>,
    /// Requirements of the group.
    wanted: NicRequirements,
    spread: Mutex<Spread>,
    pub(super) balancer: Arc<Balancer>,
    /// None until the first member is served.
    open: Mutex<Option<Open>>,
}

/// Sinks of a link, and its counters.
#[derive(Clone)]
struct Open {
    sinks: Vec<Arc<dyn Sink>>,
    /// Way out for frames of the group's control plane, if they have one.
    control: Option<Arc<dyn Sink>>,
    outside: Outside,
}

impl Way {
    /// Creates the way from the attachment of one of a group's NICs, which has these requirements.
    pub(super) fn new(group: &Group, link: Arc<dyn Attachment>, wanted: NicRequirements) -> Self {
        match group.kind {
            GroupKind::Parallel => Self::Owned(Shared::new(link, wanted)),
            GroupKind::Multistage(_) if group.has_machines() => {
                Self::Machines(Arc::new(Front::new(link, wanted, group.spread)))
            }
            GroupKind::Multistage(_) => Self::Balanced(Arc::new(Stage {
                link,
                spread: Mutex::new(group.spread),
                balancer: Arc::new(Balancer::new(wanted.hash)),
                wanted,
                open: Mutex::new(None),
            })),
        }
    }

    /// Returns the attachment, if it can stay in use for a NIC with these requirements.
    pub(super) fn held(&self, wanted: &NicRequirements) -> Option<Arc<dyn Attachment>> {
        match self {
            Self::Owned(shared) => shared.held(wanted),
            Self::Balanced(stage) => wanted.is_served_by(&stage.wanted).then(|| stage.link.clone()),
            Self::Machines(front) => wanted.is_served_by(&front.wanted).then(|| front.link.clone()),
        }
    }

    /// Sets how frames are spread from the next deal on; returns true if this is a change. It has no effect on queues that members own.
    pub(super) fn spread_by(&self, spread: Spread) -> bool {
        match self {
            Self::Owned(_) => false,
            Self::Balanced(stage) => std::mem::replace(&mut *stage.spread(), spread) != spread,
            Self::Machines(front) => front.spread_by(spread),
        }
    }

    /// Returns the number of places, queues or buckets, that members can have.
    pub(super) fn places(&self) -> usize {
        match self {
            Self::Owned(shared) => shared.queues(),
            Self::Balanced(_) | Self::Machines(_) => BUCKETS,
        }
    }

    /// Returns what places are called.
    pub(super) const fn unit(&self) -> &'static str {
        match self {
            Self::Owned(_) => "queues",
            Self::Balanced(_) | Self::Machines(_) => "buckets",
        }
    }

    /// Returns the frames of each place, if they are known.
    pub(super) fn loads(&self) -> Vec<u64> {
        match self {
            Self::Owned(shared) => shared.loads(),
            Self::Balanced(stage) => stage.balancer.loads().to_vec(),
            Self::Machines(_) => Vec::new(),
        }
    }

    /// Changes the owners of places from one assignment to another; returns the number of places that have changed hands.
    pub(super) fn deal(&self, before: &Assignment, after: &Assignment, shares: &Shares) -> u64 {
        let moves = before.moves_to(after);
        match self {
            Self::Owned(shared) => {
                moves.iter().for_each(|moved| shared.assign(moved.place, moved.to.map(|to| to.0)));
            }
            Self::Balanced(stage) => stage.deal(after.owners(), shares),
            Self::Machines(front) => front.deal(after.owners(), shares),
        }
        moves.len() as u64
    }

    /// Returns the NIC that it is for: `core.wan`.
    pub(super) fn label(&self) -> String {
        match self {
            Self::Owned(shared) => shared.label(),
            Self::Balanced(stage) => stage.wanted.label(),
            Self::Machines(front) => front.wanted.label(),
        }
    }

    /// Calls `visit` with the counters at the link.
    pub(super) fn each_group(&self, visit: &mut Visit<'_>) {
        match self {
            Self::Owned(shared) => shared.outside().each_group(visit),
            Self::Balanced(stage) => {
                if let Some(open) = stage.open().clone() {
                    open.outside.each_group(visit);
                }
                visit("balancer", &stage.balancer.counters());
            }
            Self::Machines(front) => {
                if let Some(open) = front.open() {
                    open.outside.each_group(visit);
                }
            }
        }
    }

    /// Returns the next event of the link, if any.
    pub(super) fn news(&self) -> Option<News> {
        match self {
            Self::Owned(shared) => shared.news(),
            Self::Balanced(stage) => stage.link.news(),
            Self::Machines(front) => front.link.news(),
        }
    }

    /// Returns whether there is a host or peer at the other end of its cable, if that can change.
    pub(super) fn link(&self) -> Option<bool> {
        match self {
            Self::Owned(shared) => shared.link(),
            Self::Balanced(stage) => stage.link.link(),
            Self::Machines(front) => front.link.link(),
        }
    }

    /// Returns a function that replaces its resource by one that was opened anew.
    pub(super) fn replacing(&self) -> impl FnOnce(HandedOver) -> Result<()> + Send + use<> {
        let (shared, link) = match self {
            Self::Owned(shared) => (Some(shared.clone()), None),
            Self::Balanced(stage) => (None, Some(stage.link.clone())),
            Self::Machines(front) => (None, Some(front.link.clone())),
        };
        move |by| match (shared, link) {
            (Some(shared), _) => shared.replace(by),
            (None, Some(link)) => link.replace(by),
            (None, None) => bail!("it has no link"),
        }
    }
}

impl Stage {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spread(&self) -> MutexGuard<'_, Spread> {
        self.spread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deal(&self, owners: &[Option<Number>], shares: &Shares) {
        let spread = *self.spread();
        match spread {
            Spread::Flow => {
                let owners: Vec<Option<u16>> =
                    owners.iter().map(|owner| owner.map(|owner| owner.0)).collect();
                self.balancer.spread(&owners);
            }
            Spread::RoundRobin => {
                let order: Vec<u16> = rounds::round(shares, TURNS).iter().map(|member| member.0).collect();
                self.balancer.spread_in_turn(&order);
            }
        }
    }

    /// Opens the link for the first member that is served; returns its sources, that of urgent frames last, for the thread that is to move
    /// their frames into the balancer.
    pub(super) fn begin(&self, site: &ServiceContext<'_>) -> Result<Option<Vec<Box<dyn Source>>>> {
        let mut open = self.open();
        if open.is_some() {
            return Ok(None);
        }
        // Wrappers before a member's NIC do not apply to the link.
        let entry = |_: Entry, sink: Arc<dyn Sink>| sink;
        let site = ServiceContext { wanted: &self.wanted, threads: 1, queues: site.queues, entry: &entry };
        let Ports { sources, sinks, urgent, control, outside, .. } = self.link.ports(&site)?;
        let source = sources.into_iter().next().context("a link from which nothing comes")?;
        *open = Some(Open { sinks, control, outside });
        Ok(Some([source].into_iter().chain(urgent).collect()))
    }

    /// Closes the link. It is opened again for the next member that is served.
    pub(super) fn close(&self) {
        if let Some(open) = self.open().take() {
            open.outside.leave();
        }
    }

    /// Returns the ports of a member for one start.
    pub(super) fn ports(&self, (name, number): (&str, u16), site: &ServiceContext<'_>) -> Result<Ports> {
        let open = self.open().clone().context("a link that was not opened")?;
        let (queue, waiting) = ingress(self.wanted.queue_len).context("cannot make an ingress queue")?;
        let entry = (site.entry)(Entry::Queue, queue.clone());
        if !self.balancer.add(number, name, entry) {
            bail!("its place behind the balancer is still in use");
        }
        let balancer = self.balancer.clone();
        let outside = Outside::counting(move |visit| visit("queue", queue.counters())).left_by(move || {
            balancer.remove(number);
        });
        let sources: Vec<Box<dyn Source>> = vec![Box::new(waiting)];
        let Open { sinks, control, .. } = open;
        Ok(Ports { sources, have_entered: true, sinks, control, outside, ..Ports::default() })
    }
}

impl Drop for Stage {
    /// Closes the link, because all members are gone.
    fn drop(&mut self) {
        self.close();
    }
}
