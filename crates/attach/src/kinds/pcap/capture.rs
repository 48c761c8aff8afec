//! Writing of a capture file.
//!
//! As for a recording, the capture's own thread writes frames to the file, and is the only one that waits if
//! the file is slow. Frames that find no room meanwhile are counted (`pcap.drop_full`).

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use port::pcap::{Limits, Pcap};
use port::tap_point::TapPoint;
use port::{Null, Sink};
use sandbox::Confinement;
use threads::Thread;

use crate::slow_file::{Capture, SlowFileWriter, write_out};

/// Interval between writes to the file. Ten a second cost an idle host next to nothing.
const WRITE: Duration = Duration::from_millis(100);

/// Creates a capture into this file, the port that fills it, and the thread `NAME-capture` that writes frames
/// to the file.
pub(crate) fn into(
    name: &str,
    file: File,
    confinement: Confinement,
) -> Result<(Arc<dyn Sink>, Capture, Writer)> {
    let stop = Arc::<AtomicBool>::default();
    let (port, capture) = within(file, &stop, Limits::default())?;
    let thread = write_out(&format!("{name}-capture"), &capture, (WRITE, &stop), confinement)?;
    Ok((port, capture, Writer { thread, stop }))
}

/// Creates a capture within these limits, and the port that fills it.
fn within(file: File, stop: &Arc<AtomicBool>, limits: Limits) -> Result<(Arc<dyn Sink>, Capture)> {
    let file = SlowFileWriter::new(file, stop.clone()).context("a capture into what cannot be looked at")?;
    let capture = Pcap::new(file, limits);
    let port = TapPoint::new(Arc::new(Null::new()));
    port.enable(Box::new(capture.clone()));
    Ok((Arc::new(port), capture))
}

/// Thread that writes frames to a file. Dropping it writes the remaining frames, and waits for that for at
/// most 20 s ([`Thread::join`]): so it is dropped where that delays nobody else.
pub(crate) struct Writer {
    thread: Thread,
    stop: Arc<AtomicBool>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.join();
    }
}

#[cfg(test)]
mod tests;
