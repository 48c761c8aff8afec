//! Session with zebra as a state machine: octets in, changes of the route table out; when the kernel's table has to be dumped.
//!
//! ```text
//!  connected ---> Taking ---all routes fresh---> Whole <---.
//!     mark          |  ^                           |       | batches
//!                   |  '--- dump: stale ones stay -'-------'
//!  closed ------> Away (routes stay, forwarding goes on)
//! ```

use std::sync::Arc;

use crate::answer::Answers;
use crate::counters::FpmCounters;
use crate::decode::{Message, Refused, messages};
use crate::frames::{Broken, Frames};
use crate::rib::{Change, Rib};

/// Stage of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// zebra is not connected; its routes stay.
    Away,
    /// zebra has connected, and some routes of before were not sent again yet.
    Taking {
        /// Their number.
        stale: usize,
    },
    /// All routes are those of this connection.
    Whole,
}

/// Session with zebra.
#[derive(Default)]
pub struct Session {
    frames: Frames,
    rib: Rib,
    answers: Answers,
    counters: Arc<FpmCounters>,
    is_connected: bool,
    /// True if a dump of the kernel's table can tell more than the last one.
    is_dump_due: bool,
    /// True if routes are answered.
    is_answering: bool,
}

impl Session {
    /// Creates a session that answers each route if `is_answering`: FRR reads that from 8.5 on.
    pub fn new(is_answering: bool) -> Self {
        Self { is_answering, ..Self::default() }
    }

    /// Has the session count here, where others may read it.
    #[must_use]
    pub fn counted_by(self, counters: Arc<FpmCounters>) -> Self {
        Self { counters, ..self }
    }

    /// Has each route answered from now on, or none.
    pub fn set_answering(&mut self, is_answering: bool) {
        self.is_answering = is_answering;
    }

    /// zebra has connected: the whole table is on its way.
    pub fn connected(&mut self) {
        self.frames.clear();
        self.answers.clear();
        self.rib.mark();
        (self.is_connected, self.is_dump_due) = (true, true);
        self.counters.sessions.add(1);
    }

    /// The connection has ended.
    pub fn closed(&mut self) {
        self.frames.clear();
        self.answers.clear();
        self.is_connected = false;
    }

    /// Room for octets from zebra; state their number by [`Session::filled`].
    pub fn room(&mut self) -> &mut [u8] {
        self.frames.room()
    }

    /// States that the first `count` octets of the room were filled.
    pub fn filled(&mut self, count: usize) {
        self.frames.filled(count);
    }

    /// Takes the messages of all whole frames. A frame is never divided between batches.
    ///
    /// # Errors
    /// The octets are no FPM frames: close the connection. zebra connects again and sends everything.
    pub fn take(&mut self) -> Result<(), Broken> {
        loop {
            match self.frames.take() {
                Ok(Some(payload)) => {
                    let (rib, counters) = (&mut self.rib, &self.counters);
                    let answers = self.is_answering.then_some(&mut self.answers);
                    take_frame(payload, rib, counters, answers);
                }
                Ok(None) => return Ok(()),
                Err(broken) => {
                    self.counters.sessions_broken.add(1);
                    return Err(broken);
                }
            }
        }
    }

    /// Closes a batch: reports the changes to be published together.
    pub fn changes(&mut self, tell: &mut dyn FnMut(Change<'_>)) {
        self.counters.batches.add(1);
        self.rib.changes(tell);
    }

    /// The changes reported so far are published: their answers may be sent.
    pub fn published(&mut self) {
        self.answers.published();
    }

    /// Returns true if the kernel's table has to be dumped now: zebra has nothing more to say for the moment, and some of its
    /// routes are stale. Call it when the socket has been read empty. Feed the dump to [`Rib::seen_in_kernel`], and end it by
    /// [`Session::dumped`].
    pub fn wants_dump(&self) -> bool {
        self.is_connected && self.is_dump_due && self.rib.stale() > 0
    }

    /// Ends a dump: stale routes that it lacks are removed if it was `whole`. Otherwise it stays due.
    pub fn dumped(&mut self, whole: bool) {
        self.is_dump_due &= !whole;
        self.counters.swept.add(self.rib.sweep(whole) as u64);
    }

    /// A route of zebra has disappeared from the kernel's table: a dump will tell more than the last one. That is how the end
    /// of zebra's own time for stale routes (`-K`) becomes known.
    pub fn kernel_changed(&mut self) {
        self.is_dump_due = true;
    }

    /// Stage of the session.
    pub fn stage(&self) -> Stage {
        match (self.is_connected, self.rib.stale()) {
            (false, _) => Stage::Away,
            (true, 0) => Stage::Whole,
            (true, stale) => Stage::Taking { stale },
        }
    }

    /// Answers to zebra.
    pub fn answers(&mut self) -> &mut Answers {
        &mut self.answers
    }

    /// Returns true if answers are to be sent.
    pub fn has_answers(&self) -> bool {
        !self.answers.waiting().is_empty()
    }

    /// Routes.
    pub const fn rib(&self) -> &Rib {
        &self.rib
    }

    /// Routes, for what the kernel and BFD report.
    pub const fn rib_mut(&mut self) -> &mut Rib {
        &mut self.rib
    }

    /// Counters.
    pub fn counters(&self) -> &FpmCounters {
        &self.counters
    }
}

fn take_frame(payload: &[u8], rib: &mut Rib, counters: &FpmCounters, mut answers: Option<&mut Answers>) {
    counters.frames.add(1);
    for message in messages(payload) {
        counters.messages.add(1);
        let taken = message.and_then(|(message, octets)| {
            rib.take(&message)?;
            if let Message::Route(route) = &message
                && rib.lacks_group(route)
            {
                counters.group_unknown.add(1);
            }
            if let Some(answers) = &mut answers {
                answers.prepare(&message, octets);
            }
            Ok(message)
        });
        count(taken, counters);
    }
}

fn count(taken: Result<Message<'_>, Refused>, counters: &FpmCounters) {
    let counter = match taken {
        Ok(Message::Route(_)) => &counters.routes_added,
        Ok(Message::NoRoute(_)) => &counters.routes_deleted,
        Ok(Message::Group(_)) => &counters.groups_added,
        Ok(Message::NoGroup(_)) => &counters.groups_deleted,
        Ok(Message::Other(_)) => &counters.other,
        Err(Refused::Malformed) => &counters.refused_malformed,
        Err(Refused::Encapsulation) => &counters.refused_encapsulation,
        Err(Refused::Source) => &counters.refused_source,
        Err(Refused::Family) => &counters.refused_family,
        Err(Refused::Hops) => &counters.refused_hops,
        Err(Refused::Bridge) => &counters.refused_bridge,
        Err(Refused::Room) => &counters.refused_room,
    };
    counter.add(1);
}

#[cfg(test)]
mod tests;
