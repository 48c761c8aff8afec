//! Wiring between a router's NICs and their attachments: ports, queues, and the threads that move frames.

mod gate;
mod main_loop;
mod outlet;

use std::sync::Arc;

use anyhow::Result;
use attach::{Entry, Outside, Ports, ServiceContext};
use config::{Nic, Router, VhostThreads};
use nic_port::NicQueues;
use port::{Sink, Source};
use sandbox::Confinement;

use crate::control::{Names, OpenShadow, Speaker, naming};
use crate::farewell::Farewell;
use crate::io_thread::{Idle, IoThread, Pump};
use crate::tracing::{NicTaps, Spot, TapBoard};

pub(crate) use gate::{NicGate, RateLimit};
pub(crate) use main_loop::MainLock;
pub(crate) use outlet::Outlet;

/// The directions of one NIC. If each queue pair has a thread, pump number `k` of either direction belongs
/// to thread `k`.
pub(crate) struct NicPumps {
    name: String,
    rx: Vec<Pump>,
    tx: Vec<Pump>,
    /// Into the NIC past what waits in front of it, if there is a control plane; the thread of the first of `rx` serves it.
    urgent: Option<Pump>,
    /// From the control plane out of the NIC, if there is one; any thread may serve it.
    control: Option<Pump>,
    /// To be said before the NIC is closed by order.
    pub(crate) farewell: Option<Farewell>,
}

impl NicPumps {
    fn all(self) -> impl Iterator<Item = Pump> {
        let Self { rx, tx, urgent, control, .. } = self;
        rx.into_iter().chain(urgent).chain(leaving(tx, control))
    }
}

/// Pumps out of a NIC, that of the control plane first: the others leave no room in a sink that is always full.
fn leaving(tx: Vec<Pump>, control: Option<Pump>) -> impl Iterator<Item = Pump> {
    control.into_iter().chain(tx)
}

/// The way of frames from an attachment's sources to the rings.
#[derive(Clone, Copy)]
struct RingWay {
    /// Number of sources.
    parts: usize,
    /// True if there is one for each thread, and frames were spread over them by flow.
    is_spread: bool,
    /// True if frames have passed the rate limit already.
    have_entered: bool,
}

/// One NIC that is about to be plugged in.
struct Plugging<'a> {
    plan: &'a Router,
    queues: &'a Arc<NicQueues>,
    taps: NicTaps<'a>,
    /// The rate limit, which frames pass before anything else is done with them.
    gate: &'a NicGate,
    /// The lock that a thread must hold to move frames, with `vhost = "vmm"`.
    lock: Option<&'a MainLock>,
}

/// Plugs one NIC in. If there is a lock, its holder moves the NIC's frames.
pub(crate) fn connect(
    (plan, nic): (&Router, &Nic),
    (queues, lock): (&Arc<NicQueues>, Option<&MainLock>),
    outlet: &Outlet,
    (board, gate): (&TapBoard, &NicGate),
) -> Result<(NicPumps, Outside)> {
    let plugging = Plugging { plan, queues, taps: board.nic(&plan.name, nic), gate, lock };
    let wanted = plan.wanted(nic);
    queues.spread_by(wanted.hash);
    let entry = |entry, sink| plugging.entry(entry, sink);
    let site = ServiceContext { wanted: &wanted, threads: plugging.threads(), queues, entry: &entry };
    let shadow = match &outlet.shadow {
        None => None,
        Some(shadow) => {
            let cable = queues.clone();
            Some(shadow.open((plan, nic), Arc::new(move || cable.is_unplugged()))?)
        }
    };
    // What may fail comes before a port of a switch, which would have to be left again.
    let ports = outlet.ports(&site)?;
    let Ports { sources, is_spread, have_entered, sinks, urgent, control: way_out, outside } = ports;
    let to_switch = outside.is_switch();
    let farewell = sinks.first().and_then(|sink| {
        Farewell::of((plan, nic), plugging.taps.at(Spot::Tx { to_switch }, sink.clone()), queues)
    });
    let parts = sources.len();
    let names = shadow.as_ref().and_then(OpenShadow::names);
    let mut sources: Vec<_> = sources.into_iter().chain(urgent).collect();
    let (control, outside) = match shadow {
        None => (None, outside),
        Some(shadow) => {
            let seen = |sink| plugging.taps.at(Spot::Rx, sink);
            let (sorted, outside) = shadow.sort(sources, outside, seen);
            sources = sorted;
            let way_out = way_out.as_ref().or(sinks.first());
            plugging.control(shadow, (way_out, names.as_ref()), outside)
        }
    };
    let urgent = sources.split_off(parts).pop();
    let way = RingWay { parts, is_spread: is_spread && parts == plugging.threads(), have_entered };
    let urgent = urgent.map(|source| plugging.ring_pump(0, source, way));
    let rx = plugging.rx(sources, way);
    let tx = plugging.tx(&sinks, to_switch, names.as_ref());
    Ok((NicPumps { name: nic.name.clone(), rx, tx, urgent, control, farewell }, outside))
}

