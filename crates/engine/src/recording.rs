//! `capture`: what passes a NIC, in both directions, into a file that somebody else has opened.
//!
//! The threads that move frames only copy them into a bounded buffer ([`Pcap`]). A thread of the recording's own takes them to
//! the file, and is the only one to wait where that is slow: then frames are missed, which is counted, and nothing else.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use api::CaptureEnd;
use attach::{Capture, Patient, write_out};
use port::TapPoint;
use port::pcap::{Limits, Pcap};
use sandbox::Confinement;
use threads::Thread;

use crate::tracing::TapBoard;

/// Most frames and octets of a frame.
const SNAP: std::ops::RangeInclusive<u32> = 14..=65_535;
/// Between two times that frames are taken to the file.
const WRITE: Duration = Duration::from_millis(20);
/// How long the file may take for the last frames.
const LAST: Duration = Duration::from_secs(5);

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordingOrder {
    /// Name of the router.
    pub router: String,
    /// Name of its NIC.
    pub nic: String,
    /// End after so many frames.
    pub count: Option<u64>,
    /// End after this time.
    pub time: Option<Duration>,
    /// Octets of each frame that are kept.
    pub snap: u32,
}

/// A recording. Dropping it ends it; what it has is still written, without anybody waiting for that.
pub struct Recording {
    order: RecordingOrder,
    board: TapBoard,
    capture: Capture,
    points: Vec<Arc<TapPoint>>,
    stop: Arc<AtomicBool>,
    writer: Thread,
    begun: Instant,
    /// When it was over; the last frames may still be on their way to the file.
    over: Option<Instant>,
}

impl Recording {
    /// Begins to record into `file`, whose other end may be slow or full.
    ///
    /// # Errors
    /// One line: nothing passes that NIC, it is recorded already, or a bound is overstepped.
    pub fn start(
        board: &TapBoard,
        order: RecordingOrder,
        file: File,
        confinement: Confinement,
    ) -> Result<Self> {
        ensure!(SNAP.contains(&order.snap), "a capture keeps 14 to 65535 octets of a frame");
        ensure!(order.count != Some(0), "a capture of no frames; write a count from 1");
        let RecordingOrder { router, nic, .. } = &order;
        let limits =
            Limits { snaplen: order.snap, most: order.count.unwrap_or(u64::MAX), ..Limits::default() };
        let stop = Arc::<AtomicBool>::default();
        let capture = Pcap::new(Patient::new(file, stop.clone())?, limits);
        let points = board.ends_of(router, nic);
        if points.is_empty() {
            bail!("nothing passes {router}.{nic} here: it does not run, or its rings are served elsewhere");
        }
        // It is not waited for: a file may take for ever.
        let writer = write_out("ringroad/capture", &capture, (WRITE, &stop), confinement)?;
        let mut recording = Self {
            order,
            board: board.clone(),
            capture,
            points: Vec::new(),
            stop,
            writer,
            begun: Instant::now(),
            over: None,
        };
        let RecordingOrder { router, nic, .. } = &recording.order;
        ensure!(
            recording.points_are_ours(&points),
            "{router}.{nic} is being captured already: one at a time"
        );
        recording.points = points;
        Ok(recording)
    }

    /// Takes a seat at all of these, or at none.
    fn points_are_ours(&self, points: &[Arc<TapPoint>]) -> bool {
        let taken = points.iter().position(|point| !point.record(Box::new(self.capture.clone())));
        for point in points.iter().take(taken.unwrap_or(0)) {
            point.stop_recording();
        }
        taken.is_none()
    }

    /// To be called about ten times a second, until it brings the end. A router that was started anew is recorded on.
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
        // What nobody else has any more, frames do not pass.
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
        // What waits now nobody takes to the file any more.
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

#[cfg(test)]
mod tests;
