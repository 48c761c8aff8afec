//! Settings of kernel routers: network namespaces in which the host's kernel forwards.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Forwarding settings of a kernel router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingSettings {
    /// True if it forwards between its NICs (`net.ipv4.ip_forward`).
    pub forwarding: bool,
    /// Source address validation (`net.ipv4.conf.*.rp_filter`).
    pub rp_filter: RpFilter,
    /// True if it answers ARP requests for addresses that it reaches by another NIC (`net.ipv4.conf.*.proxy_arp`).
    pub proxy_arp: bool,
    /// True if NAPI threads, which can be placed and scheduled, do the receive work of its NICs; false if softirqs do. `None`:
    /// the file does not say, and [`Router::is_threaded`](super::Router::is_threaded) decides.
    pub threaded: Option<bool>,
    /// True if the packets that the kernel drops are counted by its reason.
    pub drop_reasons: bool,
}

impl Default for ForwardingSettings {
    fn default() -> Self {
        Self {
            forwarding: true,
            rp_filter: RpFilter::Off,
            proxy_arp: false,
            threaded: None,
            drop_reasons: false,
        }
    }
}

/// The LXC container of a container router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Root directory; `None`: the container sees the host's programs, and runs none of them.
    pub rootfs: Option<PathBuf>,
    /// Init program in that directory, with its arguments.
    pub init: Vec<String>,
}

/// A port of a switch that leads through the host's kernel to a router that the data plane does not run: all that it knows of such a
/// router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelPort {
    /// Name of the router.
    pub router: String,
    /// Name of the NIC.
    pub nic: String,
    /// Name of the switch.
    pub switch: String,
    /// What leads there.
    pub path: KernelPath,
    /// True if the router is a member of a group, which tells it of its neighbours: it hears nothing of what others say to everybody.
    pub of_group: bool,
}

/// What leads from a port of a switch to a router that the data plane does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelPath {
    /// A TAP in the namespace of a kernel router.
    Tap,
    /// A UDP socket: a tunnel to a NIC of this number of a back end on another host. The ports of the tunnel depend on it.
    Tunnel(u16),
}

impl KernelPath {
    /// Returns what it is called in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tap => "TAP",
            Self::Tunnel(_) => "tunnel",
        }
    }
}

impl KernelPort {
    /// Returns the name of the NIC in the run: `edge.lan`.
    pub fn label(&self) -> String {
        format!("{}.{}", self.router, self.nic)
    }
}

/// Reverse path filter: source address validation (RFC 3704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RpFilter {
    /// Accept all sources.
    #[default]
    Off,
    /// Accept sources whose route leads to the NIC on which the packet arrived.
    Strict,
    /// Accept sources that are reachable by any NIC.
    Loose,
}

impl RpFilter {
    /// Returns its name in configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Strict => "strict",
            Self::Loose => "loose",
        }
    }

    /// Returns its value in the kernel.
    pub const fn number(self) -> u8 {
        match self {
            Self::Off => 0,
            Self::Strict => 1,
            Self::Loose => 2,
        }
    }
}
