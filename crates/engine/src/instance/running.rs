//! A router that runs: its guest, what its NICs are plugged into, and the threads between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use api::Sharing;
use attach::Outside;
use config::{Rate, Spin};
use sandbox::Confinement;

use crate::counts::{Counting, Counts};
use crate::groups::{GuestCounts, IoCounts, RouterCounts};
use crate::guest::Guest;
use crate::io_thread::{Idle, IoThread};
use crate::kernel_vhost::KernelNic;
use crate::tracing::TapBoard;
use crate::wiring::{Gate, Outlet, connect, io_threads};

/// A router with its outside. Dropping it takes it down, and nothing else.
pub struct RunningRouter {
    threads: Vec<IoThread>,
    /// The router.
    pub router: Guest,
    /// The other side of each NIC, in the order of the file.
    outside: Vec<Outside>,
    /// Its NICs that the kernel serves.
    kernel: Vec<Arc<KernelNic>>,
    pub(crate) gate: Gate,
    /// NICs whose cable is pulled out, by number.
    pulled: BTreeSet<usize>,
    /// NICs whose cable was ever pulled out or plugged in.
    changed: BTreeSet<usize>,
    /// Its threads that share their CPUs, by name.
    sharing: BTreeMap<String, Sharing>,
    /// What counts is read until this is dropped.
    counting: Option<Counting>,
}

impl RunningRouter {
    /// Plugs a guest in and launches it; it is up when [`Guest::is_ready`].
    pub(crate) fn launch(
        guest: Guest,
        outlets: &[Arc<Outlet>],
        board: &TapBoard,
        confinement: Confinement,
    ) -> Result<Self> {
        let (threads, outside) = (Vec::new(), Vec::new());
        let kernel = outlets.iter().filter_map(|outlet| outlet.kernel.clone()).collect();
        let (pulled, changed) = (BTreeSet::new(), BTreeSet::new());
        let (gate, sharing) = (Gate::new(guest.plan()), BTreeMap::new());
        let counting = None;
        let mut running =
            Self { threads, router: guest, outside, kernel, gate, pulled, changed, sharing, counting };
        let plan = running.router.plan().clone();
        let mut ways = Vec::new();
        let gates = running.gate.nics();
        for (((nic, queues), outlet), gate) in
            plan.nics.iter().zip(running.router.nics()).zip(outlets).zip(gates)
        {
            let served = (queues, running.router.main_lock());
            let (way, outside) = connect((&plan, nic), served, outlet, (board, gate))
                .with_context(|| format!("router {}, NIC {}", plan.name, nic.name))?;
            running.outside.push(outside);
            ways.push(way);
        }
        for (number, nic) in plan.nics.iter().enumerate() {
            running.plug(number, !nic.is_pulled(), true);
        }
        running.router.confine(confinement);
        running.router.launch()?;
        running.threads = io_threads(&plan, ways, confinement)?;
        Ok(running)
    }

    /// Has what counts read by others from now on.
    pub(crate) fn count(&mut self, counts: &Counts) {
        self.counting = Some(counts.add(RouterCounts {
            guest: GuestCounts::of(&self.router),
            outside: self.outside.clone(),
            kernel: self.kernel.clone(),
            gate: self.gate.clone(),
            threads: IoCounts::of(&self.threads),
        }));
    }

    /// What counts of it is read no more.
    pub(crate) fn stop_counting(&mut self) {
        self.counting = None;
    }

    /// Its I/O threads.
    pub fn io_threads(&self) -> &[IoThread] {
        &self.threads
    }

    /// Pulls the cable of a NIC out, or plugs it in again; whether somebody `is_there` at its other end.
    pub(crate) fn plug(&mut self, nic: usize, up: bool, is_there: bool) {
        let changed = if up { self.pulled.remove(&nic) } else { self.pulled.insert(nic) };
        if changed {
            self.changed.insert(nic);
            // No frame passes, whatever its driver makes of that.
            if let Some(queues) = self.router.nics().get(nic) {
                queues.plug(up);
            }
            self.set_link(nic, is_there);
        }
    }

