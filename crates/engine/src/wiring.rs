//! What is between a router's NICs and the world: ports, queues, and the threads that move frames.

mod early_drop;
mod gate;
mod guest_port;
mod links;
mod main_loop;
mod outlet;
mod peer;
mod player;
mod xdp;

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use config::{Deliver, FlowHash, Nic, QueueLen, Router, VhostThreads};
use nic_port::NicQueues;
use port::steer::Hash;
use port::{IngressFan, Null, Sink, Source, ingress_fan};
use sandbox::Confinement;
use switch::{PortId, Switch};
use uplink::{Spread, Tap, TapSource};

use crate::capture::Capture;
use crate::io_thread::{Idle, IoThread, Pump};
use crate::kernel_vhost::KernelNic;
use crate::tracing::{NicTaps, Spot, TapBoard};

use early_drop::EarlyDrop;
pub(crate) use gate::{Gate, NicGate};
pub use guest_port::GuestPort;
pub use links::undo;
pub(crate) use main_loop::MainLock;
pub(crate) use outlet::{CaptureNews, Far, Hands, Outlet};
pub use outlet::{check_queues, open_uplink};
pub use peer::Handed;
use player::Player;
pub use player::{ReplayCounters, open as open_replay};
use xdp::{Borrowed, Interface};

/// What is at the other side of a NIC, for the ledger.
#[derive(Clone)]
pub enum Outside {
    /// A TAP.
    Tap {
        /// What was read from each of its queues.
        read: Vec<Arc<uplink::ReadCounters>>,
        /// What was written to each of its queues.
        written: Vec<Arc<uplink::WriteCounters>>,
    },
    /// An interface by AF_XDP.
    Xdp {
        /// What came by each of its sources.
        read: Vec<Arc<uplink::xdp::XdpReadCounters>>,
        /// What went by each of its sinks.
        written: Vec<Arc<uplink::xdp::XdpWriteCounters>>,
        /// What the kernel counts.
        kernel: Arc<uplink::xdp::XdpKernelCounters>,
        /// How frames are taken: `zero-copy, in the driver, 2 queues`.
        way: String,
    },
    /// A capture file.
    Capture {
        /// What became of the frames that went there.
        capture: Capture,
        /// What came of the file whose frames come in, if there is one.
        replay: Option<Arc<ReplayCounters>>,
    },
    /// A port of a switch.
    Switch {
        /// The switch.
        switch: Arc<Switch>,
        /// The port.
        port: PortId,
        /// The queues between switch and NIC, where delivery is queued.
        queue: Option<Arc<IngressFan>>,
    },
    /// A virtual machine of another program.
    Guest(Arc<GuestPort>),
    /// Another program that is handed the NIC's rings.
    Peer(Arc<Handed>),
    /// The kernel, which is handed the NIC's rings, and an interface.
    Kernel(Arc<KernelNic>),
    /// Something that counts elsewhere, or not at all.
    Other,
}

/// Both ways of one NIC. Where each pair of queues has a thread, number `k` of either is thread `k`'s.
pub(crate) struct Ways {
    name: String,
    rx: Vec<Pump>,
    tx: Vec<Pump>,
}

impl Ways {
    fn both(self) -> impl Iterator<Item = Pump> {
        self.rx.into_iter().chain(self.tx)
    }
}

/// One NIC, about to be plugged in.
struct Plugging<'a> {
    plan: &'a Router,
    nic: &'a Nic,
    queues: &'a Arc<NicQueues>,
    taps: NicTaps<'a>,
    /// What frames pass before anything is done with them.
    gate: &'a NicGate,
    /// What is held by who moves frames, where one works at a time.
    lock: Option<&'a MainLock>,
}

