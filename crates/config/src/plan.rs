//! The plan: content of a file, validated and with all defaults filled in.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod kernel;
mod nic;

pub use attach::Attach;
pub use bootinfo::{Misdeed, NicModel, TransmitMode};

pub use self::kernel::{Container, ForwardingSettings, KernelPath, KernelPort, RpFilter};
pub use self::nic::{Deliver, FlowHash, Itr, LinkState, Nic, QueueLen};
pub use crate::affinity::{Affinity, Allowed};
pub use crate::rate::{Guarantee, Rate};
pub use crate::sched::{Policy, Reservation, Sched, Shares};

use crate::address::Prefix;
use crate::cpus::CpuSet;
use crate::mac::Mac;
use crate::source_lines::SourceLines;

/// Content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the run: `name` in the file, else the file's own name without `.toml`.
    pub name: String,
    /// True if the file gives that name.
    pub named: bool,
    /// Switches, in the order of the file.
    pub switches: Vec<Switch>,
    /// Routers, in the order of the file; at least one.
    pub routers: Vec<Router>,
    /// Ports of switches that lead to kernel routers, and to back ends on other hosts. Only in the plan of a data plane, which knows
    /// nothing else of such routers.
    pub kernel_ports: Vec<KernelPort>,
    /// Telemetry of the run.
    pub telemetry: Telemetry,
    /// The groups, whose members are among the routers.
    pub groups: Vec<crate::group::Group>,
    /// Lines of values in the file, for errors found later.
    #[serde(skip)]
    pub places: SourceLines,
}

impl Plan {
    /// All NICs of all routers, each with its router.
    pub fn nics(&self) -> impl Iterator<Item = (&Router, &Nic)> {
        self.routers.iter().flat_map(|router| router.nics.iter().map(move |nic| (router, nic)))
    }

    /// Returns the kernel routers, in the order of the file.
    pub fn in_kernel(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().filter(|router| router.is_in_kernel())
    }

    /// Guest memory of all routers together, in octets.
    pub fn memory(&self) -> u64 {
        self.routers.iter().map(|router| router.memory).sum()
    }
}

/// A learning switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Name, unique in the file.
    pub name: String,
    /// Time for which a learned address is kept after its last frame.
    pub ageing: Duration,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// Name, unique in the file.
    pub name: String,
    /// Engine; `None`: KVM if the host has it, else a process. [`Plan::choose_engines`] fills it in.
    pub engine: Option<Engine>,
    /// Foreign guest to run instead of our firmware; present if and only if `engine` is [`Engine::Linux`].
    pub linux: Option<Linux>,
    /// Forwarding settings of a kernel router; present if and only if `engine` is [`Engine::Kernel`] or [`Engine::Lxc`].
    pub kernel: Option<ForwardingSettings>,
    /// Its container; present if and only if `engine` is [`Engine::Lxc`].
    pub container: Option<Container>,
    /// Role of its firmware.
    pub role: Role,
    /// Policy for when it stops by itself.
    pub restart: Restart,
    /// Desired power state; `None`: not specified, so it runs.
    pub state: Option<Power>,
    /// Number of vCPUs, 1 to 16; 0 for a kernel router.
    pub vcpus: u32,
    /// Guest memory in octets, a multiple of 2 MiB; 0 for a kernel router.
    pub memory: u64,
    /// Division of its I/O work among threads.
    pub vhost: VhostThreads,
    /// CPUs that its threads are pinned to.
    pub pin: Pin,
    /// Sets of CPUs within which the kernel places its threads.
    pub affinity: Affinity,
    /// Scheduling policies of its threads.
    pub sched: Sched,
    /// Promised rate.
    pub guarantee: Option<Guarantee>,
    /// Highest rate that it may forward.
    pub limit: Option<Rate>,
    /// Polling budget of its threads before they sleep.
    pub spin: Spin,
    /// True if it is to have a process of its own; see [`Router::is_isolated`].
    pub isolate: bool,
    /// NICs, in the order of the file; at least one.
    pub nics: Vec<Nic>,
    /// Static routes, in the order of the file; connected networks are not included.
    pub routes: Vec<Route>,
    /// Static neighbours, which need no ARP.
    pub neighbours: Vec<Neighbour>,
    /// IPv6 routes and neighbours, VLANs, and limits of forwarding.
    pub forwarding: crate::forwarding::Forwarding,
    /// Control plane; `None`: it has none.
    pub control: Option<crate::control::Control>,
}

