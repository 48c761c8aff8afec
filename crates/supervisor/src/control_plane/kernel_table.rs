//! Routes of a kernel router. Its kernel forwards by them, so changes are not passed on: routes are read when a client asks.

use std::io;
use std::time::{Duration, Instant};

use fpm::Rib;
use netlink::{Netlink, Route};
use rustix::io::Errno;

use super::settle::unless;

/// Milliseconds for which what was read stays there for the next page of a list.
const KEPT: u64 = 10_000;
/// Longest time for removing routes.
const LONGEST: Duration = Duration::from_secs(10);
/// Most attempts to read a table that changes meanwhile.
const ATTEMPTS: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct KernelTable {
    read: Option<Read>,
}

/// What was read.
struct Read {
    rib: Rib,
    /// When nobody needs it any more, in milliseconds.
    until: u64,
}

impl KernelTable {
    /// Routes of the kernel, by which packets go now; `is_next`: as they were for the page before.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn rib(&mut self, kernel: &Netlink, is_next: bool, now: u64) -> io::Result<&Rib> {
        let read = match self.read.take().filter(|_| is_next) {
            Some(read) => Read { until: now + KEPT, ..read },
            None => Read { rib: read(kernel)?, until: now + KEPT },
        };
        Ok(&self.read.insert(read).rib)
    }

    /// When there is something to forget, in milliseconds.
    pub(super) fn due(&self) -> Option<u64> {
        self.read.as_ref().map(|read| read.until)
    }

    /// Forgets what nobody has asked for in a while.
    pub(super) fn forget(&mut self, now: u64) {
        if self.read.as_ref().is_some_and(|read| read.until <= now) {
            self.read = None;
        }
    }
}

/// Removes the routes that FRR has left in the kernel.
///
/// # Errors
/// The kernel refuses, or it takes too long.
pub(super) fn remove_zebras(kernel: &Netlink) -> io::Result<()> {
    let (mut left, end) = (Vec::new(), Instant::now() + LONGEST);
    kernel.each::<Route>(&mut |route| left.extend(Some(route).filter(fpm::is_zebras)))?;
    for route in left {
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // One with several next hops, or with a next-hop object, is named without them.
        unless(kernel.remove_route(&Route { next_hops: Vec::new(), ..route }), Errno::SRCH)?;
    }
    Ok(())
}

/// Reads all routes. A table that changes all the time is taken as it was read last: it may lack some.
fn read(kernel: &Netlink) -> io::Result<Rib> {
    let mut rib = Rib::default();
    for _ in 0..ATTEMPTS {
        rib = Rib::default();
        if kernel.each::<Route>(&mut |route| rib.add_any(&route))? {
            break;
        }
    }
    rib.changes(&mut |_| {});
    Ok(rib)
}
