//! Attachments that a killed run may still hold for a moment.

use std::io::{self, ErrorKind};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use attach::{HostResource, NicRequirements};

/// Time limit for a killed process to close its TAPs and sockets after it has released its locks: some
/// milliseconds, but a TAP may wait for grace periods of the kernel, which on a busy host take a second each.
/// A program that never closes what is wanted delays each attempt by this time.
pub(crate) const LEFT_OVER: Duration = Duration::from_secs(3);
/// Time between two attempts.
const LOOK: Duration = Duration::from_millis(2);

/// Opens an attachment. It is retried while remains of a killed run, which has released its names already,
/// still hold it.
pub(super) fn open_patiently(wanted: &NicRequirements) -> Result<Option<Box<dyn HostResource>>> {
    let end = Instant::now() + LEFT_OVER;
    loop {
        match wanted.open() {
            Err(error) if is_in_use(&error) && Instant::now() < end => sleep(LOOK),
            opened => return opened,
        }
    }
}

fn is_in_use(error: &anyhow::Error) -> bool {
    use uplink::Error::{InUse, ProgramAttached, QueueTaken, Socket};
    let is_taken = |error: &io::Error| error.kind() == ErrorKind::AddrInUse;
    let is_known = |error: &uplink::Error| {
        matches!(error, InUse { .. } | ProgramAttached { .. } | QueueTaken { .. } | Socket { .. })
    };
    error.downcast_ref().is_some_and(is_known) || error.downcast_ref().is_some_and(is_taken)
}
