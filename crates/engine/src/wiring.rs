//! What is between a router's NICs and the world: ports, queues, and the threads that move frames.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Attach, Deliver, Nic, Router, Spin, VhostThreads};
use sandbox::Confinement;
use switch::{IngressSink, Null, Sink, Source, Switch, ingress};
use uplink::{Ownership, Tap, TapConfig};
use vmm::NicQueues;

use crate::capture::{self, Capture};
use crate::io_thread::{Idle, IoThread, Pump};
use crate::guest::Guest;

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

/// Both ways of one NIC.
pub(crate) struct Ways {
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
pub(crate) struct Site<'a> {
    pub(crate) switches: &'a [Arc<Switch>],
    pub(crate) plugs: Plugs,
    pub(crate) captures: Vec<Capture>,
}

/// Plugs one NIC in.
pub(crate) fn connect(router: &Guest, number: usize, site: &mut Site<'_>) -> Result<(Ways, Outside)> {
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
pub(crate) fn io_threads(plan: &Router, ways: Vec<Ways>, confinement: Confinement) -> Result<Vec<IoThread>> {
    let mut groups: Vec<(String, Vec<Pump>)> = Vec::new();
    match plan.vhost {
        VhostThreads::Shared => {
            let pumps = ways.into_iter().flat_map(Ways::both).collect();
            groups.push(("vhost".to_owned(), pumps));
        }
        VhostThreads::PerNic | VhostThreads::PerQueue => {
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
            IoThread::spawn(&format!("{}/{name}", plan.name), &cpus, pumps, idle, confinement)
        })
        .collect()
}
