//! A running router: its guest, the attachments of its NICs, and the I/O threads between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use api::CpuSharing;
use attach::Outside;
use config::{Rate, Spin};
use sandbox::Confinement;

use crate::counts::{CounterRegistration, CounterRegistry};
use crate::farewell::Farewell;
use crate::groups::{GuestCounts, IoCounts, RouterCounts};
use crate::guest::Guest;
use crate::io_thread::{Idle, IoThread};
use crate::kernel_vhost::KernelNic;
use crate::tracing::TapBoard;
use crate::wiring::{Outlet, RateLimit, connect, io_threads};

/// A running router with its attachments. Dropping it takes the router down, and nothing else.
pub struct RunningRouter {
    threads: Vec<IoThread>,
    /// The router.
    pub router: Guest,
    /// The outside end (attachment) of each NIC, in the order of the file.
    outside: Vec<Outside>,
    /// The NICs that the kernel's vhost-net serves.
    kernel: Vec<Arc<KernelNic>>,
    pub(crate) gate: RateLimit,
    /// Numbers of the NICs whose cable is pulled out.
    pulled: BTreeSet<usize>,
    /// Numbers of the NICs whose cable was ever pulled out or plugged in.
    changed: BTreeSet<usize>,
    /// The threads that share their CPUs, by name.
    sharing: BTreeMap<String, CpuSharing>,
    /// Registration of its counters with the readers; ends when dropped.
    registration: Option<CounterRegistration>,
    /// To be said before it is stopped by order.
    farewells: Vec<Farewell>,
}

impl RunningRouter {
    /// Attaches a guest's NICs and launches it; it is up when [`Guest::is_ready`] returns true.
    pub(crate) fn launch(
        guest: Guest,
        outlets: &[Arc<Outlet>],
        board: &TapBoard,
        confinement: Confinement,
    ) -> Result<Self> {
        let (threads, outside) = (Vec::new(), Vec::new());
        let kernel = outlets.iter().filter_map(|outlet| outlet.kernel.clone()).collect();
        let (pulled, changed) = (BTreeSet::new(), BTreeSet::new());
        let (gate, sharing) = (RateLimit::new(guest.plan()), BTreeMap::new());
        let (registration, farewells) = (None, Vec::new());
        let mut running = Self {
            threads,
            router: guest,
            outside,
            kernel,
            gate,
            pulled,
            changed,
            sharing,
            registration,
            farewells,
        };
        running.router.steps_mut().resume();
        let plan = running.router.plan().clone();
        let mut ways = Vec::new();
        let gates = running.gate.nics();
        for (((nic, queues), outlet), gate) in
            plan.nics.iter().zip(running.router.nics()).zip(outlets).zip(gates)
        {
            let served = (queues, running.router.main_lock());
            let (mut way, outside) = connect((&plan, nic), served, outlet, (board, gate))
                .with_context(|| format!("router {}, NIC {}", plan.name, nic.name))?;
            running.outside.push(outside);
            running.farewells.extend(way.farewell.take());
            ways.push(way);
        }
        for (number, nic) in plan.nics.iter().enumerate() {
            running.plug(number, !nic.is_pulled(), true);
        }
        running.router.confine(confinement);
        running.router.launch()?;
        running.threads = io_threads(&plan, ways, confinement)?;
        running.router.steps_mut().end("threads");
        Ok(running)
    }

    /// Registers its counters, so that others can read them from now on.
    pub(crate) fn count(&mut self, counts: &CounterRegistry) {
        self.registration = Some(counts.add(RouterCounts {
            guest: GuestCounts::of(&self.router),
            outside: self.outside.clone(),
            kernel: self.kernel.clone(),
            gate: self.gate.clone(),
            threads: IoCounts::of(&self.threads),
        }));
    }

    /// Withdraws its counters from the readers.
    pub(crate) fn stop_counting(&mut self) {
        self.registration = None;
    }

    /// Tells the hosts behind it that it is about to go by order, if it is up.
    pub(crate) fn bid_farewell(&self) {
        if self.router.is_ready() {
            self.farewells.iter().for_each(Farewell::say);
        }
    }

