//! Which threads there are: the supervisor places them, and does what their schedule says.

use anyhow::Result;
use link::ToSupervisor;

use super::DataPlane;

impl DataPlane {
    /// Tells the supervisor of the threads of routers, if they are others than before. To be called before it is told what
    /// they were started for, so that they are in their places by then.
    pub(super) fn tell_of_threads(&mut self, threads: Vec<api::Thread>) -> Result<()> {
        if threads == self.told {
            return Ok(());
        }
        self.told = threads.clone();
        self.wire.say(&ToSupervisor::Threads { threads })
    }
}
