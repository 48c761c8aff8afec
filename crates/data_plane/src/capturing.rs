//! Captures requested by clients.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::{Answer, Request};
use attach::close_apart;
use engine::{Confinement, Recording, RecordingOrder};

use super::DataPlane;

/// Most simultaneous captures.
const MOST: usize = 16;

/// A capture, and the request that it answers.
pub(super) struct Capturing {
    id: u64,
    recording: Recording,
}

impl DataPlane {
    /// Begins a capture, or replies why it is impossible.
    pub(super) fn begin_capture(
        &mut self,
        id: u64,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<()> {
        match self.try_capture(request, descriptors) {
            Ok(recording) => {
                self.captures.push(Capturing { id, recording });
                Ok(())
            }
            Err(error) => self.tell(id, Err(api::Error::new(format!("{error:#}")))),
        }
    }

    fn try_capture(&self, request: Request, descriptors: Vec<OwnedFd>) -> Result<Recording> {
        let Request::Capture { router, nic, count, timeout_ms, snap } = request else {
            anyhow::bail!("this is no request to capture");
        };
        let file = descriptors.into_iter().next().context("no file came with the request")?;
        if let Err(why) = self.may_capture(&router, &nic) {
            close_apart(file, Confinement::On);
            return Err(why);
        }
        let time = timeout_ms.map(Duration::from_millis);
        let order = RecordingOrder { router, nic, count, time, snap };
        Recording::start(self.instance.board(), order, file.into(), Confinement::On)
    }

    fn may_capture(&self, router: &str, nic: &str) -> Result<()> {
        self.planned_nic(router, nic)?;
        ensure!(self.captures.len() < MOST, "there are {MOST} captures in this run already: end one");
        Ok(())
    }

    /// Ends captures that are done.
    pub(super) fn go_on_capturing(&mut self) -> Result<()> {
        for mut capture in std::mem::take(&mut self.captures) {
            match capture.recording.look_after() {
                Some(end) => self.tell(capture.id, Ok(Answer::Captured(end)))?,
                None => self.captures.push(capture),
            }
        }
        Ok(())
    }

    /// Drops a capture whose client has left.
    pub(super) fn forget_capture(&mut self, id: u64) {
        self.captures.retain(|capture| capture.id != id);
    }
}
