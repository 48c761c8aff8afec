//! Containers of kernel routers, and the host ends of the veth pairs that LXC creates for them.

use anyhow::{Context, Result};
use lxc::{Container, OrphanedContainer, Programs, Running, TimeLimits};
use netlink::{Netlink, Queue, Settings};
use rustix::io::Errno;

use super::{HostBackend, Remains};
use crate::kernels::plan::Spec;

/// Queueing disciplines of the host ends of a container's pairs: the end in the container, and the end on the host.
type Queues = [(String, String, Queue)];

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
        set_queues(&kernel, &[], &spec.queues)?;
        Ok(running)
    }
}

/// Changes the queueing disciplines of a container's pairs, all of them or none.
pub(super) fn change_queues(before: &Queues, now: &Queues) -> Result<()> {
    if before == now {
        return Ok(());
    }
    let kernel = Netlink::open().context("a socket to the host's interfaces")?;
    set_queues(&kernel, before, now).inspect_err(|_| drop(set_queues(&kernel, now, before)))
}

fn set_queues(kernel: &Netlink, before: &Queues, now: &Queues) -> Result<()> {
    let is_wanted = |end: &String| now.iter().any(|(_, wanted, _)| wanted == end);
    for (_, end, _) in before.iter().filter(|(_, end, _)| !is_wanted(end)) {
        let take = || kernel.remove_queue(kernel.link(end.as_str())?.index);
        match take() {
            // Somebody else has removed it, or has moved the end to another namespace, which removes it.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV)) => {}
            taken => taken.with_context(|| format!("giving `{end}` the default queueing discipline"))?,
        }
    }
    for (_, end, queue) in now.iter().filter(|one| !before.contains(one)) {
        let give = || kernel.set_queue(kernel.link(end.as_str())?.index, *queue);
        give().with_context(|| format!("giving `{end}` a {queue}"))?;
    }
    Ok(())
}
