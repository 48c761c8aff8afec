//! `capture`: records the frames that pass a NIC, in both directions, into a file that the caller has opened.
//!
//! The threads that move frames only copy them into a bounded buffer ([`Pcap`]). The recording's own thread
//! empties the file and writes them to it, and is the only one that waits if the file is slow: then frames are
//! missed and counted, without any other effect. The file of a recording that is refused is closed by a thread
//! of its own, because that may take as long.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use api::CaptureEnd;
use attach::{Capture, SlowFileWriter, close_apart, empty_and_write_out};
use port::TapPoint;
use port::pcap::{Limits, Pcap};
use sandbox::Confinement;
use threads::Thread;

use crate::tracing::TapBoard;

/// Permitted snap lengths, in octets of a frame.
const SNAP: std::ops::RangeInclusive<u32> = 14..=65_535;
/// Interval between writes to the file.
const WRITE: Duration = Duration::from_millis(20);
/// Time limit for writing the last frames to the file.
const LAST: Duration = Duration::from_secs(5);

/// Parameters of a recording.
#[derive(Clone, Debug)]
pub struct RecordingOrder {
    /// Name of the router.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// Maximum number of frames.
    pub count: Option<u64>,
    /// Maximum duration.
    pub time: Option<Duration>,
    /// Snap length: octets kept of each frame.
    pub snap: u32,
}

/// A recording. Dropping it ends it; frames captured so far are still written, in the background.
pub struct Recording {
    order: RecordingOrder,
    board: TapBoard,
    capture: Capture,
    points: Vec<Arc<TapPoint>>,
    stop: Arc<AtomicBool>,
    writer: Thread,
    begun: Instant,
    /// When recording ended; the last frames may not have been written to the file yet.
    over: Option<Instant>,
}

impl Recording {
    /// Begins to record into `file`, whose reader may be slow, or which may be full. What the file contained is lost.
    /// Does not wait for the file.
    ///
    /// # Errors
    /// One line: no frames pass that NIC, it is recorded already, or a parameter is out of range. Then the file is unchanged.
    pub fn start(
        board: &TapBoard,
        order: RecordingOrder,
        file: File,
        confinement: Confinement,
    ) -> Result<Self> {
        let limits =
            Limits { snaplen: order.snap, most: order.count.unwrap_or(u64::MAX), ..Limits::default() };
        let stop = Arc::<AtomicBool>::default();
        let capture = Pcap::new(SlowFileWriter::new(file, stop.clone())?, limits);
        let begun = Self::begin(board, order, (&capture, stop), confinement);
        if begun.is_err() {
            close_apart(capture, confinement);
        }
        begun
    }

    fn begin(
        board: &TapBoard,
        order: RecordingOrder,
        (capture, stop): (&Capture, Arc<AtomicBool>),
        confinement: Confinement,
    ) -> Result<Self> {
        ensure!(SNAP.contains(&order.snap), "a capture keeps 14 to 65535 octets of a frame");
        ensure!(order.count != Some(0), "a capture of no frames; write a count from 1");
        let RecordingOrder { router, nic, .. } = &order;
        let points = board.ends_of(router, nic);
        if points.is_empty() {
            bail!("nothing passes {router}.{nic} here: it does not run, or its rings are served elsewhere");
        }
        ensure!(points_are_ours(&points, capture), "{router}.{nic} is being captured already: one at a time");
        // The writer is not waited for: a write to the file may block indefinitely.
        let writer = empty_and_write_out("ringroad/capture", capture, (WRITE, &stop), confinement);
        if writer.is_err() {
            points.iter().for_each(|point| drop(point.stop_recording()));
        }
        let (board, capture, writer) = (board.clone(), capture.clone(), writer?);
        Ok(Self { order, board, capture, points, stop, writer, begun: Instant::now(), over: None })
    }

    /// To be called about ten times a second, until it returns the end. The recording continues when its
    /// router is restarted.
    pub fn look_after(&mut self) -> Option<CaptureEnd> {
        if self.over.is_none() {
            self.follow();
            let late = self.order.time.is_some_and(|time| self.begun.elapsed() >= time);
            if late || self.capture.is_complete() || self.capture.has_failed() {
                self.finish();
            }
        }
        let over = self.over?;
        (self.writer.is_finished() || over.elapsed() >= LAST).then(|| self.end(over))
    }

    fn follow(&mut self) {
        for point in self.board.ends_of(&self.order.router, &self.order.nic) {
            let known = self.points.iter().any(|known| Arc::ptr_eq(known, &point));
            if !known && point.record(Box::new(self.capture.clone())) {
                self.points.push(point);
            }
        }
        // A tap point with no other owner is passed by no frames any more.
        self.points.retain(|point| Arc::strong_count(point) > 1);
    }

    fn finish(&mut self) {
        self.over = Some(Instant::now());
        for point in self.points.drain(..) {
            point.stop_recording();
        }
        self.stop.store(true, Ordering::Release);
    }

    fn end(&self, over: Instant) -> CaptureEnd {
        let counters = self.capture.counters();
        // Frames still buffered now will not be written any more.
        let waiting = self.capture.waiting();
        CaptureEnd {
            captured: counters.captured.get(),
            missed: counters.drop_full.get() + counters.drop_failed.get() + waiting,
            complete: self.writer.is_finished() && !self.capture.has_failed(),
            ran_ns: over.saturating_duration_since(self.begun).as_nanos() as u64,
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.over.is_none() {
            self.finish();
        }
    }
}

/// Registers a capture at all of these tap points, or at none.
fn points_are_ours(points: &[Arc<TapPoint>], capture: &Capture) -> bool {
    let taken = points.iter().position(|point| !point.record(Box::new(capture.clone())));
    for point in points.iter().take(taken.unwrap_or(0)) {
        point.stop_recording();
    }
    taken.is_none()
}

#[cfg(test)]
mod tests;
