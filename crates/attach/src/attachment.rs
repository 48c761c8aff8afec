//! Attachment of a NIC in the process that serves it: ports for each start of its router, and the state of
//! the other side.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ledger::Group;
use nic_port::{NicQueues, Receiver};
use port::{Sink, Source};

use crate::shared_source::SharedSource;
use crate::{HandedOver, NicRequirements};

/// Attachment that a NIC is plugged into. It outlives its router.
pub trait Attachment: Send + Sync {
    /// Returns the ports of both directions, for one start of a router.
    ///
    /// # Errors
    /// They are still in use, or the NIC's requirements cannot be met.
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports>;

    /// Returns whether there is a host or peer at the other end of its cable, if that can change.
    fn link(&self) -> Option<bool> {
        None
    }

    /// Returns what has happened since the last call, if anything. To be called about ten times a second;
    /// never blocks.
    fn news(&self) -> Option<News> {
        None
    }

    /// Replaces a deleted resource by a newly opened one, under the threads that serve it.
    ///
    /// # Errors
    /// It is of another kind or size, or this kind is never replaced.
    fn replace(&self, by: HandedOver) -> Result<()>;

    /// Returns its state, as a name and one line; `None` for most kinds.
    fn state(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Returns the consumer of the NIC's rings, if they are handed out: the features that the device model
    /// may offer, and the receiver of the driver's set-up.
    fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        None
    }
}

/// A NIC that is about to be served.
pub struct ServiceContext<'a> {
    /// Its requirements.
    pub wanted: &'a NicRequirements,
    /// Number of threads that serve it, each for one or both directions.
    pub threads: usize,
    /// Its queues.
    pub queues: &'a Arc<NicQueues>,
    /// Wraps an entry at which other threads deliver frames, for instance with rate limit and tap point.
    pub entry: &'a dyn Fn(Entry, Arc<dyn Sink>) -> Arc<dyn Sink>,
}

/// Entry at which other threads deliver frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A queue before the NIC.
    Queue,
    /// The NIC's receive ring.
    Ring,
}

/// Ports of both directions of an attachment; by default those of one that others serve.
#[derive(Default)]
pub struct Ports {
    /// Frames towards the router: one source for each thread, as far as they go.
    pub sources: Vec<Box<dyn Source>>,
    /// True if frames are spread over the sources by flow.
    pub is_spread: bool,
    /// True if frames have passed [`ServiceContext::entry`] already.
    pub have_entered: bool,
    /// Frames from the router: one sink for each thread, as far as they go; empty if others serve the NIC.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// Frames towards the router that are not to wait behind the others, if its router has a control plane: any thread may serve it,
    /// and it is drained whatever room its sink has.
    pub urgent: Option<Box<dyn Source>>,
    /// Way out for frames of its router's control plane, if there is one by which they pass what others have filled.
    pub control: Option<Arc<dyn Sink>>,
    /// The other side, for counting and detaching.
    pub outside: Outside,
}

/// Callback for each group of counters, with its name.
pub type Visit<'v> = dyn FnMut(&str, &dyn Group) + 'v;

/// A function that visits each group of counters.
type Groups = dyn Fn(&mut Visit<'_>) + Send + Sync;

/// The other side of a NIC during one start of its router.
#[derive(Clone, Default)]
pub struct Outside {
    groups: Option<Arc<Groups>>,
    /// Action before the router ends, if it is a port of a switch.
    leave: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Outside {
    /// Creates one with these counters.
    pub fn counting(groups: impl Fn(&mut Visit<'_>) + Send + Sync + 'static) -> Self {
        Self { groups: Some(Arc::new(groups)), leave: None }
    }

    /// Adds these counters.
    #[must_use]
    pub fn counting_also(self, more: impl Fn(&mut Visit<'_>) + Send + Sync + 'static) -> Self {
        let own = self.groups.clone();
        let both = move |visit: &mut Visit<'_>| {
            own.iter().for_each(|groups| groups(visit));
            more(visit);
        };
        Self { groups: Some(Arc::new(both)), ..self }
    }

    /// Sets the action by which it is detached.
    #[must_use]
    pub fn left_by(self, leave: impl Fn() + Send + Sync + 'static) -> Self {
        Self { leave: Some(Arc::new(leave)), ..self }
    }

    /// Calls `visit` with each group of counters and its name: `tap.read`.
    pub fn each_group(&self, visit: &mut Visit<'_>) {
        self.groups.iter().for_each(|groups| groups(visit));
    }

    /// Returns true if it is a port of a switch.
    pub fn is_switch(&self) -> bool {
        self.leave.is_some()
    }

    /// Detaches it: no thread delivers frames to the NIC any more when this returns.
    pub fn leave(&self) {
        self.leave.iter().for_each(|leave| leave());
    }
}

/// An event of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Its subject.
    pub about: About,
    /// One-line description.
    pub line: String,
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// The attachment itself.
    Link,
    /// Connection of another program, with its process ID if one is connected and the ID is known.
    Peer(Option<i32>),
    /// A capture that cannot be written.
    Capture,
}

impl News {
    /// Creates an event of the attachment itself.
    pub(crate) fn of_link(line: String) -> Self {
        Self { about: About::Link, line }
    }
}

/// An attachment with nothing but ports.
struct Plain<F>(F);

impl<F: Fn(&ServiceContext<'_>) -> Result<Ports> + Send + Sync> Attachment for Plain<F> {
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        (self.0)(service)
    }

    fn replace(&self, _: HandedOver) -> Result<()> {
        bail!("it has no link")
    }
}

/// Creates an attachment with nothing but ports.
pub(crate) fn plain(
    ports: impl Fn(&ServiceContext<'_>) -> Result<Ports> + Send + Sync + 'static,
) -> Arc<dyn Attachment> {
    Arc::new(Plain(ports))
}

/// Returns a port inside this program: `source` provides frames towards the router, `sink` takes those from
/// it.
pub fn port(source: Box<dyn Source>, sink: Arc<dyn Sink>) -> Arc<dyn Attachment> {
    let home = SharedSource::new(source);
    plain(move |_| {
        let source = home.lend().context("its port is still in use")?;
        Ok(Ports { sources: vec![source], sinks: vec![sink.clone()], ..Ports::default() })
    })
}

/// Returns an empty attachment: the caller will serve the NIC's queues in both directions by a thread of its
/// own. The thread that serves the router's transmit side also runs the NIC's interrupt timers; without it
/// interrupts are not moderated.
pub fn later() -> Arc<dyn Attachment> {
    plain(|_| Ok(Ports::default()))
}
