//! Kernel ports: ports of switches that lead through the host's kernel to routers that the data plane does not run. Behind a port is a
//! TAP, which the supervisor moves into the network namespace of a kernel router (`engine = "kernel"`, `"lxc"`), or the UDP socket of a
//! tunnel to a back end on another host. The data plane knows nothing else of such a router.
//!
//! ```text
//!  switch --> queue --> TAP, socket      (one thread serves both directions)
//!  switch <------------ TAP, socket
//! ```
//!
//! A member of a group does not get ARP and neighbour discovery for more than one station ([`ToMember`]).

mod instance;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use attach::{HandedOver, Outside, Ports, Tunnel};
use config::KernelPath;
use port::{Sink, Source, ingress};
use sandbox::Confinement;
use switch::{PortId, Switch};
use telemetry::Kind;
use uplink::Tap;

use crate::counts::{CounterRegistration, CounterRegistry};
use crate::ensemble::ToMember;
use crate::groups::{IoCounts, KernelPortCounts};
use crate::instance::slot::{LAUNCH_LIMIT, RunContext};
use crate::io_thread::{Idle, IoThread, Pump};
use crate::take_down::TakeDown;
use crate::task::{Progress, Task};

pub(crate) use instance::behind;

/// Length of the queue of frames towards the kernel.
const QUEUE: u32 = 1000;
/// Time for which the thread polls without work before it sleeps: the default of `spin`.
const SPIN: Duration = Duration::from_micros(50);
/// Pause before a port whose thread has ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is behind a port.
#[derive(Clone)]
pub(crate) enum Behind {
    /// A TAP. The thread serves a duplicate of its descriptor, so that a deleted device can be replaced underneath.
    Tap(Arc<Tap>),
    /// A tunnel.
    Tunnel(Tunnel),
}

/// Both directions, and their counters.
type BothWays = (Box<dyn Source>, Arc<dyn Sink>, Outside);

impl Behind {
    /// Adopts what was opened elsewhere for a port.
    fn adopt(path: KernelPath, handed: HandedOver) -> Result<Self> {
        Ok(match path {
            KernelPath::Tap => Self::Tap(Arc::new(attach::tap(handed)?)),
            KernelPath::Tunnel(_) => Self::Tunnel(Tunnel::adopt(handed)?),
        })
    }

    /// Returns both directions, and their counters.
    fn ports(&self) -> Result<BothWays> {
        match self {
            Self::Tap(tap) => {
                let (source, sink) = tap.try_clone()?.split();
                let (read, written) = (source.counters(), sink.counters());
                let outside = Outside::counting(move |visit| {
                    visit("tap.read", &*read);
                    visit("tap.write", &*written);
                });
                Ok((Box::new(source), sink, outside))
            }
            Self::Tunnel(tunnel) => {
                // Groups with a control plane have no back ends on other hosts.
                let Ports { sources, sinks, outside, .. } = tunnel.ports(false);
                let source = sources.into_iter().next().context("a tunnel from which nothing comes")?;
                let sink = sinks.into_iter().next().context("a tunnel that takes nothing")?;
                Ok((source, sink, outside))
            }
        }
    }
}

/// A port of a switch with a TAP or a tunnel behind it. Dropping it closes the port.
pub(crate) struct KernelPort {
    pub(crate) plan: config::KernelPort,
    switch: Arc<Switch>,
    behind: Behind,
    open: Option<Open>,
    /// Background task that opens the port again.
    opening: Option<Task<Result<Open>>>,
    /// The closed port and thread while they are taken down. The port is opened again only after that.
    leaving: TakeDown,
    /// Time at which to open the port again.
    due: Option<Instant>,
}

/// A port in service. Fields are dropped in this order: the counters are unregistered, the port leaves the switch, the thread
/// ends.
struct Open {
    _counting: CounterRegistration,
    _entry: PortGuard,
    thread: IoThread,
}

/// A port of a switch, removed on drop.
struct PortGuard(Arc<Switch>, PortId);

impl Drop for PortGuard {
    fn drop(&mut self) {
        self.0.remove_port(self.1);
    }
}

/// Everything needed to open a port. `open` blocks until the I/O thread runs; to be called on a thread of its own.
struct Opener {
    plan: config::KernelPort,
    switch: Arc<Switch>,
    behind: Behind,
    counts: CounterRegistry,
    confinement: Confinement,
}

