//! Namespaces and NAPI threads of routers whose packets the host's kernel forwards.

use std::path::Path;

use anyhow::{Context, Result};
use sched::account::Thread;
use uplink::Netns;

use super::links::{self, sides};
use super::{Link, RouterRun};
use crate::metric::usage;

/// The lines of a router for whose interfaces the kernel receives in NAPI threads on this CPU. They have equal weights, and short slices
/// as docs/sched.md says.
pub(crate) fn threaded(cpu: usize) -> String {
    format!("threaded = true\npin = {{ vhost = \"{cpu}\" }}\n")
}

/// The namespace of a router of the command. The command publishes it in its own mount namespace only.
pub(super) fn namespace(supervisor: u32, router: &str) -> Result<Netns> {
    // What this process sees as its root, with its own mounts.
    let root = Path::new("/proc").join(supervisor.to_string()).join("root");
    let path = root.join("run/netns").join(router);
    Netns::open(path).with_context(|| format!("router {router} has no namespace"))
}

impl RouterRun {
    /// Makes the kernel receive for each router on the CPU that `cpu` gives (receive packet steering), as if it served a NIC's
    /// interrupts there.
    pub(crate) fn arrive_each(&self, cpu: impl Fn(usize) -> usize) -> Result<()> {
        for router in 0..self.lanes.len() {
            let [near, _] = sides(router);
            match self.inside.get(router).filter(|_| self.link != Link::Macvlan) {
                Some(inside) => links::steer(inside, &near, cpu(router))?,
                // A macvtap or macvlan gets its frames from the interface below it.
                None => links::steer(&self.netns, &format!("{near}0"), cpu(router))?,
            }
        }
        Ok(())
    }

    /// The NAPI threads of the routers' interfaces; empty without threaded NAPI.
    pub(super) fn receiving(&self) -> Result<Vec<Thread>> {
        let routers = self.lanes.len();
        usage::of_napi(|interface| (0..routers).find(|at| sides(*at).iter().any(|side| side == interface)))
    }
}
