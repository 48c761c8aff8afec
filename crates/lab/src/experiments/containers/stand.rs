//! Set-ups of a router in a room: its forwarder, its attachment, and the execution context that receives its frames.

use anyhow::Result;
use config::{Engine, VhostThreads};

use crate::experiment::Options;
use crate::experiments::control::on;
use crate::rig::router_run::{File, Forwarder, Link, RouterRun, threaded};

/// Execution context that receives a router's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receives {
    /// Softirqs on the router's CPU (receive packet steering), as if a NIC interrupted that CPU. All interfaces share the CPU's
    /// backlog queue.
    Softirqs,
    /// NAPI threads on the router's CPU, one for each interface, with equal weights.
    Threads,
    /// Softirqs on the load's CPU, from which the router's own threads fetch the frames.
    Elsewhere,
}

/// A set-up of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stand {
    /// Name in cases.
    pub(super) name: &'static str,
    pub(super) by: Forwarder,
    pub(super) link: Link,
    vhost: VhostThreads,
    receives: Receives,
}

const fn by_kernel(name: &'static str, engine: Engine, link: Link) -> Stand {
    let (by, vhost) = (Forwarder::Command(engine), VhostThreads::Shared);
    Stand { name, by, link, vhost, receives: Receives::Softirqs }
}

const fn by_macvtap(name: &'static str, vhost: VhostThreads) -> Stand {
    Stand { vhost, ..by_kernel(name, Engine::Kvm, Link::Macvtap) }
}

impl Stand {
    /// Baseline: a network namespace set up by hand.
    pub(super) const BY_HAND: Self =
        Self { by: Forwarder::Hand, ..by_kernel("by-hand/veth", Engine::Kernel, Link::Veth) };
    pub(super) const BY_HAND_MACVLAN: Self =
        Self { by: Forwarder::Hand, ..by_kernel("by-hand/macvlan", Engine::Kernel, Link::Macvlan) };
    pub(super) const KERNEL_VETH: Self = by_kernel("kernel/veth", Engine::Kernel, Link::Veth);
    pub(super) const KERNEL_MACVLAN: Self = by_kernel("kernel/macvlan", Engine::Kernel, Link::Macvlan);
    pub(super) const KERNEL_BRIDGE: Self = by_kernel("kernel/bridge", Engine::Kernel, Link::Bridge);
    pub(super) const KERNEL_TAP: Self = by_kernel("kernel/tap", Engine::Kernel, Link::Tap);
    pub(super) const LXC_VETH: Self = by_kernel("lxc/veth", Engine::Lxc, Link::Veth);
    pub(super) const LXC_MACVLAN: Self = by_kernel("lxc/macvlan", Engine::Lxc, Link::Macvlan);
    pub(super) const LXC_TAP: Self = by_kernel("lxc/tap", Engine::Lxc, Link::Tap);
    /// A veth pair with NAPI threads.
    pub(super) const KERNEL_THREADS: Self =
        Self { receives: Receives::Threads, ..by_kernel("kernel/veth-threads", Engine::Kernel, Link::Veth) };
    /// A virtual machine with ringroad's vhost thread.
    pub(super) const MACVTAP: Self = by_macvtap("kvm/macvtap", VhostThreads::Shared);
    /// A virtual machine whose VMM moves the frames itself, without a vhost thread.
    pub(super) const MACVTAP_VMM: Self = by_macvtap("kvm/macvtap-vmm", VhostThreads::Vmm);
    /// A virtual machine with the kernel's vhost-net.
    pub(super) const MACVTAP_VHOST_NET: Self = by_macvtap("kvm/macvtap-vhost-net", VhostThreads::Kernel);
    /// A virtual machine on macvtaps that stand for virtual functions. A virtual function costs the host no softirq, so the
    /// softirqs run on another core.
    pub(super) const MACVTAP_FOR_VF: Self =
        Self { receives: Receives::Elsewhere, ..by_macvtap("kvm/macvtap-for-vf", VhostThreads::Shared) };
    pub(super) const KVM_TAP: Self = Self { link: Link::Tap, name: "kvm/tap", ..Self::MACVTAP_FOR_VF };
    /// A virtual machine on TAPs whose VMM moves the frames itself.
    pub(super) const KVM_TAP_VMM: Self =
        Self { link: Link::Tap, ..by_macvtap("kvm/tap-vmm", VhostThreads::Vmm) };
    pub(super) const PROCESS_TAP: Self =
        Self { by: Forwarder::Command(Engine::Process), name: "process/tap", ..Self::KVM_TAP };

    /// A Linux guest, whose files the options name.
    pub(super) const LINUX_TAP: Self =
        Self { by: Forwarder::Command(Engine::Linux), name: "linux/tap", ..Self::KVM_TAP };

    /// Set-ups on interfaces of the host: routing by hand, containers and virtual machines.
    pub(super) const ON_AN_INTERFACE: [Self; 9] = [
        Self::BY_HAND,
        Self::KERNEL_VETH,
        Self::KERNEL_MACVLAN,
        Self::LXC_VETH,
        Self::LXC_MACVLAN,
        Self::MACVTAP,
        Self::MACVTAP_VMM,
        Self::MACVTAP_VHOST_NET,
        Self::MACVTAP_FOR_VF,
    ];

    /// Returns the options of the set-up's rooms.
    fn options(self, options: &Options) -> Options {
        Options { vhost: self.vhost, ..options.clone() }
    }

    /// Returns the configuration lines of a router on this CPU.
    fn lines(self, cpu: usize) -> String {
        match self.receives {
            _ if !self.by.is_kernel() => on(cpu),
            Receives::Threads => threaded(cpu),
            Receives::Softirqs | Receives::Elsewhere => String::new(),
        }
    }

    /// Opens a room with a router on each of these CPUs.
    ///
    /// # Errors
    /// The routers do not run.
    pub(super) fn open(self, options: &Options, cpus: &[usize]) -> Result<RouterRun> {
        let room = self.open_idle(options, cpus)?;
        self.place(&room, cpus)?;
        Ok(room)
    }

    /// Opens a room with a router on each of these CPUs, and leaves the placement of the softirqs to the kernel.
    ///
    /// # Errors
    /// The routers do not run.
    pub(super) fn open_idle(self, options: &Options, cpus: &[usize]) -> Result<RouterRun> {
        let (options, routers) = (self.options(options), self.all_lines(cpus));
        RouterRun::open(&File { by: self.by, ..File::new(&options, self.link, &routers) })
    }

    /// Opens a room, calls `measure` with it, and closes it.
    ///
    /// # Errors
    /// As [`Stand::open`], or `measure` fails.
    pub(super) fn with_routers<T>(
        self,
        options: &Options,
        cpus: &[usize],
        measure: impl FnOnce(&RouterRun) -> Result<T>,
    ) -> Result<T> {
        let (options, routers) = (self.options(options), self.all_lines(cpus));
        let file = File { by: self.by, ..File::new(&options, self.link, &routers) };
        RouterRun::with_routers(&file, |room| {
            self.place(room, cpus)?;
            measure(room)
        })
    }

    fn all_lines(self, cpus: &[usize]) -> Vec<String> {
        cpus.iter().map(|cpu| self.lines(*cpu)).collect()
    }

    /// Places the receive work of all routers.
    fn place(self, room: &RouterRun, cpus: &[usize]) -> Result<()> {
        let of = |router: usize| cpus.get(router).copied().unwrap_or_default();
        match self.receives {
            Receives::Softirqs => room.arrive_each(of),
            // The command itself pins the threads.
            Receives::Threads | Receives::Elsewhere => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