/// Plugs one NIC in, of which who holds the lock moves frames, if there is one.
pub(crate) fn connect(
    (plan, nic): (&Router, &Nic),
    (queues, lock): (&Arc<NicQueues>, Option<&MainLock>),
    outlet: &Outlet,
    (board, gate): (&TapBoard, &NicGate),
) -> Result<(Ways, Outside)> {
    let plugging = Plugging { plan, nic, queues, taps: board.nic(&plan.name, nic), gate, lock };
    queues.spread_by(plugging.hash());
    let (rx, tx, outside) = match &outlet.far {
        Far::Nothing => (Vec::new(), plugging.tx(false, |_| Arc::new(Null::new())), Outside::Other),
        Far::Later => (Vec::new(), Vec::new(), Outside::Other),
        Far::Port { source, sink } => {
            let source = source.lend().context("its port is still in use")?;
            (plugging.rx(vec![source], false), plugging.tx(false, |_| sink.clone()), Outside::Other)
        }
        Far::Tap(tap) => plugging.tap(tap)?,
        Far::Xdp(interface) => plugging.xdp(interface)?,
        Far::Guest(port) => plugging.guest_port(port),
        Far::Kernel(kernel) => {
            kernel.tap().resize(nic.mtu, nic.queue_len.most())?;
            (Vec::new(), Vec::new(), Outside::Kernel(kernel.clone()))
        }
        Far::Peer(peer) => (Vec::new(), Vec::new(), Outside::Peer(peer.clone())),
        Far::Switch(switch) => plugging.switch(switch)?,
        Far::Capture { port, capture, player: None, .. } => {
            let outside = Outside::Capture { capture: capture.clone(), replay: None };
            (Vec::new(), plugging.tx(false, |_| port.clone()), outside)
        }
        Far::Capture { port, capture, player: Some(player), .. } => plugging.replay(port, capture, player)?,
    };
    Ok((Ways { name: nic.name.clone(), rx, tx }, outside))
}

/// What goes in, what comes out, and what is counted outside.
type Plugged = (Vec<Pump>, Vec<Pump>, Outside);