    /// Returns its I/O threads.
    pub fn io_threads(&self) -> &[IoThread] {
        &self.threads
    }

    /// Pulls the cable of a NIC out, or plugs it in again; `is_there` tells whether there is a host or peer
    /// at its other end.
    pub(crate) fn plug(&mut self, nic: usize, up: bool, is_there: bool) {
        let changed = if up { self.pulled.remove(&nic) } else { self.pulled.insert(nic) };
        if changed {
            self.changed.insert(nic);
            // No frame passes, whether or not the driver heeds the link state.
            if let Some(queues) = self.router.nics().get(nic) {
                queues.plug(up);
            }
            self.set_link(nic, is_there);
        }
    }

    /// Shows the driver the link as up if there is a host or peer at the other end of the NIC's cable, unless
    /// that is pulled out.
    pub(crate) fn set_link(&self, nic: usize, is_there: bool) {
        self.router.set_link(nic, is_there && !self.is_pulled(nic));
    }

    /// Returns whether there is a host or peer at the other end of a NIC's cable, if that has to be shown
    /// repeatedly: a device may be unable to accept a change of its link state at the moment.
    pub(crate) fn link(&self, nic: usize, outlet: &Outlet) -> Option<bool> {
        outlet.link().or_else(|| self.changed.contains(&nic).then_some(true))
    }

    /// Returns true if the cable of a NIC is pulled out.
    fn is_pulled(&self, nic: usize) -> bool {
        self.pulled.contains(&nic)
    }

    /// Returns its NICs that the kernel's vhost-net serves.
    pub fn kernel_nics(&self) -> impl Iterator<Item = &KernelNic> {
        self.kernel.iter().map(|nic| &**nic)
    }

    /// Returns the reason why it has failed, if it has.
    pub fn fault(&self) -> Option<String> {
        let ended = self.threads.iter().map(IoThread::thread).find(|thread| thread.is_finished());
        let ended = ended.map(|thread| format!("its thread {} has ended", thread.name()));
        let refused = || self.kernel_nics().find_map(KernelNic::fault);
        self.router.fault().or(ended).or_else(refused)
    }

    /// Returns the epoch of the route table that each vCPU has published.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = u32> + Clone {
        let machine = self.router.machine();
        let vcpus = machine.shared().vcpus.iter().take(machine.vcpus());
        vcpus.map(|vcpu| vcpu.fib_epoch.0.load(Ordering::Acquire))
    }

    /// Limits the rate of admitted packets (packets per second) from now on.
    pub(crate) fn limit(&self, limit: Option<Rate>) {
        self.gate.set(limit);
    }

    /// Sets the polling budget of its I/O threads, after which they sleep.
    pub(crate) fn spin(&self, spin: Spin) {
        self.threads.iter().for_each(|io| io.set_idle(idle(io, spin, &self.sharing)));
    }

    /// Sets which of its threads share their CPUs: these sleep as soon as they have no work, because other
    /// threads need the CPU; the rest poll for as long as `spin` says.
    pub(crate) fn share(&mut self, sharing: &BTreeMap<String, CpuSharing>, spin: Spin) {
        let own = format!("{}/", self.router.plan().name);
        let own: BTreeMap<String, CpuSharing> = sharing
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

/// Returns the idle policy of an I/O thread.
pub(crate) fn idle(io: &IoThread, spin: Spin, sharing: &BTreeMap<String, CpuSharing>) -> Idle {
    match sharing.get(io.thread().name()) {
        None => Idle::from(spin),
        Some(CpuSharing::Contended) => Idle::Sleep(Duration::ZERO),
        Some(CpuSharing::WithOwnVcpu) => Idle::SharesVcpuCpu,
    }
}

impl Drop for RunningRouter {
    /// Withdraws the counters and detaches the outside first, so that no other thread reads or delivers any
    /// more: a switch waits for bursts that are under way to this router. Then stops the I/O threads, which
    /// reach into the guest's memory, and the guest last.
    fn drop(&mut self) {
        self.registration = None;
        self.outside.iter().for_each(Outside::leave);
        IoThread::stop_all(std::mem::take(&mut self.threads));
        self.router.stop();
    }
}
