//! What a NIC is plugged into, for whoever serves it: ports for each start of its router, and what is to be known of the other side.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ledger::Group;
use nic_port::{NicQueues, Receiver};
use port::{Sink, Source};

use crate::home::Home;
use crate::{Handed, Wanted};

/// What a NIC is plugged into. It stays while its router comes and goes.
pub trait Attachment: Send + Sync {
    /// Both ways, for one start of a router.
    ///
    /// # Errors
    /// They are still in use, or the NIC wants what cannot be had.
    fn ports(&self, site: &Site<'_>) -> Result<Ports>;

    /// Whether somebody is at the other end of its cable, where that comes and goes.
    fn link(&self) -> Option<bool> {
        None
    }

    /// What has happened since this was asked last, if something has. To be asked about ten times a second; it waits for nobody.
    fn news(&self) -> Option<News> {
        None
    }

    /// Puts what was opened anew in the place of what was deleted, under whoever serves that.
    ///
    /// # Errors
    /// It is of another kind or size, or nothing of this kind is ever replaced.
    fn replace(&self, by: Handed) -> Result<()>;

    /// How it is, in one line, and what that is called; often nothing.
    fn state(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Who is handed the NIC's rings, if somebody is: what the device model may offer, and who takes over what its driver sets up.
    fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        None
    }
}

/// A NIC that is about to be served.
pub struct Site<'a> {
    /// What it wants.
    pub wanted: &'a Wanted,
    /// Threads that serve it, each both ways or one.
    pub threads: usize,
    /// Its queues.
    pub queues: &'a Arc<NicQueues>,
    /// What stands before where frames come in that another's thread brings.
    pub entry: &'a dyn Fn(Entry, Arc<dyn Sink>) -> Arc<dyn Sink>,
}

/// Where frames come in that another's thread brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A queue before the NIC.
    Queue,
    /// The NIC itself.
    Ring,
}

/// Both ways of what a NIC is plugged into; by itself for one that others serve.
#[derive(Default)]
pub struct Ports {
    /// Frames towards the router: one for each thread, as far as they go.
    pub sources: Vec<Box<dyn Source>>,
    /// Whether they are spread over the sources by flow.
    pub is_spread: bool,
    /// Whether they have passed [`Site::entry`] already.
    pub have_entered: bool,
    /// Frames from the router: one for each thread, as far as they go; none where others serve the NIC.
    pub sinks: Vec<Arc<dyn Sink>>,
    /// What else it has.
    pub outside: Outside,
}

/// What is called with each group of counters and its name.
pub type Visit<'v> = dyn FnMut(&str, &dyn Group) + 'v;

/// A function that visits each group of counters.
type Groups = dyn Fn(&mut Visit<'_>) + Send + Sync;

/// The other side of a NIC during one start of its router.
#[derive(Clone, Default)]
pub struct Outside {
    groups: Option<Arc<Groups>>,
    /// What is to be done before the router goes, where it is a port of a switch.
    leave: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Outside {
    /// One that counts this.
    pub fn counting(groups: impl Fn(&mut Visit<'_>) + Send + Sync + 'static) -> Self {
        Self { groups: Some(Arc::new(groups)), leave: None }
    }

    /// One that is left like this.
    #[must_use]
    pub fn left_by(self, leave: impl Fn() + Send + Sync + 'static) -> Self {
        Self { leave: Some(Arc::new(leave)), ..self }
    }

    /// Calls `visit` with each group of counters and its name: `tap.read`.
    pub fn each_group(&self, visit: &mut Visit<'_>) {
        self.groups.iter().for_each(|groups| groups(visit));
    }

    /// Whether it is a port of a switch.
    pub fn is_switch(&self) -> bool {
        self.leave.is_some()
    }

    /// Nobody brings frames to the NIC any more when this returns.
    pub fn leave(&self) {
        self.leave.iter().for_each(|leave| leave());
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// What it is about.
    pub about: About,
    /// One line that says it.
    pub line: String,
}

/// What news are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// What the NIC is plugged into.
    Link,
    /// Whether another program is there, and which process that is, where one is and that is known.
    Peer(Option<i32>),
    /// A capture that cannot be written.
    Capture,
}

impl News {
    /// About what the NIC is plugged into.
    pub(crate) fn of_link(line: String) -> Self {
        Self { about: About::Link, line }
    }
}

/// Something that is nothing but ports.
struct Plain<F>(F);

impl<F: Fn(&Site<'_>) -> Result<Ports> + Send + Sync> Attachment for Plain<F> {
    fn ports(&self, site: &Site<'_>) -> Result<Ports> {
        (self.0)(site)
    }

    fn replace(&self, _: Handed) -> Result<()> {
        bail!("it has no link")
    }
}

/// Something that is nothing but ports.
pub(crate) fn plain(
    ports: impl Fn(&Site<'_>) -> Result<Ports> + Send + Sync + 'static,
) -> Arc<dyn Attachment> {
    Arc::new(Plain(ports))
}

/// A port of this program: `source` are frames towards the router, `sink` takes those from it.
pub fn port(source: Box<dyn Source>, sink: Arc<dyn Sink>) -> Arc<dyn Attachment> {
    let home = Home::new(source);
    plain(move |_| {
        let source = home.lend().context("its port is still in use")?;
        Ok(Ports { sources: vec![source], sinks: vec![sink.clone()], ..Ports::default() })
    })
}

/// Nothing yet: somebody will serve the NIC's queues by a thread of his own, both ways: who serves what the router sends keeps the time
/// of its interrupts, and without him they are not moderated.
pub fn later() -> Arc<dyn Attachment> {
    plain(|_| Ok(Ports::default()))
}