impl Plugging<'_> {
    /// Number of threads that serve one queue pair each; 1 if one thread serves all pairs.
    fn threads(&self) -> usize {
        if self.plan.vhost == VhostThreads::PerQueue { self.plan.queue_pairs() as usize } else { 1 }
    }

    /// Wraps an entry at which other threads deliver frames: adds rate limit and tap point.
    fn entry(&self, entry: Entry, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        let spot = match entry {
            Entry::Queue => Spot::Queue,
            Entry::Ring => Spot::Rx,
        };
        self.taps.at(spot, self.gate.before(sink))
    }

    /// Returns the pumps into the NIC.
    fn rx(&self, sources: Vec<Box<dyn Source>>, way: RingWay) -> Vec<Pump> {
        let pump = |(part, source)| self.ring_pump(part, source, way);
        sources.into_iter().enumerate().map(pump).collect()
    }

    /// Returns the pump of one source. If there is a source for each pair and the frames were spread over the sources by flow, it is
    /// bound to its pair; otherwise the pair of each frame is selected here.
    fn ring_pump(&self, part: usize, source: Box<dyn Source>, way: RingWay) -> Pump {
        let sink: Arc<dyn Sink> = match way.parts {
            0 | 1 => self.queues.sink(),
            // One thread reads them all, and waits for room as if they were one.
            _ if self.threads() == 1 => self.queues.sink(),
            _ if way.is_spread => self.queues.sink_of(part, way.parts),
            _ => self.queues.common_sink(),
        };
        let sink = if way.have_entered { sink } else { self.gate.before(sink) };
        let source = match self.lock {
            Some(lock) => lock.source(source),
            None => source,
        };
        Pump { source, sink: self.taps.at(Spot::Rx, sink) }
    }

    /// Returns the pump from the control plane out of the NIC; none if others serve the NIC.
    fn control(
        &self,
        shadow: OpenShadow,
        (sink, names): (Option<&Arc<dyn Sink>>, Option<&Arc<Names>>),
        outside: Outside,
    ) -> (Option<Pump>, Outside) {
        let Some(sink) = sink else { return (None, outside) };
        let (source, _) = shadow.into_source();
        let lost = source.lost();
        let to_switch = outside.is_switch();
        let sink = self.taps.at(Spot::Tx { to_switch }, sink.clone());
        let pump = Pump { source: Box::new(source), sink: naming(sink, names, Speaker::Control) };
        (Some(pump), outside.counting_also(move |visit| visit("shadow", &*lost)))
    }

    /// Returns the pumps out of the NIC, for each thread to its sink, cyclically; none if others serve the
    /// NIC. A NIC whose frames leave within the driver's register access is given the sink as well: its
    /// threads only run its interrupt timers.
    fn tx(&self, sinks: &[Arc<dyn Sink>], to_switch: bool, names: Option<&Arc<Names>>) -> Vec<Pump> {
        let threads = self.threads();
        let source = |pair| if threads == 1 { self.queues.source() } else { self.queues.source_of(pair) };
        let pump = |(pair, sink): (usize, &Arc<dyn Sink>)| {
            let sink = naming(self.taps.at(Spot::Tx { to_switch }, sink.clone()), names, Speaker::Router);
            let sink = self.lock.map_or_else(|| sink.clone(), |lock| lock.sink(sink.clone()));
            self.queues.transmit_in_access(sink.clone());
            Pump { source: source(pair), sink }
        };
        (0..threads).zip(sinks.iter().cycle()).map(pump).collect()
    }
}

/// Distributes the pumps of all NICs over threads, as the file says.
pub(crate) fn io_threads(
    plan: &Router,
    ways: Vec<NicPumps>,
    confinement: Confinement,
) -> Result<Vec<IoThread>> {
    let mut groups: Vec<(String, Vec<Pump>)> = Vec::new();
    match plan.vhost {
        VhostThreads::Shared => {
            let pumps = ways.into_iter().flat_map(NicPumps::all).collect();
            groups.push(("vhost".to_owned(), pumps));
        }
        VhostThreads::PerNic => {
            groups.extend(ways.into_iter().map(|way| (way.name.clone(), way.all().collect())));
        }
        VhostThreads::Split => {
            for way in ways {
                let rx = way.rx.into_iter().chain(way.urgent).collect();
                groups.push((format!("{}-rx", way.name), rx));
                let tx = leaving(way.tx, way.control).collect();
                groups.push((format!("{}-tx", way.name), tx));
            }
        }
        VhostThreads::Vmm => {
            let pumps = ways.into_iter().flat_map(NicPumps::all).collect();
            groups.push(("main".to_owned(), pumps));
        }
        VhostThreads::Kernel => {}
        VhostThreads::PerQueue => {
            groups.extend((0..plan.queue_pairs()).map(|pair| (format!("q{pair}"), Vec::new())));
            for way in ways {
                if let Some((_, first)) = groups.first_mut() {
                    first.extend(way.urgent.into_iter().chain(way.control));
                }
                for pumps in [way.rx, way.tx] {
                    groups.iter_mut().zip(pumps).for_each(|((_, group), pump)| group.push(pump));
                }
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

#[cfg(test)]
mod tests;
