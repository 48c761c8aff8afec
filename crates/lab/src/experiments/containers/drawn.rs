//! Topologies that the diagrams show: routers in rooms, with the set-ups of the other experiments.

use anyhow::Result;
use host::cores;

use super::Stand;
use crate::diagram::Seen;
use crate::experiment::Options;

/// A topology.
pub(crate) struct Drawing {
    /// Name in the figure files.
    pub(crate) name: &'static str,
    stand: Stand,
    routers: usize,
}

/// All topologies: seed paper 003, figures 1, 2, 3 and 9.
pub(crate) static ALL: [Drawing; 4] = [
    Drawing { name: "kvm-path", stand: Stand::MACVTAP, routers: 1 },
    Drawing { name: "lxc-path", stand: Stand::LXC_MACVLAN, routers: 1 },
    Drawing { name: "test-bed", stand: Stand::KERNEL_VETH, routers: 1 },
    Drawing { name: "isolation", stand: Stand::LXC_VETH, routers: 2 },
];

impl Drawing {
    /// Runs the routers, and calls `draw` with their file and with the interfaces and threads that exist. The routers have the
    /// paper's names there.
    ///
    /// # Errors
    /// The routers do not run, or `draw` fails.
    pub(crate) fn with_routers<T>(
        &self,
        options: &Options,
        draw: impl FnOnce(&str, &Seen) -> Result<T>,
    ) -> Result<T> {
        let (load, cpu) = (options.cpu(0)?, options.cpu(1)?);
        cores::pin(load)?;
        self.stand.with_routers(options, &vec![cpu; self.routers], |room| {
            let called = |router: usize| format!("vr{}", router + 1);
            let rename = |text: String, at| text.replace(&room.router(at), &called(at));
            let text = (0..self.routers).fold(room.text().to_owned(), rename);
            draw(&text, &room.seen(called)?)
        })
    }
}
