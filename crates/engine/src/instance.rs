//! Everything one file asks for, running: switches, routers, uplinks and the threads that serve them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use config::{Attach, Deliver, Nic, Plan, Router, Spin, VhostThreads};
use switch::{IngressSink, Null, Sink, Source, Switch, ingress};
use uplink::{Ownership, Tap, TapConfig};
use vmm::NicQueues;

use crate::capture::{self, Capture};
use crate::clock::{Clock, Timed};
use crate::io_thread::{Idle, IoThread, Pump};
use crate::kvm::{Duty, KvmRouter};

/// What a NIC is plugged into instead of what its file says.
pub enum Plug {
    /// This port.
    Port {
        /// Frames towards the router.
        source: Box<dyn Source>,
        /// Frames from it.
        sink: Arc<dyn Sink>,
    },
    /// Nothing yet: somebody will serve the NIC's queues by a thread of his own.
    Later,
}

/// Plugs by NIC, as `router.nic`.
pub type Plugs = HashMap<String, Plug>;

/// What is at the other side of a NIC, for the ledger.
pub enum Outside {
    /// A TAP of the instance's own.
    Tap {
        /// What was read from it.
        read: Arc<uplink::ReadCounters>,
        /// What was written to it.
        written: Arc<uplink::WriteCounters>,
    },
    /// A port of a switch, and the queue between switch and NIC where delivery is queued.
    Switch(Option<Arc<IngressSink>>),
    /// Something that counts elsewhere, or not at all.
    Other,
}

/// A router with its outside.
pub struct RunningRouter {
    // Threads first: they must not outlive what they serve.
    threads: Vec<IoThread>,
    /// The router.
    pub router: KvmRouter,
    /// What each NIC is plugged into, in the order of the file.
    pub outside: Vec<Outside>,
}

impl RunningRouter {
    /// Its I/O threads.
    pub fn io_threads(&self) -> &[IoThread] {
        &self.threads
    }
}

/// A running file. Dropping it stops everything and removes what it made.
pub struct Instance {
    clock: Clock,
    /// The routers, in the order of the file.
    pub routers: Vec<RunningRouter>,
    /// The switches, in the order of the file.
    pub switches: Vec<Arc<Switch>>,
    /// When it was up.
    pub since: Instant,
}

/// Both ways of one NIC.
struct Ways {
    name: String,
    rx: Option<Pump>,
    tx: Option<Pump>,
}

impl Ways {
    fn both(self) -> impl Iterator<Item = Pump> {
        self.rx.into_iter().chain(self.tx)
    }
}

/// What NICs can be plugged into.
struct Site<'a> {
    switches: &'a [Arc<Switch>],
    plugs: Plugs,
    captures: Vec<Capture>,
}

impl Instance {
    /// Brings a file up. What fails leaves nothing behind.
    pub fn start(plan: &Plan, plugs: Plugs) -> Result<Self> {
        let switches: Vec<_> = plan.switches.iter().map(make_switch).collect();
        let mut site = Site { switches: &switches, plugs, captures: Vec::new() };
        let routers =
            plan.routers.iter().map(|router| start_router(router, &mut site)).collect::<Result<Vec<_>>>()?;
        let vms = routers.iter().map(|running| running.router.vm().clone()).collect();
        let clock = Clock::start(Timed { vms, switches: switches.clone(), captures: site.captures })?;
        Ok(Self { clock, routers, switches, since: Instant::now() })
    }

    /// The first router that cannot go on, with the reason.
    pub fn fault(&self) -> Option<String> {
        self.routers.iter().find_map(|running| {
            let fault = running.router.fault()?;
            Some(format!("router {}: {fault}", running.router.plan().name))
        })
    }