impl Router {
    /// Returns true if it is to be stopped.
    pub fn is_stopped(&self) -> bool {
        self.state == Some(Power::Stopped)
    }

    /// Returns true if it is a kernel router: it has no machine, and the data plane does not know it.
    pub const fn is_in_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Returns true if a NIC has jumbo frames, so that all buffers of its firmware are made for them.
    pub fn has_jumbo(&self) -> bool {
        let tagged = !self.forwarding.interfaces.is_empty();
        self.nics.iter().any(|nic| bootinfo::buffers::is_jumbo(nic.mtu, tagged))
    }

    /// Number of its I/O threads.
    pub fn vhost_threads(&self) -> usize {
        match self.vhost {
            _ if self.is_in_kernel() => 0,
            VhostThreads::Shared | VhostThreads::Vmm => 1,
            VhostThreads::PerNic => self.nics.len(),
            VhostThreads::Split => 2 * self.nics.len(),
            VhostThreads::PerQueue => self.queue_pairs() as usize,
            VhostThreads::Kernel => 0,
        }
    }

    /// Returns true if its file says more about its threads than where they are pinned.
    pub fn is_scheduled(&self) -> bool {
        !self.sched.is_empty() || self.affinity != Affinity::default() || self.guarantee.is_some()
    }

    /// Number of queue pairs of each of its NICs: one for each vCPU, or a single one if it has an e1000.
    pub fn queue_pairs(&self) -> u32 {
        if self.nics.iter().any(|nic| nic.model == NicModel::E1000) { 1 } else { self.vcpus }
    }

    /// Number of queues on the outer side of one of its NICs, each with a thread that empties it: those of a
    /// TAP, or in front of a switch port.
    pub fn outer_queues(&self, nic: &Nic) -> usize {
        match self.vhost {
            VhostThreads::PerQueue => nic.queues as usize,
            VhostThreads::Kernel => self.queue_pairs() as usize,
            _ => 1,
        }
    }

    /// Our names for the kernel threads that serve a NIC, one for each queue pair; the kernel names each of
    /// them `vhost-` and a number.
    pub fn kernel_threads(&self, nic: &Nic) -> Vec<String> {
        (0..self.queue_pairs()).map(|pair| format!("{}-kernel{pair}", nic.name)).collect()
    }

    /// Names of its threads as `top -H` shows them, with the CPUs that each may run on (`None`: any).
    pub fn threads(&self) -> Vec<(String, Option<&CpuSet>)> {
        if self.is_in_kernel() {
            let nics = self.threaded_nics();
            return nics.map(|(_, nic)| (self.napi_thread(nic), self.pin.vhost.as_ref())).collect();
        }
        let vcpus = (0..self.vcpus).map(|n| (format!("{}/vcpu{n}", self.name), self.pin.vcpu.as_ref()));
        let vhosts = match self.vhost {
            VhostThreads::Shared => vec!["vhost".to_owned()],
            VhostThreads::PerNic => self.nics.iter().map(|nic| nic.name.clone()).collect(),
            VhostThreads::Split => self
                .nics
                .iter()
                .flat_map(|nic| [format!("{}-rx", nic.name), format!("{}-tx", nic.name)])
                .collect(),
            VhostThreads::PerQueue => (0..self.queue_pairs()).map(|pair| format!("q{pair}")).collect(),
            VhostThreads::Kernel => self.nics.iter().flat_map(|nic| self.kernel_threads(nic)).collect(),
            VhostThreads::Vmm => vec!["main".to_owned()],
        };
        let vhosts =
            vhosts.into_iter().map(|name| (format!("{}/{name}", self.name), self.pin.vhost.as_ref()));
        vcpus.chain(vhosts).collect()
    }
}

/// Engine that runs a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// KVM virtual machine with the ring-3 firmware.
    Kvm,
    /// Process in namespaces of its own with the ring-3 firmware.
    Process,
    /// KVM virtual machine with a kernel that the file names.
    Linux,
    /// The host's kernel in a network namespace: a kernel router.
    Kernel,
    /// The host's kernel in a container that LXC starts: a container router.
    Lxc,
}

