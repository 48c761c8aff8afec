//! The plan: what one file asks for, checked and with every default filled in.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod nic;

pub use attach::Attach;
pub use bootinfo::{Misdeed, NicModel, TransmitMode};

pub use self::nic::{Deliver, FlowHash, Itr, LinkState, Nic, QueueLen};
pub use crate::affinity::{Affinity, Allowed};
pub use crate::rate::{Guarantee, Rate};
pub use crate::sched::{Policy, Reservation, Sched, Shares};

use crate::address::Prefix;
use crate::cpus::CpuSet;
use crate::mac::Mac;
use crate::places::Places;

/// Everything one file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the run: `name` of the file, else the file's own name without `.toml`.
    pub name: String,
    /// Whether the file itself says that name.
    pub named: bool,
    /// The switches, by name.
    pub switches: Vec<Switch>,
    /// The routers, in the order of the file; at least one.
    pub routers: Vec<Router>,
    /// What the run tells to those who ask for its counters.
    pub telemetry: Telemetry,
    /// Where in the file each value stands, for errors found later.
    #[serde(skip)]
    pub places: Places,
}

impl Plan {
    /// Every NIC of every router, with its router.
    pub fn nics(&self) -> impl Iterator<Item = (&Router, &Nic)> {
        self.routers.iter().flat_map(|router| router.nics.iter().map(move |nic| (router, nic)))
    }

    /// Guest memory of all routers together, in octets.
    pub fn memory(&self) -> u64 {
        self.routers.iter().map(|router| router.memory).sum()
    }
}

/// A learning switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// Its name, unique in the file.
    pub name: String,
    /// How long a learned address is kept after its last frame.
    pub ageing: Duration,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Router {
    /// Its name, unique in the file.
    pub name: String,
    /// What runs it; none: KVM where the host has it, else a process. [`Plan::choose_engines`] fills it in.
    pub engine: Option<Engine>,
    /// What it runs where that is no firmware of ours; there if and only if `engine` is [`Engine::Linux`].
    pub linux: Option<Linux>,
    /// What its firmware does.
    pub role: Role,
    /// What happens when it stops by itself.
    pub restart: Restart,
    /// Whether it is to run; none: nothing is said, and it runs.
    pub state: Option<Power>,
    /// Virtual CPUs, 1 to 16.
    pub vcpus: u32,
    /// Guest memory in octets, a multiple of 2 MiB.
    pub memory: u64,
    /// How its I/O threads are cut.
    pub vhost: VhostThreads,
    /// Where its threads may run.
    pub pin: Pin,
    /// In which sets of CPUs the kernel places its threads.
    pub affinity: Affinity,
    /// How the kernel schedules them.
    pub sched: Sched,
    /// What it is promised.
    pub guarantee: Option<Guarantee>,
    /// What it may forward at most.
    pub limit: Option<Rate>,
    /// How long its threads poll without work before they sleep.
    pub spin: Spin,
    /// Whether it is to have a process of its own; see [`Router::is_apart`].
    pub isolate: bool,
    /// Its NICs, in the order of the file; at least one.
    pub nics: Vec<Nic>,
    /// Its static routes, in the order of the file; connected networks are not among them.
    pub routes: Vec<Route>,
    /// Neighbours that need no ARP.
    pub neighbours: Vec<Neighbour>,
}

impl Router {
    /// Whether it is to be stopped.
    pub fn is_stopped(&self) -> bool {
        self.state == Some(Power::Stopped)
    }

    /// How many I/O threads it has.
    pub fn vhost_threads(&self) -> usize {
        match self.vhost {
            VhostThreads::Shared | VhostThreads::Vmm => 1,
            VhostThreads::PerNic => self.nics.len(),
            VhostThreads::Split => 2 * self.nics.len(),
            VhostThreads::PerQueue => self.queue_pairs() as usize,
            VhostThreads::Kernel => 0,
        }
    }

    /// Whether its file says more of its threads than where they are pinned.
    pub fn is_scheduled(&self) -> bool {
        !self.sched.is_empty() || self.affinity != Affinity::default() || self.guarantee.is_some()
    }

    /// Queue pairs that each of its NICs has: one for each vCPU, and one beside an e1000.
    pub fn queue_pairs(&self) -> u32 {
        if self.nics.iter().any(|nic| nic.model == NicModel::E1000) { 1 } else { self.vcpus }
    }

