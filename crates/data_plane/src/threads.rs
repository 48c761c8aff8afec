//! Reports of the routers' threads: the supervisor places and schedules them.

use anyhow::Result;
use link::ToSupervisor;

use super::DataPlane;

impl DataPlane {
    /// Reports the threads of routers to the supervisor, if they have changed. Call it before the reply to
    /// the order that started them, so that they are placed by then.
    pub(super) fn tell_of_threads(&mut self, threads: Vec<api::Thread>) -> Result<()> {
        if threads == self.told {
            return Ok(());
        }
        self.told = threads.clone();
        self.wire.say(&ToSupervisor::Threads { threads })
    }
}
