//! An interface of the host by AF_XDP, as what a NIC is plugged into.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result, ensure};
use port::Source;
use uplink::Xdp;
use uplink::xdp::{XdpHealth, XdpKernelCounters, XdpReadCounters, XdpRevival, XdpSink};

use super::outlet::Home;

/// An open interface.
pub(crate) struct Interface {
    /// Held over calls that wait for the kernel, and for threads that move frames.
    open: Mutex<Open>,
    /// How its ports are, as soon as there are any.
    health: OnceLock<Arc<XdpHealth>>,
}

/// What is open, and its ports as soon as somebody has asked for them. They stay when their router goes: frames wait in them,
/// and the kernel has been given their memory once.
struct Open {
    xdp: Xdp,
    ports: Option<Ports>,
}

struct Ports {
    threads: usize,
    sources: Vec<Home>,
    read: Vec<Arc<XdpReadCounters>>,
    sinks: Vec<Arc<XdpSink>>,
    health: Arc<XdpHealth>,
    revival: XdpRevival,
}

/// The ports, for one start of a router.
pub(super) struct Borrowed {
    pub(super) sources: Vec<Box<dyn Source>>,
    pub(super) sinks: Vec<Arc<XdpSink>>,
    pub(super) read: Vec<Arc<XdpReadCounters>>,
    pub(super) kernel: Arc<XdpKernelCounters>,
    pub(super) way: String,
}

impl Interface {
    pub(crate) fn new(xdp: Xdp) -> Self {
        Self { open: Mutex::new(Open { xdp, ports: None }), health: OnceLock::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its ports for so many threads.
    pub(super) fn lend(&self, threads: usize) -> Result<Borrowed> {
        let mut open = self.lock();
        let Open { xdp, ports } = &mut *open;
        let ports = match ports {
            Some(ports) => ports,
            none => none.insert(Ports::new(xdp, threads)?),
        };
        let health = self.health.get_or_init(|| ports.health.clone());
        ensure!(
            ports.threads == threads,
            "the interface `{}` is served by {} threads while the run lasts, not {threads}: start the run anew",
            xdp.name(),
            ports.threads
        );
        let sources = ports.sources.iter().map(|home| home.lend().context("its port is still in use"));
        Ok(Borrowed {
            sources: sources.collect::<Result<_>>()?,
            sinks: ports.sinks.clone(),
            read: ports.read.clone(),
            kernel: health.counters(),
            way: xdp.parts().way(),
        })
    }

    /// Reads what the kernel counts, and whether the interface is still there; what is to be told of that. It waits for nobody who
    /// opens or replaces it.
    pub(super) fn look_after(&self) -> Option<String> {
        let health = self.health.get()?;
        health.look();
        health.take_trouble()
    }

    /// Puts another interface in the place of one that was deleted, under whoever serves that.
    pub(super) fn replace(&self, by: &Xdp) -> Result<()> {
        let mut open = self.lock();
        let xdp = by.try_clone()?;
        if let Some(ports) = &open.ports {
            ports.revival.replace(by)?;
        }
        open.xdp = xdp;
        Ok(())
    }
}

impl Ports {
    fn new(xdp: &Xdp, threads: usize) -> Result<Self> {
        let ports = xdp.ports(threads)?;
        Ok(Self {
            threads,
            read: ports.sources.iter().map(|source| source.counters()).collect(),
            sources: ports.sources.into_iter().map(|source| Home::new(Box::new(source))).collect(),
            sinks: ports.sinks,
            health: ports.health,
            revival: ports.revival,
        })
    }
}