impl Opener {
    fn open(&self) -> Result<Open> {
        let name = self.plan.label();
        let (source, sink, outside) = self.behind.ports()?;
        let (sink, outside) =
            if self.plan.of_group { ToMember::before(sink, outside) } else { (sink, outside) };
        let (queue, waiting) = ingress(QUEUE).context("cannot make an ingress queue")?;
        let port = self.switch.add_port(&name, queue.clone())?;
        let entry = PortGuard(self.switch.clone(), port.id());
        let pumps =
            vec![Pump { source: Box::new(waiting), sink }, Pump { source, sink: Arc::new(port.lane(0)) }];
        let thread = format!("{}/{}", self.plan.router, self.plan.nic);
        let thread = IoThread::spawn(&thread, &[], pumps, Idle::Sleep(SPIN), self.confinement)?;
        let threads = IoCounts::of(std::slice::from_ref(&thread));
        let registration = self.counts.add(KernelPortCounts { name, queue, outside, threads });
        Ok(Open { _counting: registration, _entry: entry, thread })
    }
}

impl KernelPort {
    /// Creates a port that is not open yet.
    fn new(plan: config::KernelPort, behind: Behind, switches: &[Arc<Switch>]) -> Result<Self> {
        let switch = switches.iter().find(|switch| switch.name() == plan.switch);
        let switch = switch.context("a switch that is not there")?.clone();
        let (open, opening, due) = (None, None, None);
        Ok(Self { plan, switch, behind, open, opening, leaving: TakeDown::default(), due })
    }

    fn opener(&self, context: &RunContext) -> Opener {
        Opener {
            plan: self.plan.clone(),
            switch: self.switch.clone(),
            behind: self.behind.clone(),
            counts: context.counts.clone(),
            confinement: context.confinement,
        }
    }

    /// Closes the port on a thread of its own.
    fn close(&mut self, now: Instant) {
        let what = (std::mem::take(&mut self.leaving), self.opening.take(), self.open.take());
        self.leaving = TakeDown::begin(&self.plan.router, what, now);
        self.due = None;
    }

    /// Checks the port, about ten times a second, and opens it again if its thread has ended.
    pub(crate) fn look_after(&mut self, now: Instant, context: &mut RunContext) {
        let ended = self.open.as_ref().map(|open| open.thread.thread()).filter(|thread| thread.is_finished());
        if let Some(thread) = ended {
            let line = format!("NIC {}: the thread {} has ended", self.plan.nic, thread.name());
            context.record_event(&self.plan.router, Kind::Failed, line);
            self.close(now);
            self.due = Some(now + PAUSE);
        }
        if let Some(line) = self.leaving.look(now) {
            context.record_event(&self.plan.router, Kind::Notice, line);
        }
        if self.leaving.is_over() && self.due.is_some_and(|due| now >= due) {
            let (opener, name) = (self.opener(context), format!("{}/open", self.plan.router));
            self.opening = Task::begin(name, LAUNCH_LIMIT, move || opener.open(), now).ok();
            self.due = self.opening.is_none().then(|| now + PAUSE);
        }
        match self.opening.take().map(|opening| opening.look(now)) {
            None => {}
            Some(Progress::Going(opening)) => self.opening = Some(opening),
            Some(Progress::Done(Ok(open))) => self.open = Some(open),
            Some(Progress::Done(Err(_)) | Progress::Abandoned(_)) => self.due = Some(now + PAUSE),
        }
    }

    /// Returns true if it belongs to the NIC `label` (`edge.lan`).
    pub(crate) fn is_of(&self, label: &str) -> bool {
        self.plan.label() == label
    }

    /// Returns the work that replaces a deleted TAP, to be run on a thread of its own.
    pub(crate) fn replacement(&self, by: HandedOver) -> impl FnOnce() -> Result<()> + Send + use<> {
        let behind = self.behind.clone();
        move || match behind {
            Behind::Tap(tap) => Ok(tap.replace(&attach::tap(by)?)?),
            Behind::Tunnel(_) => bail!("a tunnel is never replaced"),
        }
    }

    /// Wakes the thread, which may be sleeping on a TAP that was replaced.
    pub(crate) fn wake(&self) {
        self.open.iter().for_each(|open| open.thread.set_idle(Idle::Sleep(SPIN)));
    }

    /// Takes the port down, together with an earlier incarnation that was closed before and is not down yet.
    pub(crate) fn into_take_downs(self, now: Instant) -> [TakeDown; 2] {
        let Self { plan, behind, open, opening, leaving, .. } = self;
        [leaving, TakeDown::begin(&plan.router, (opening, open, behind), now)]
    }
}
