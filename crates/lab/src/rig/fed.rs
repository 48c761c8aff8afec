//! A guest that is fed and sends nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bootinfo::{Role, TrafficInfo};
use config::Router;
use engine::{Duty, Guest};
use host::cores;
use port::{Null, Sink, pump};

use super::Mover;
use crate::device;
use crate::experiment::Options;
use crate::generator::Generator;
use crate::scenario::for_about;

/// See the head of this file.
pub(crate) struct Fed {
    pub(crate) guest: Guest,
    /// Where its frames go in.
    pub(crate) into: Arc<dyn Sink>,
    /// What it sends, which is nothing: it keeps the time of interrupts.
    pub(crate) back: Mover,
}

impl Fed {
    /// Starts it, and keeps the calling thread, which feeds it, on the host's CPU from now on.
    ///
    /// # Errors
    /// The guest does not start, or there is no such CPU.
    pub(crate) fn start(options: &Options, plan: &Router, duty: Duty, host: usize) -> Result<Self> {
        let mut guest = Guest::new(plan, duty, &device::ground(options)?)?;
        let into = guest.nics()[0].sink();
        let back = Mover::new(&guest.nics()[0], Arc::new(Null::default()));
        guest.start()?;
        cores::pin(host)?;
        Ok(Self { guest, into, back })
    }

    /// Starts an application that spends so many nanoseconds on each frame, behind its queue, and is protected from receive livelock
    /// or not.
    ///
    /// # Errors
    /// As [`Fed::start`].
    pub(crate) fn application(
        options: &Options,
        plan: &Router,
        (work_ns, is_protected): (u32, bool),
        host: usize,
    ) -> Result<Self> {
        let protected = u32::from(is_protected);
        let traffic = TrafficInfo { work_ns, queue_len: options.queue, protected, ..TrafficInfo::default() };
        Self::start(options, plan, Duty { role: Role::Application, traffic }, host)
    }

    /// Offers frames for about so long.
    pub(crate) fn feed(&mut self, generator: &mut Generator, length: Duration) {
        for_about(length, 1, || {
            pump(generator, &*self.into);
            self.back.pump();
        });
    }
}