impl Engine {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Process => "process",
            Self::Linux => "linux",
            Self::Kernel => "kernel",
            Self::Lxc => "lxc",
        }
    }

    /// Returns true if routers of this engine are kernel routers, which include container routers.
    pub const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Lxc)
    }

    /// Returns true if it needs KVM.
    pub const fn needs_kvm(self) -> bool {
        matches!(self, Self::Kvm | Self::Linux)
    }
}

/// Guest that does not run our firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linux {
    /// Kernel: a bzImage, or an ELF `vmlinux`.
    pub kernel: PathBuf,
    /// Initramfs.
    pub initrd: Option<PathBuf>,
    /// Kernel command line.
    pub append: String,
    /// File that its serial console is written to; `None`: output is dropped.
    pub console: Option<PathBuf>,
}

/// Role of a router's firmware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Forwards IPv4 between its NICs.
    #[default]
    Router,
    /// Sends every frame back through the NIC it came from.
    Echo,
    /// Breaks the rules in this way, to test that no other router suffers.
    Hostile(Misdeed),
    /// Spreads the frames of a group over its members. No router of a file has it.
    Balancer,
}

/// Policy for when a router stops by itself: its firmware failed, or it was stopped for breaking the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// It is restarted, after a pause that grows with each failure.
    #[default]
    Always,
    /// It stays stopped.
    Never,
}

impl Restart {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Desired power state of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    /// It runs.
    #[default]
    Running,
    /// It is stopped.
    Stopped,
}

impl Power {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// Telemetry of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Address at which Prometheus scrapes the counters; `None`: nowhere.
    pub prometheus: Option<Listen>,
}

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// TCP port of one of the host's addresses.
    Tcp(SocketAddr),
    /// Unix socket, by its absolute path.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(out, "{address}"),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

/// Division of a router's I/O work among threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VhostThreads {
    /// One thread for all NICs of the router.
    #[default]
    Shared,
    /// One thread for each NIC.
    PerNic,
    /// Two threads for each NIC: one towards the router (rx), one away from it (tx).
    Split,
    /// One thread for each queue pair of each NIC.
    PerQueue,
    /// No thread of ours: the kernel's vhost-net serves each queue pair of each NIC by a thread of its own.
    Kernel,
    /// A single main loop, as in VMMs before vhost-net: a kick leaves the guest, and the vCPU's own thread
    /// sends the frames; the main loop delivers received frames; one lock lets only one of them work at a
    /// time.
    Vmm,
}

impl VhostThreads {
    /// Name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerNic => "per-nic",
            Self::Split => "split",
            Self::PerQueue => "per-queue",
            Self::Kernel => "kernel",
            Self::Vmm => "vmm",
        }
    }
}

/// CPUs that a router's threads may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// CPUs of the vCPU threads; `None`: any. vCPU `n` runs on the set's CPU number `n` modulo its size.
    pub vcpu: Option<CpuSet>,
    /// CPUs of the vhost threads; `None`: any. Assigned like those of the vCPUs.
    pub vhost: Option<CpuSet>,
}

/// Polling budget: how long a thread polls without work before it enables notifications and sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spin {
    /// This long; zero means that it sleeps as soon as it is idle.
    For(Duration),
    /// It never sleeps, and uses its whole CPU.
    Always,
}

impl fmt::Display for Spin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::For(time) => write!(out, "{}us", time.as_micros()),
            Self::Always => out.write_str("always"),
        }
    }
}

impl Default for Spin {
    /// 50 µs: somewhat more than a notification round trip between two threads takes, so that a thread does
    /// not go to sleep while an answer is on its way.
    fn default() -> Self {
        Self::For(Duration::from_micros(50))
    }
}

/// A static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destination prefix.
    pub to: Prefix,
    /// Gateway; `None`: the destinations are neighbours on the NIC.
    pub via: Option<Ipv4Addr>,
    /// Index of the outgoing NIC.
    pub nic: usize,
}

/// A static neighbour, which needs no ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// Ethernet address.
    pub mac: Mac,
    /// Index of the NIC that it is reached through.
    pub nic: usize,
}
