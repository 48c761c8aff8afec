//! Containers of kernel routers.

use anyhow::Result;
use lxc::{Container, OrphanedContainer, Programs, Running, TimeLimits};

use super::{HostBackend, Remains};

impl HostBackend {
    /// Starts the container of a router.
    pub(super) fn start_container(&mut self, container: &Container) -> Result<Running> {
        (self.journal)(Remains::Container(&OrphanedContainer::new(&container.name, &self.folder)));
        Ok(Running::start(&Programs::default(), container, &self.folder, TimeLimits::default())?)
    }
}
