//! An interface of the host by AF_XDP, as what a NIC is plugged into.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use switch::Source;
use uplink::Xdp;
use uplink::xdp::{XdpHealth, XdpKernelCounters, XdpReadCounters, XdpSink};

use super::outlet::Home;

/// An open interface, and its ports as soon as somebody has asked for them. They stay when their router goes: frames wait
/// in them, and the kernel has been given their memory once.
pub(crate) struct Interface {
    xdp: Xdp,
    ports: Mutex<Option<Ports>>,
}

struct Ports {
    threads: usize,
    sources: Vec<Home>,
    read: Vec<Arc<XdpReadCounters>>,
    sinks: Vec<Arc<XdpSink>>,
    health: Arc<XdpHealth>,
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
        Self { xdp, ports: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ports>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its ports for so many threads.
    pub(super) fn lend(&self, threads: usize) -> Result<Borrowed> {
        let mut ports = self.lock();
        let ports = match &mut *ports {
            Some(ports) => ports,
            none => none.insert(Ports::new(&self.xdp, threads)?),
        };
        ensure!(
            ports.threads == threads,
            "the interface `{}` is served by {} threads while the run lasts, not {threads}: start the run anew",
            self.xdp.name(),
            ports.threads
        );
        let sources = ports.sources.iter().map(|home| home.lend().context("its port is still in use"));
        Ok(Borrowed {
            sources: sources.collect::<Result<_>>()?,
            sinks: ports.sinks.clone(),
            read: ports.read.clone(),
            kernel: ports.health.counters(),
            way: self.xdp.parts().way(),
        })
    }

    /// Reads what the kernel counts, and whether the interface is still there; what is to be told of that.
    pub(super) fn look_after(&self) -> Option<String> {
        let health = self.lock().as_ref()?.health.clone();
        health.look();
        health.take_trouble()
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
        })
    }
}
