//! NICs that the kernel serves (`vhost = "kernel"`): vhost-net devices, their kernel threads, and the network
//! interface behind them.

use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, Result};
use attach::{Attachment, HandedOver, Ports, ServiceContext};
use config::{Nic, Router, VhostThreads};
use nic_port::Receiver;
use rustix::thread::gettid;
use threads::cpu_clock;
use uplink::Tap;
use vmm::vhost_net::Device;
use vmm::{KernelVhost, VhostNet};

use crate::supplies::HostServices;

/// Finds kernel threads on behalf of a process that is not permitted to look at them.
pub trait KernelThreads: Send + Sync {
    /// Returns the kernel thread of the vhost-net device owned by `owner`, a thread of this process.
    fn of_vhost(&self, owner: i32) -> Option<i32>;
}

/// Returns how many vhost-net devices a NIC of this router needs: one for each queue pair.
pub fn vhost_nets(router: &Router) -> usize {
    if router.vhost == VhostThreads::Kernel { router.queue_pairs() as usize } else { 0 }
}

/// A vhost-net device that this process owns. It outlives the routers that use it.
struct KernelThread {
    device: Arc<VhostNet>,
    /// The ID of its kernel thread, if it was found.
    id: Option<i32>,
}

impl KernelThread {
    /// Becomes the owner of a device. The kernel names its thread after the thread that calls
    /// VHOST_SET_OWNER: a thread started only for that makes the name unique.
    fn of(device: OwnedFd, kernel: Option<&dyn KernelThreads>) -> Result<Self> {
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let owner = std::thread::Builder::new().name("vhost-owner".to_owned()).spawn(move || {
            let owned = VhostNet::own(device).map(|device| (device, gettid().as_raw_nonzero().get()));
            let _ = tell.send(owned);
            // Keeps the owner alive until its kernel thread has been looked up.
            let _ = wait.recv();
        });
        let owner = owner.context("cannot start a thread")?;
        let owned = told.recv().context("a thread ended before it began")?;
        let id = |owner| kernel.and_then(|kernel| kernel.of_vhost(owner));
        let found = owned.map(|(device, owner)| Self { device: Arc::new(device), id: id(owner) });
        drop(go);
        let _ = owner.join();
        found
    }

    /// Returns its CPU time. A kernel thread may be a process of its own for the CPU-time clocks.
    fn cpu_time(&self) -> Duration {
        let Some(id) = self.id else { return Duration::ZERO };
        let own = cpu_clock::of_thread(id);
        if own.is_zero() { cpu_clock::of_process(id) } else { own }
    }
}

/// A NIC that the kernel serves: its devices and threads, and the interface behind it; kept as long as the
/// NIC's outlet.
pub struct KernelNic {
    receiver: Arc<KernelVhost>,
    threads: Vec<KernelThread>,
    /// Names of the threads in reports: `edge/wan-kernel0`.
    names: Vec<String>,
    tap: Tap,
}

impl KernelNic {
    /// Puts the kernel's vhost-net between a NIC and an interface.
    pub(crate) fn new(
        (router, nic): (&Router, &Nic),
        tap: Tap,
        supplies: &mut HostServices,
    ) -> Result<Arc<Self>> {
        let label = format!("{}.{}", router.name, nic.name);
        let supplied = supplies.vhost_nets.remove(&label).unwrap_or_default();
        let kernel = supplies.threads.as_deref();
        let threads = supplied.into_iter().map(|device| KernelThread::of(device, kernel));
        let threads: Vec<_> = threads.collect::<Result<_>>()?;
        let queues = tap.descriptors().map(|queue| queue.try_clone_to_owned()).collect::<Result<_, _>>();
        let devices = threads.iter().map(|thread| -> Arc<dyn Device> { thread.device.clone() }).collect();
        let receiver = KernelVhost::new(devices, queues.context("no descriptors are left")?)?;
        let names = router.kernel_threads(nic).into_iter().map(|name| format!("{}/{name}", router.name));
        Ok(Arc::new(Self { receiver, threads, names: names.collect(), tap }))
    }

    /// Returns the reason why it does not serve the NIC, if the kernel has refused to.
    pub(crate) fn fault(&self) -> Option<String> {
        self.receiver.fault()
    }

    /// Returns the kernel threads that were found: name and ID.
    pub(crate) fn threads(&self) -> impl Iterator<Item = (&str, i32)> {
        let named = self.names.iter().zip(&self.threads);
        named.filter_map(|(name, thread)| Some((name.as_str(), thread.id?)))
    }

    /// Calls `visit` with the name of each thread and its CPU time in nanoseconds.
    pub(crate) fn each_thread(&self, visit: &mut dyn FnMut(&str, u64)) {
        for (name, thread) in self.names.iter().zip(&self.threads).filter(|(_, thread)| thread.id.is_some()) {
            visit(name, thread.cpu_time().as_nanos() as u64);
        }
    }
}

impl Attachment for KernelNic {
    fn ports(&self, _: &ServiceContext<'_>) -> Result<Ports> {
        Ok(Ports::default())
    }

    fn replace(&self, by: HandedOver) -> Result<()> {
        let by = attach::tap(by)?;
        self.tap.replace(&by)?;
        self.receiver.replace(by.descriptors())
    }

    fn state(&self) -> Option<(&'static str, String)> {
        let ids: Vec<String> =
            self.threads.iter().filter_map(|thread| Some(thread.id?.to_string())).collect();
        let by = if ids.is_empty() { "a thread that was not found".to_owned() } else { ids.join(", ") };
        let name = self.tap.name();
        let line = format!(
            "served by the kernel's vhost-net (thread {by}); the driver and `{name}` count its frames, nobody here sees them"
        );
        Some(("peer", line))
    }

    fn consumer(&self) -> Option<(u64, Arc<dyn Receiver>)> {
        Some((KernelVhost::SERVABLE, self.receiver.clone()))
    }
}

#[cfg(test)]
mod tests;