    /// Shows the driver whether somebody is at the other end of a NIC's cable, unless that is pulled out.
    pub(crate) fn set_link(&self, nic: usize, is_there: bool) {
        self.router.set_link(nic, is_there && !self.is_pulled(nic));
    }

    /// Whether somebody is at the other end of a NIC's cable, where that has to be shown again and again: a device may be unable to
    /// take it at the moment.
    pub(crate) fn link(&self, nic: usize, outlet: &Outlet) -> Option<bool> {
        outlet.link().or_else(|| self.changed.contains(&nic).then_some(true))
    }

    /// Whether the cable of a NIC is pulled out.
    fn is_pulled(&self, nic: usize) -> bool {
        self.pulled.contains(&nic)
    }

    /// Its NICs that the kernel serves.
    pub fn kernel_nics(&self) -> impl Iterator<Item = &KernelNic> {
        self.kernel.iter().map(|nic| &**nic)
    }

    /// Why it cannot go on, if it cannot.
    pub fn fault(&self) -> Option<String> {
        let ended = self.threads.iter().map(IoThread::thread).find(|thread| thread.is_finished());
        let ended = ended.map(|thread| format!("its thread {} has ended", thread.name()));
        let refused = || self.kernel_nics().find_map(KernelNic::fault);
        self.router.fault().or(ended).or_else(refused)
    }

    /// What each vCPU shows of the epoch of its routes.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = u32> {
        let machine = self.router.machine();
        let vcpus = machine.shared().vcpus.iter().take(machine.vcpus());
        vcpus.map(|vcpu| vcpu.fib_epoch.0.load(Ordering::Acquire))
    }

    /// Lets so many packets a second in from now on.
    pub(crate) fn limit(&self, limit: Option<Rate>) {
        self.gate.set(limit);
    }

    /// Lets its I/O threads poll for another time before they sleep.
    pub(crate) fn spin(&self, spin: Spin) {
        self.threads.iter().for_each(|io| io.set_idle(idle(io, spin, &self.sharing)));
    }

    /// From now on those of its threads that are in this set sleep as soon as they have nothing to do, because others need
    /// their CPUs; the rest poll for as long as `spin` says.
    pub(crate) fn share(&mut self, sharing: &BTreeMap<String, Sharing>, spin: Spin) {
        let own = format!("{}/", self.router.plan().name);
        let own: BTreeMap<String, Sharing> = sharing
            .iter()
            .filter(|(name, _)| name.starts_with(&own))
            .map(|(name, sharing)| (name.clone(), *sharing))
            .collect();
        if own == self.sharing {
            return;
        }
        self.sharing = own;
        self.spin(spin);
        let machine = self.router.machine();
        for (n, vcpu) in machine.shared().vcpus.iter().take(machine.vcpus()).enumerate() {
            let shares = self.sharing.contains_key(&format!("{}/vcpu{n}", self.router.plan().name));
            vcpu.spin_limit.0.store(u32::from(shares), Ordering::Relaxed);
        }
    }
}

/// How an I/O thread idles.
pub(crate) fn idle(io: &IoThread, spin: Spin, sharing: &BTreeMap<String, Sharing>) -> Idle {
    match sharing.get(io.thread().name()) {
        None => Idle::from(spin),
        Some(Sharing::Others) => Idle::Sleep(Duration::ZERO),
        Some(Sharing::Guest) => Idle::Beside,
    }
}

impl Drop for RunningRouter {
    /// First nobody reads or gets in any more: a switch waits for bursts that are under way towards it. Then those leave
    /// who reach into the guest's memory, and at last the guest.
    fn drop(&mut self) {
        self.counting = None;
        self.outside.iter().for_each(Outside::leave);
        IoThread::stop_all(std::mem::take(&mut self.threads));
        self.router.stop();
    }
}
