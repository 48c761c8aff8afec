//! Containers of kernel routers, and the host ends of the veth pairs that LXC creates for them.

use anyhow::{Context, Result};
use lxc::{Container, OrphanedContainer, Programs, Running, TimeLimits};
use netlink::{Netlink, Settings};

use super::{HostBackend, Remains};
use crate::kernels::plan::Spec;

impl HostBackend {
    /// Starts the container of a router, makes the host ends of its pairs ports of their bridges, and gives them their queueing
    /// disciplines.
    pub(super) fn start_container(&mut self, container: &Container, spec: &Spec) -> Result<Running> {
        (self.journal)(Remains::Container(&OrphanedContainer::new(&container.name, &self.folder)));
        let running = Running::start(&Programs::default(), container, &self.folder, TimeLimits::default())?;
        if spec.bridges.is_empty() && spec.queues.is_empty() {
            return Ok(running);
        }
        let kernel = Netlink::open().context("a socket to the host's interfaces")?;
        for (end, bridge) in &spec.bridges {
            let join = || {
                let index = kernel.link(bridge.as_str())?.index;
                kernel.set_link(end.as_str(), &Settings::default().master(index).up(true))
            };
            join().with_context(|| format!("adding `{end}` to the bridge `{bridge}`"))?;
        }
        for (_, end, queue) in &spec.queues {
            let give = || kernel.set_queue(kernel.link(end.as_str())?.index, *queue);
            give().with_context(|| format!("giving `{end}` a {queue}"))?;
        }
        Ok(running)
    }
}
