//! Group in the place of a router: its keys in the configuration file, and what joins its stages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use uplink::Netns;

use super::Process;
use super::links::{self, ip};

/// Name of the bridge that joins balancers and back ends.
const BRIDGE: &str = "br-inside";

/// Kind of a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Balancer {
    /// A thread of the run, at the link.
    Switch,
    /// A virtual machine.
    Vm,
}

/// What joins balancers and back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interconnect {
    /// A switch of the run for each NIC.
    Switch,
    /// A bridge of the kernel.
    Bridge,
    /// A bridge of Open vSwitch with its user-space datapath.
    Ovs,
}

/// Structure of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupShape {
    /// This many members side by side.
    Parallel(u32),
    /// Balancers, an interconnection, and back ends.
    Multistage(Stages),
}

/// Stages of a multistage group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stages {
    pub(crate) balancers: u32,
    pub(crate) back_ends: u32,
    pub(crate) balancer: Balancer,
    pub(crate) interconnect: Interconnect,
}

impl Stages {
    /// One balancer and one back end, as in figure 19 of seed paper 000.
    pub(crate) const fn pair(balancer: Balancer, interconnect: Interconnect) -> Self {
        Self { balancers: 1, back_ends: 1, balancer, interconnect }
    }

    /// So many balancers and back ends, with balancers and interconnection in the run itself.
    pub(crate) const fn of_switches(balancers: u32, back_ends: u32) -> Self {
        let (balancer, interconnect) = (Balancer::Switch, Interconnect::Switch);
        Self { balancers, back_ends, balancer, interconnect }
    }
}

impl GroupShape {
    /// Number of members when the run starts.
    pub(crate) const fn members(self) -> u32 {
        match self {
            Self::Parallel(members) => members,
            Self::Multistage(stages) => stages.back_ends,
        }
    }

    /// Returns true if it has balancers.
    pub(crate) const fn is_multistage(self) -> bool {
        matches!(self, Self::Multistage(_))
    }

    /// Formats the keys that a group has and a router has not.
    pub(super) fn lines(self) -> String {
        let stages = match self {
            Self::Parallel(members) => return format!("kind = \"parallel\"\nmembers = {members}\n"),
            Self::Multistage(stages) => stages,
        };
        let balancer = match stages.balancer {
            Balancer::Switch => "switch",
            Balancer::Vm => "vm",
        };
        let interconnect = match stages.interconnect {
            Interconnect::Switch => "switch".to_owned(),
            Interconnect::Bridge => format!("bridge:{BRIDGE}"),
            Interconnect::Ovs => format!("ovs:{BRIDGE}"),
        };
        let Stages { balancers, back_ends, .. } = stages;
        format!(
            "kind = \"multistage\"\nbalancers = {balancers}\nbackends = {back_ends}\nbalancer = \"{balancer}\"\n\
             interconnect = \"{interconnect}\"\n"
        )
    }

    /// Returns the ports of the bridge that joins the stages, by the name of the bridge; empty if the run joins them.
    pub(super) fn ports(self, netns: &Netns, folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>> {
        let Self::Multistage(stages) = self else { return Ok(BTreeMap::new()) };
        let told = match stages.interconnect {
            Interconnect::Switch => return Ok(BTreeMap::new()),
            Interconnect::Bridge => {
                links::told(netns.command("ip").args(["-o", "link", "show", "master", BRIDGE]))?
            }
            Interconnect::Ovs => {
                let mut command = Command::new("ovs-vsctl");
                links::told(links::environment(&mut command, folder).args([
                    "--timeout=20",
                    "list-ports",
                    BRIDGE,
                ]))?
            }
        };
        Ok([(BRIDGE.to_owned(), told.lines().filter_map(port).map(str::to_owned).collect())].into())
    }

    /// Creates what joins the stages, if the run does not; returns the processes of Open vSwitch, if it takes part.
    pub(super) fn prepare(self, netns: &Netns, folder: &Path) -> Result<Vec<Process>> {
        let Self::Multistage(stages) = self else { return Ok(Vec::new()) };
        match stages.interconnect {
            Interconnect::Switch => Ok(Vec::new()),
            Interconnect::Bridge => {
                ip(netns, &format!("link add {BRIDGE} type bridge"))?;
                ip(netns, &format!("link set {BRIDGE} up"))?;
                Ok(Vec::new())
            }
            Interconnect::Ovs => {
                let processes = links::vswitchd(netns, folder)?;
                links::add_ovs_bridge(folder, BRIDGE, None)?;
                Ok(processes)
            }
        }
    }
}

/// Returns the interface that a line of ip(8) or ovs-vsctl(8) names: `7: tap0: <UP> mtu 1500`, `7: veth0@if6: <UP>`, or `tap0`.
fn port(line: &str) -> Option<&str> {
    let name = line.split_once(": ").map_or(line, |(_, rest)| rest.split(':').next().unwrap_or_default());
    name.trim().split('@').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_told_by_either_program() {
        let lines = ["7: tap0: <UP> mtu 1500", "8: veth0@if6: <UP>", "tap1", ""];
        assert_eq!(lines.map(port), [Some("tap0"), Some("veth0"), Some("tap1"), None]);
    }
}
