//! Everything one file asks for, running: switches, routers, uplinks and the threads that serve them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Attach, Deliver, Nic, Plan, Router, Spin, VhostThreads};
use switch::{IngressSink, Null, Sink, Source, Switch, ingress};
use uplink::{Tap, TapConfig, TapSink};

use crate::clock::Clock;
use crate::io_thread::{Idle, IoThread, Pump};
use crate::kvm::{Duty, KvmRouter};

/// Uplinks that somebody else has opened, by interface name: the instance uses them instead of opening its own.
pub type Opened = HashMap<String, Tap>;

/// What is at the other side of a NIC, for the ledger.
pub enum Outside {
    /// A TAP.
    Tap(Arc<TapSink>),
    /// A port of a switch, and the queue between switch and NIC where delivery is queued.
    Switch {
        /// Index of the switch in the plan.
        switch: usize,
        /// The NIC's ingress queue.
        queue: Option<Arc<IngressSink>>,
    },
    /// Nothing, or a file.
    Other(Arc<dyn Sink>),
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
    tx: Pump,
}

impl Instance {
    /// Brings a file up. What fails leaves nothing behind.
    pub fn start(plan: &Plan, mut opened: Opened) -> Result<Self> {
        let switches: Vec<_> = plan.switches.iter().map(make_switch).collect();
        let routers = plan
            .routers
            .iter()
            .map(|router| start_router(router, &switches, &mut opened))
            .collect::<Result<Vec<_>>>()?;
        let vms = routers.iter().map(|running| running.router.vm().clone()).collect();
        let clock = Clock::start(vms, switches.clone())?;
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

fn start_router(plan: &Router, switches: &[Arc<Switch>], opened: &mut Opened) -> Result<RunningRouter> {
    let mut router = KvmRouter::new(plan, Duty::default())?;
    let (mut ways, mut outside) = (Vec::new(), Vec::new());
    for (number, nic) in plan.nics.iter().enumerate() {
        let (way, out) = connect(plan, nic, number, &router, switches, opened)
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
fn connect(
    plan: &Router,
    nic: &Nic,
    number: usize,
    router: &KvmRouter,
    switches: &[Arc<Switch>],
    opened: &mut Opened,
) -> Result<(Ways, Outside)> {
    let queues = &router.nics()[number];
    let (name, sink, source) = (nic.name.clone(), queues.sink(), queues.source());
    let to = |sink: Arc<dyn Sink>| Pump { source, sink };
    Ok(match &nic.attach {
        Attach::Tap(interface) => {
            let tap = match opened.remove(interface) {
                Some(tap) => tap,
                None => Tap::open(interface, &tap_config(nic))?,
            };
            let (from_tap, to_tap) = tap.split();
            let rx = Some(Pump { source: Box::new(from_tap), sink });
            (Ways { name, rx, tx: to(to_tap.clone()) }, Outside::Tap(to_tap))
        }
        Attach::Switch(index) => {
            let switch = &switches[*index];
            let (entry, rx, queue) = match nic.deliver {
                Deliver::Direct => (sink, None, None),
                Deliver::Queued => {
                    let (queue, waiting) = ingress(nic.queue_len).context("cannot make an ingress queue")?;
                    let rx = Pump { source: Box::new(waiting) as Box<dyn Source>, sink };
                    (queue.clone() as Arc<dyn Sink>, Some(rx), Some(queue))
                }
            };
            let port = switch.add_port(&format!("{}.{}", plan.name, nic.name), entry)?;
            (Ways { name, rx, tx: to(Arc::new(port)) }, Outside::Switch { switch: *index, queue })
        }
        Attach::Null => {
            let null: Arc<dyn Sink> = Arc::new(Null::new());
            (Ways { name, rx: None, tx: to(null.clone()) }, Outside::Other(null))
        }
        Attach::Pcap(path) => {
            let file: Arc<dyn Sink> = Arc::new(uplink::PcapFile::create(path)?);
            (Ways { name, rx: None, tx: to(file.clone()) }, Outside::Other(file))
        }
    })
}

fn tap_config(nic: &Nic) -> TapConfig {
    TapConfig { mtu: nic.mtu, queue_len: nic.queue_len, ..TapConfig::default() }
}

/// Deals the ways of all NICs out to threads, as the file says.
fn io_threads(plan: &Router, ways: Vec<Ways>) -> Result<Vec<IoThread>> {
    let mut groups: Vec<(String, Vec<Pump>)> = Vec::new();
    match plan.vhost {
        VhostThreads::Shared => {
            let pumps = ways.into_iter().flat_map(|way| way.rx.into_iter().chain([way.tx])).collect();
            groups.push(("vhost".to_owned(), pumps));
        }
        VhostThreads::PerNic => {
            groups.extend(ways.into_iter().map(|way| (way.name, way.rx.into_iter().chain([way.tx]).collect())));
        }
        VhostThreads::Split => {
            for way in ways {
                groups.extend(way.rx.map(|rx| (format!("{}-rx", way.name), vec![rx])));
                groups.push((format!("{}-tx", way.name), vec![way.tx]));
            }
        }
    }
    let idle = match plan.spin {
        Spin::Always => Idle::Poll,
        Spin::For(time) => Idle::Sleep(time),
    };
    groups
        .into_iter()
        .enumerate()
        .map(|(n, (name, pumps))| {
            let cpus: Vec<usize> = plan.pin.vhost.as_ref().map(|set| set.deal(n) as usize).into_iter().collect();
            IoThread::spawn(&format!("{}/{name}", plan.name), &cpus, pumps, idle)
        })
        .collect()
}

/// How long an instance may take to stop, for tests and messages.
pub const STOP_LIMIT: Duration = Duration::from_secs(2);
