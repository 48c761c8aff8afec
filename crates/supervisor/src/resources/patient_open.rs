//! Attachments that a killed run may still hold for a moment.

use std::io::{self, ErrorKind};

use anyhow::Result;
use attach::{HostResource, NicRequirements};

use crate::remains;

/// Opens an attachment. It is retried while remains of a killed run, which has released its names already,
/// still hold it.
pub(super) fn open_patiently(wanted: &NicRequirements) -> Result<Option<Box<dyn HostResource>>> {
    let mut waits = remains::patience();
    loop {
        match wanted.open() {
            Err(error) if is_in_use(&error) && waits() => {}
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
