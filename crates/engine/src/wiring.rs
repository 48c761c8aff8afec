//! What is between a router's NICs and the world: ports, queues, and the threads that move frames.

mod outlet;

use std::sync::Arc;

use anyhow::{Context, Result};
use config::{Deliver, Nic, Router, VhostThreads};
use sandbox::Confinement;
use switch::{IngressSink, Null, PortId, Sink, Source, Switch, ingress};
use vmm::NicQueues;

use crate::guest::Guest;
use crate::io_thread::{Idle, IoThread, Pump};
use crate::tracing::{NicTaps, Spot, TapBoard};

pub use outlet::tap_config;
pub(crate) use outlet::{Far, Outlet};

/// What is at the other side of a NIC, for the ledger.
pub enum Outside {
    /// A TAP of the instance's own.
    Tap {
        /// What was read from it.
        read: Arc<uplink::ReadCounters>,
        /// What was written to it.
        written: Arc<uplink::WriteCounters>,
    },
    /// A port of a switch.
    Switch {
        /// The switch.
        switch: Arc<Switch>,
        /// The port.
        port: PortId,
        /// The queue between switch and NIC, where delivery is queued.
        queue: Option<Arc<IngressSink>>,
    },
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

/// Plugs one NIC in.
pub(crate) fn connect(
    router: &Guest,
    number: usize,
    outlet: &Outlet,
    board: &TapBoard,
) -> Result<(Ways, Outside)> {
    let (plan, nic, queues) = (router.plan(), &router.plan().nics[number], &router.nics()[number]);
    let name = nic.name.clone();
    let taps = board.nic(&plan.name, nic);
    let out = Spot::Tx { to_switch: matches!(outlet.far, Far::Switch(_)) };
    let rx = |source: Box<dyn Source>| Some(Pump { source, sink: taps.at(Spot::Rx, queues.sink()) });
    let tx = |sink: Arc<dyn Sink>| Some(Pump { source: queues.source(), sink: taps.at(out, sink) });
    Ok(match &outlet.far {
        Far::Nothing => (Ways { name, rx: None, tx: tx(Arc::new(Null::new())) }, Outside::Other),
        Far::Later => (Ways { name, rx: None, tx: None }, Outside::Other),
        Far::Port { source, sink } => {
            let source = source.lend().context("its port is still in use")?;
            (Ways { name, rx: rx(source), tx: tx(sink.clone()) }, Outside::Other)
        }
        Far::Tap(tap) => {
            let (from, to) = tap.try_clone()?.into_ports().pop().context("a TAP without a queue")?;
            let outside = Outside::Tap { read: from.counters(), written: to.counters() };
            (Ways { name, rx: rx(Box::new(from)), tx: tx(to) }, outside)
        }
        Far::Switch(switch) => {
            let (entry, way, queue) = entry(nic, queues, &taps)?;
            let port = switch.add_port(&format!("{}.{name}", plan.name), entry)?;
            let outside = Outside::Switch { switch: switch.clone(), port: port.id(), queue };
            (Ways { name, rx: way, tx: tx(Arc::new(port)) }, outside)
        }
        Far::Capture { port, .. } => (Ways { name, rx: None, tx: tx(port.clone()) }, Outside::Other),
    })
}

/// What a switch delivers to, who empties it, and what is counted there.
type Entry = (Arc<dyn Sink>, Option<Pump>, Option<Arc<IngressSink>>);

/// Where frames from a switch enter a NIC: its ring, or the queue that its own thread empties.
fn entry(nic: &Nic, queues: &Arc<NicQueues>, taps: &NicTaps<'_>) -> Result<Entry> {
    let ring = taps.at(Spot::Rx, queues.sink());
    if nic.deliver == Deliver::Direct {
        return Ok((ring, None, None));
    }
    let (queue, waiting) = ingress(nic.queue_len).context("cannot make an ingress queue")?;
    let way = Pump { source: Box::new(waiting), sink: ring };
    Ok((taps.at(Spot::Queue, queue.clone()), Some(way), Some(queue)))
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
    let idle = Idle::from(plan.spin);
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
