//! Namespaces and NAPI threads of routers that forward in the host's kernel.

use std::path::Path;

use anyhow::{Context, Result};
use sched::account::Thread;
use uplink::Netns;

use super::links::{self, sides};
use super::{Link, RouterRun};
use crate::metric::usage;

/// Returns the configuration lines of a router with NAPI threads on this CPU. The threads have equal weights, and short slices
/// (docs/sched.md).
pub(crate) fn threaded(cpu: usize) -> String {
    format!("threaded = true\npin = {{ vhost = \"{cpu}\" }}\n")
}

/// Opens the namespace of a router of the command, which publishes it only in its own mount namespace.
pub(super) fn namespace(supervisor: u32, router: &str) -> Result<Netns> {
    // Root directory of the supervisor, with its mounts.
    let root = Path::new("/proc").join(supervisor.to_string()).join("root");
    let path = root.join("run/netns").join(router);
    Netns::open(path).with_context(|| format!("router {router} has no namespace"))
}

impl RouterRun {
    /// Makes the kernel process received frames of each router on the CPU that `cpu` returns (receive packet steering), as if a
    /// NIC's interrupts were served there.
    pub(crate) fn arrive_each(&self, cpu: impl Fn(usize) -> usize) -> Result<()> {
        // The kernel does not receive what it sends into a TAP.
        let routers = if self.link == Link::Tap { 0 } else { self.lanes.len() };
        for router in 0..routers {
            let [near, _] = sides(router);
            match self.inside.get(router).filter(|_| self.link != Link::Macvlan) {
                Some(inside) => links::steer(inside, &near, cpu(router))?,
                // A macvtap or macvlan gets its frames from its lower interface.
                None => links::steer(&self.netns, &format!("{near}0"), cpu(router))?,
            }
        }
        Ok(())
    }

    /// Lists the NAPI threads of the routers' interfaces; empty without threaded NAPI.
    pub(super) fn receiving(&self) -> Result<Vec<Thread>> {
        let routers = self.lanes.len();
        usage::of_napi(|interface| (0..routers).find(|at| sides(*at).iter().any(|side| side == interface)))
    }
}
