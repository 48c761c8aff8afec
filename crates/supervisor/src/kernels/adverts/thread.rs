//! Thread that sends the router advertisements of a run's kernel routers, and hears solicitations.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::io::Errno;

use super::interface::Interface;
use super::{Speaker, Speakers, now};
use crate::bell::Listener;

/// Pause after more solicitations than are heard at once. Meanwhile the socket drops those for which it has no room, so that a flood
/// costs little.
const BREATH: Duration = Duration::from_millis(10);

/// What the thread has.
pub(super) struct Thread {
    waits: Arc<OwnedFd>,
    listener: Listener<()>,
    speakers: Speakers,
}

impl Thread {
    pub(super) const fn new(waits: Arc<OwnedFd>, listener: Listener<()>, speakers: Speakers) -> Self {
        Self { waits, listener, speakers }
    }

    /// Serves all speakers until nobody can ring any more.
    pub(super) fn serve(self) {
        while self.wait() && self.is_wanted() {
            if self.turn() {
                sleep(BREATH);
            }
        }
    }

    /// Waits for a solicitation, the bell, or the next advertisement; returns false if that is not possible.
    fn wait(&self) -> bool {
        let timeout = self.deadline().map(|due| Duration::from_millis(due.saturating_sub(now())));
        let timeout = timeout.and_then(|left| Timespec::try_from(left).ok());
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
        matches!(epoll::wait(&*self.waits, &mut events, timeout.as_ref()), Ok(_) | Err(Errno::INTR))
    }

    /// Returns true unless the one that rings has gone.
    fn is_wanted(&self) -> bool {
        self.listener.quiet();
        loop {
            match self.listener.next() {
                Ok(Some(())) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Returns when the next advertisement is due.
    fn deadline(&self) -> Option<u64> {
        let speakers = self.speakers.lock();
        speakers.values().flat_map(|speaker| &speaker.interfaces).filter_map(Interface::deadline).min()
    }

    /// Lets each interface hear and speak; returns true if one of them has not heard all.
    fn turn(&self) -> bool {
        let mut speakers = self.speakers.lock();
        let all = speakers.values_mut().flat_map(|Speaker { interfaces, .. }| interfaces);
        all.fold(false, |is_busy, interface| interface.turn(now()) | is_busy)
    }
}