    /// How many queues one of its NICs has outside, each with a thread that empties it: those of a TAP, or before a
    /// switch's port.
    pub fn outer_queues(&self, nic: &Nic) -> usize {
        match self.vhost {
            VhostThreads::PerQueue => nic.queues as usize,
            VhostThreads::Kernel => self.queue_pairs() as usize,
            _ => 1,
        }
    }

    /// What we call the threads of the kernel that serve a NIC, one for each queue pair; the kernel calls each of them
    /// `vhost-` and a number.
    pub fn kernel_threads(&self, nic: &Nic) -> Vec<String> {
        (0..self.queue_pairs()).map(|pair| format!("{}-kernel{pair}", nic.name)).collect()
    }

    /// Names of its threads as `top -H` shows them, with the CPUs each may run on (none: any).
    pub fn threads(&self) -> Vec<(String, Option<&CpuSet>)> {
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

/// What runs a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// A KVM virtual machine with the ring-3 firmware.
    Kvm,
    /// A process in namespaces of its own with the ring-3 firmware.
    Process,
    /// A KVM virtual machine with a kernel that the file names.
    Linux,
}

impl Engine {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Process => "process",
            Self::Linux => "linux",
        }
    }

    /// Whether it is KVM that runs it.
    pub const fn needs_kvm(self) -> bool {
        matches!(self, Self::Kvm | Self::Linux)
    }
}

/// A guest that is no firmware of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linux {
    /// A bzImage, or an ELF `vmlinux`.
    pub kernel: PathBuf,
    /// Its initramfs.
    pub initrd: Option<PathBuf>,
    /// Words for its command line.
    pub append: String,
    /// Where its serial console is written to; none: nowhere.
    pub console: Option<PathBuf>,
}

/// What a router's firmware does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Forwards IPv4 between its NICs.
    #[default]
    Router,
    /// Sends every frame back out of the NIC it came from.
    Echo,
    /// Breaks the rules in this way, to show that nobody else is hurt.
    Hostile(Misdeed),
}

/// What happens when a router stops by itself: its firmware failed, or it was stopped for breaking the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// It is started again, after a pause that grows with each failure.
    #[default]
    Always,
    /// It stays stopped.
    Never,
}

impl Restart {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// Whether a router is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Power {
    /// It runs.
    #[default]
    Running,
    /// It is stopped.
    Stopped,
}

impl Power {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
        }
    }
}

/// What a run tells to those who ask for its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Where Prometheus finds the counters; none: nowhere.
    pub prometheus: Option<Listen>,
}

/// Where somebody may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// A TCP port of one of the host's addresses.
    Tcp(SocketAddr),
    /// A socket in the file system, by its absolute path.
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

/// How a router's I/O threads are cut.
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
    /// None of ours: the kernel's vhost-net serves each queue pair of each NIC by a thread of its own.
    Kernel,
    /// None but a main loop, as VMMs had it before vhost-net: a kick leaves the guest, and the vCPU's thread sends the frames;
    /// the main loop brings those that come; one lock lets one of them work at a time.
    Vmm,
}

impl VhostThreads {
    /// Its name in files.
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

/// Which CPUs a router's threads may run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// CPUs of the vCPU threads; none: any. vCPU `n` runs on the set's CPU number `n` modulo its size.
    pub vcpu: Option<CpuSet>,
    /// CPUs of the vhost threads; none: any. Dealt out like those of the vCPUs.
    pub vhost: Option<CpuSet>,
}

/// How long a thread polls without work before it arms its notifications and sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Spin {
    /// This long; zero means that it sleeps as soon as it has nothing to do.
    For(Duration),
    /// It never sleeps, and takes its whole CPU.
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
    /// 50 µs: rather more than a notification and back between two threads takes, so that an answer that is already on its
    /// way does not pay for a sleep.
    fn default() -> Self {
        Self::For(Duration::from_micros(50))
    }
}

/// A static route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destinations it is for.
    pub to: Prefix,
    /// The gateway; none: the destinations are neighbours on the NIC.
    pub via: Option<Ipv4Addr>,
    /// Index of the NIC it leads out of.
    pub nic: usize,
}

/// A neighbour that needs no ARP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Index of the NIC it lives behind.
    pub nic: usize,
}
