//! Which threads there are: the supervisor places them, and does what their schedule says.

use anyhow::Result;

use super::DataPlane;
use crate::link::ToSupervisor;

impl DataPlane {
    /// Tells the supervisor of the threads of routers, if they are others than before. To be called before it is told what
    /// they were started for, so that they are in their places by then.
    pub(super) fn tell_of_threads(&mut self) -> Result<()> {
        let own = self.instance.status().into_iter().flat_map(|status| status.threads);
        let relays = self.instance.relay_threads().flat_map(|(_, threads)| threads);
        let threads: Vec<_> = own.chain(relays).map(|(name, tid)| api::Thread { name, tid }).collect();
        if threads == self.told {
            return Ok(());
        }
        self.told = threads.clone();
        self.wire.say(&ToSupervisor::Threads { threads })
    }
}