    /// The thread that keeps time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

fn make_switch(plan: &config::Switch) -> Arc<Switch> {
    let ageing = u32::try_from(plan.ageing.as_secs()).unwrap_or(u32::MAX);
    let config = switch::Config { ageing, ..switch::Config::default() };
    Arc::new(Switch::new(&plan.name, config))
}

fn start_router(plan: &Router, site: &mut Site<'_>) -> Result<RunningRouter> {
    let mut router = KvmRouter::new(plan, Duty::default())?;
    let (mut ways, mut outside) = (Vec::new(), Vec::new());
    for (number, nic) in plan.nics.iter().enumerate() {
        let (way, out) = connect(&router, number, site)
            .with_context(|| format!("router {}, NIC {}", plan.name, nic.name))?;
        ways.push(way);
        outside.push(out);
    }
    router.launch()?;
    let threads = io_threads(plan, ways)?;
    let running = RunningRouter { threads, router, outside };
    running.router.wait_until_ready()?;
    Ok(running)
}

/// Plugs one NIC in.
fn connect(router: &KvmRouter, number: usize, site: &mut Site<'_>) -> Result<(Ways, Outside)> {
    let (plan, nic, queues) = (router.plan(), &router.plan().nics[number], &router.nics()[number]);
    let name = nic.name.clone();
    let rx = |source: Box<dyn Source>| Some(Pump { source, sink: queues.sink() });
    let tx = |sink: Arc<dyn Sink>| Some(Pump { source: queues.source(), sink });
    if let Some(plug) = site.plugs.remove(&format!("{}.{name}", plan.name)) {
        let ways = match plug {
            Plug::Port { source, sink } => Ways { name, rx: rx(source), tx: tx(sink) },
            Plug::Later => Ways { name, rx: None, tx: None },
        };
        return Ok((ways, Outside::Other));
    }
    Ok(match &nic.attach {
        Attach::Tap(interface) => {
            let tap = Tap::open(interface, &tap_config(nic))?;
            let (from, to) = tap.into_ports().pop().context("a TAP without a queue")?;
            let outside = Outside::Tap { read: from.counters(), written: to.counters() };
            (Ways { name, rx: rx(Box::new(from)), tx: tx(to) }, outside)
        }
        Attach::Switch(index) => {
            let (entry, way, queue) = entry(nic, queues)?;
            let port = site.switches[*index].add_port(&format!("{}.{name}", plan.name), entry)?;
            (Ways { name, rx: way, tx: tx(Arc::new(port)) }, Outside::Switch(queue))
        }
        Attach::Null => (Ways { name, rx: None, tx: tx(Arc::new(Null::new())) }, Outside::Other),
        Attach::Pcap(path) => {
            let (port, capture) = capture::create(path)?;
            site.captures.push(capture);
            (Ways { name, rx: None, tx: tx(port) }, Outside::Other)
        }
    })
}

/// What a switch delivers to, who empties it, and what is counted there.
type Entry = (Arc<dyn Sink>, Option<Pump>, Option<Arc<IngressSink>>);

/// Where frames from a switch enter a NIC: its ring, or the queue that its own thread empties.
fn entry(nic: &Nic, queues: &Arc<NicQueues>) -> Result<Entry> {
    if nic.deliver == Deliver::Direct {
        return Ok((queues.sink(), None, None));
    }
    let (queue, waiting) = ingress(nic.queue_len).context("cannot make an ingress queue")?;
    let way = Pump { source: Box::new(waiting), sink: queues.sink() };
    Ok((queue.clone(), Some(way), Some(queue)))
}

fn tap_config(nic: &Nic) -> TapConfig<'static> {
    let ownership = Ownership::NewOrExisting;
    TapConfig { mtu: nic.mtu, queue_len: nic.queue_len, ownership, ..TapConfig::default() }
}

/// Deals the ways of all NICs out to threads, as the file says.
fn io_threads(plan: &Router, ways: Vec<Ways>) -> Result<Vec<IoThread>> {
    let mut groups: Vec<(String, Vec<Pump>)> = Vec::new();
    match plan.vhost {
        VhostThreads::Shared => {
            let pumps = ways.into_iter().flat_map(Ways::both).collect();
            groups.push(("vhost".to_owned(), pumps));
        }
        VhostThreads::PerNic => {
            groups.extend(ways.into_iter().map(|way| (way.name.clone(), way.both().collect())));
        }
        VhostThreads::Split => {
            for way in ways {
                groups.extend(way.rx.map(|rx| (format!("{}-rx", way.name), vec![rx])));
                groups.extend(way.tx.map(|tx| (format!("{}-tx", way.name), vec![tx])));
            }
        }
    }
    let idle = match plan.spin {
        Spin::Always => Idle::Poll,
        Spin::For(time) => Idle::Sleep(time),
    };
    groups
        .into_iter()
        .filter(|(_, pumps)| !pumps.is_empty())
        .enumerate()
        .map(|(n, (name, pumps))| {
            let cpus: Vec<usize> =
                plan.pin.vhost.as_ref().map(|set| set.deal(n) as usize).into_iter().collect();
            IoThread::spawn(&format!("{}/{name}", plan.name), &cpus, pumps, idle)
        })
        .collect()
}