impl Plugging<'_> {
    /// Threads that serve a pair of queues each; one, if one thread serves them all.
    fn threads(&self) -> usize {
        if self.plan.vhost == VhostThreads::PerQueue { self.plan.queue_pairs() as usize } else { 1 }
    }

    fn hash(&self) -> Hash {
        links::hash(self.nic)
    }

    /// Pumps into the NIC. Where there is a source for each pair and frames were `spread` over them by flow, each source
    /// has its pair; otherwise each frame's pair is found here.
    fn rx(&self, sources: Vec<Box<dyn Source>>, spread: bool) -> Vec<Pump> {
        self.rx_by(sources, spread, |sink| self.gate.before(sink))
    }

    /// Pumps into the NIC from where frames have passed the gate already.
    fn rx_within(&self, sources: Vec<Box<dyn Source>>, spread: bool) -> Vec<Pump> {
        self.rx_by(sources, spread, |sink| sink)
    }

    fn rx_by(
        &self,
        sources: Vec<Box<dyn Source>>,
        spread: bool,
        gated: impl Fn(Arc<dyn Sink>) -> Arc<dyn Sink>,
    ) -> Vec<Pump> {
        let parts = sources.len();
        let spread = spread && parts == self.threads();
        let pump = |(part, source)| {
            let sink: Arc<dyn Sink> = match parts {
                0 | 1 => self.queues.sink(),
                _ if spread => self.queues.sink_of(part, parts),
                _ => self.queues.common_sink(),
            };
            let source = match self.lock {
                Some(lock) => lock.source(source),
                None => source,
            };
            Pump { source, sink: self.taps.at(Spot::Rx, gated(sink)) }
        };
        sources.into_iter().enumerate().map(pump).collect()
    }

    /// Pumps out of the NIC, for each thread to what `sink` gives it. A NIC whose frames leave within the driver's register
    /// access gets the sink itself, too: its threads only keep the time of its interrupts.
    fn tx(&self, to_switch: bool, sink: impl Fn(usize) -> Arc<dyn Sink>) -> Vec<Pump> {
        let threads = self.threads();
        let source = |pair| if threads == 1 { self.queues.source() } else { self.queues.source_of(pair) };
        let pump = |pair| {
            let sink = self.taps.at(Spot::Tx { to_switch }, sink(pair));
            let sink = self.lock.map_or_else(|| sink.clone(), |lock| lock.sink(sink.clone()));
            self.queues.transmit_in_access(sink.clone());
            Pump { source: source(pair), sink }
        };
        (0..threads).map(pump).collect()
    }

    /// Each thread has a queue of the TAP, as far as they go. The kernel spreads the frames by our hash where it takes that;
    /// else by flow too, but by a hash of its own, which puts the directions of a flow together only at this TAP and not
    /// with those at other NICs.
    fn tap(&self, tap: &Tap) -> Result<Plugged> {
        tap.resize(self.nic.mtu, self.nic.queue_len.most())?;
        let (mut read, mut written) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (Vec::<Box<dyn Source>>::new(), Vec::new());
        for (source, sink) in tap.try_clone()?.into_ports() {
            read.push(source.counters());
            written.push(sink.counters());
            // One number is for all queues: the first one's is taken, as flows are spread evenly.
            from.push(if from.is_empty() { self.tuned(source, tap)? } else { Box::new(source) });
            to.push(sink);
        }
        ensure!(!to.is_empty(), "a TAP without a queue");
        let tx = self.tx(false, |pair| to[pair % to.len()].clone());
        let spread = *tap.traits().spread() == Spread::Ours || self.nic.hash == FlowHash::Flow;
        Ok((self.rx(from, spread), tx, Outside::Tap { read, written }))
    }

    /// Each thread has its share of the interface's queues, as far as they go. The NIC spreads frames over them by a hash of
    /// its own.
    fn xdp(&self, interface: &Interface) -> Result<Plugged> {
        let Borrowed { sources, sinks, read, kernel, way } = interface.lend(self.threads())?;
        let written = sinks.iter().map(|sink| sink.counters()).collect();
        let tx = self.tx(false, |pair| sinks[pair % sinks.len()].clone());
        Ok((
            self.rx(sources, self.nic.hash == FlowHash::Flow),
            tx,
            Outside::Xdp { read, written, kernel, way },
        ))
    }

    /// The source itself, or one whose queue is as long as the router can take, where the file says so and somebody can
    /// change it.
    fn tuned(&self, source: TapSource, tap: &Tap) -> Result<Box<dyn Source>> {
        let limit = if self.nic.queue_len == QueueLen::Auto { tap.queue_limit()? } else { None };
        let Some(limit) = limit else { return Ok(Box::new(source)) };
        let first = self.nic.queue_len.most();
        Ok(Box::new(EarlyDrop::new(source, self.queues.common_sink(), limit, self.nic.ring, first)))
    }

    /// What a file says comes in, and what leaves is captured.
    fn replay(&self, port: &Arc<dyn Sink>, capture: &Capture, player: &Player) -> Result<Plugged> {
        let (source, counters) = player.lend().context("its port is still in use")?;
        let tx = self.tx(false, |_| port.clone());
        Ok((
            self.rx(vec![source], false),
            tx,
            Outside::Capture { capture: capture.clone(), replay: Some(counters) },
        ))
    }

    /// A port of the switch, with a queue before it for each thread unless the senders fill the NIC's rings themselves.
    fn switch(&self, switch: &Arc<Switch>) -> Result<Plugged> {
        let (entry, rx, queue) = if self.nic.deliver == Deliver::Direct {
            (self.taps.at(Spot::Rx, self.gate.before(self.queues.common_sink())), Vec::new(), None)
        } else {
            let queues = self.plan.outer_queues(self.nic);
            let (fan, waiting) = ingress_fan(self.nic.queue_len.most(), queues, self.hash())
                .context("cannot make an ingress queue")?;
            let waiting = waiting.into_iter().map(|queue| Box::new(queue) as Box<dyn Source>).collect();
            let entry = self.gate.before(fan.clone());
            (self.taps.at(Spot::Queue, entry), self.rx_within(waiting, true), Some(fan))
        };
        let port = switch.add_port(&format!("{}.{}", self.plan.name, self.nic.name), entry)?;
        let tx = self.tx(true, |pair| Arc::new(port.lane(pair)));
        Ok((rx, tx, Outside::Switch { switch: switch.clone(), port: port.id(), queue }))
    }
}

/// Deals the ways of all NICs out to threads, as the file says.
pub(crate) fn io_threads(plan: &Router, ways: Vec<Ways>, confinement: Confinement) -> Result<Vec<IoThread>> {
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
                groups.push((format!("{}-rx", way.name), way.rx));
                groups.push((format!("{}-tx", way.name), way.tx));
            }
        }
        VhostThreads::Vmm => {
            let pumps = ways.into_iter().flat_map(Ways::both).collect();
            groups.push(("main".to_owned(), pumps));
        }
        VhostThreads::Kernel => {}
        VhostThreads::PerQueue => {
            groups.extend((0..plan.queue_pairs()).map(|pair| (format!("q{pair}"), Vec::new())));
            for way in ways {
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
