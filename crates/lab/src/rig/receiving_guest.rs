//! Rig with a guest that only receives.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bootinfo::{Role, TrafficInfo};
use config::Router;
use engine::{Guest, GuestTask};
use host::cores;
use port::{Null, Sink, pump};

use super::Mover;
use crate::device;
use crate::experiment::Options;
use crate::generator::Generator;
use crate::scenario::for_about;

/// Guest that only receives; see the module documentation.
pub(crate) struct ReceivingGuest {
    pub(crate) guest: Guest,
    /// Sink for the guest's frames.
    pub(crate) into: Arc<dyn Sink>,
    /// Transmit side, which carries no frames but keeps the interrupt timers.
    pub(crate) back: Mover,
}

impl ReceivingGuest {
    /// Starts the guest, and pins the calling thread, which feeds it, to the host's CPU.
    ///
    /// # Errors
    /// The guest does not start, or there is no such CPU.
    pub(crate) fn start(options: &Options, plan: &Router, duty: GuestTask, host: usize) -> Result<Self> {
        let mut guest = Guest::new(plan, duty, &device::backend(options)?)?;
        let into = guest.nics()[0].sink();
        let back = Mover::new(&guest.nics()[0], Arc::new(Null::default()));
        guest.start()?;
        cores::pin(host)?;
        Ok(Self { guest, into, back })
    }

    /// Starts an application that spends `work_ns` nanoseconds on each frame, behind its queue, with or without protection from
    /// receive livelock.
    ///
    /// # Errors
    /// As [`ReceivingGuest::start`].
    pub(crate) fn application(
        options: &Options,
        plan: &Router,
        (work_ns, is_protected): (u32, bool),
        host: usize,
    ) -> Result<Self> {
        let protected = u32::from(is_protected);
        let traffic = TrafficInfo { work_ns, queue_len: options.queue, protected, ..TrafficInfo::default() };
        Self::start(options, plan, GuestTask { role: Role::Application, traffic }, host)
    }

    /// Offers frames for about `length`.
    pub(crate) fn feed(&mut self, generator: &mut Generator, length: Duration) {
        for_about(length, 1, || {
            pump(generator, &*self.into);
            self.back.pump();
        });
    }
}
