//! The one protocol by which a thread that serves rings goes to sleep and wakes up.
//!
//! ```text
//!          +--> poll all --- something moved ---> (again)
//!          |       | nothing, `spin` times in a row
//!          |    arm all     "notify me of news", and each looks again
//!          |       | nothing          \ news: do not sleep
//!          |     sleep                 |
//!          +-- disarm all  <-----------+
//! ```
//!
//! While a thread polls it wants no notification: one costs more than a burst of frames. It asks for one only before
//! it sleeps; and because news may come between its last look and its wish, it looks again after the wish
//! (`split::notify` has the fences). The same protocol serves the I/O threads of the host and the firmware.

/// What a thread serves: one ring, or all of its rings and queues.
pub trait Party {
    /// Moves what can be moved; false if there was nothing.
    fn poll(&mut self) -> bool;

    /// Asks every ring for a notification, then looks at each again; true if there is news already. Must arm all
    /// of them, or return true.
    fn arm(&mut self) -> bool;

    /// Takes the wishes back: notifications are not wanted while polling.
    fn disarm(&mut self);
}

/// What one turn did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something moved.
    Moved,
    /// Nothing to do, but the budget of empty polls is not yet spent.
    Empty,
    /// Armed, but the second look found news: did not sleep.
    Stayed,
    /// Slept, and was woken.
    Slept,
}

/// The state of one thread in the protocol.
#[derive(Clone, Debug)]
pub struct Poller {
    spin: u32,
    empty: u32,
    armed: bool,
}

impl Poller {
    /// A thread that arms and sleeps after `spin` empty polls in a row; `u32::MAX`: never.
    pub const fn new(spin: u32) -> Self {
        // New rings want notifications.
        Self { spin, empty: 0, armed: true }
    }

    /// One turn. `sleep` blocks until any of the party's rings notifies (or for any other reason the caller has); it
    /// must return at once if a notification came after the party was armed.
    #[inline]
    pub fn turn<P: Party>(&mut self, party: &mut P, sleep: impl FnOnce(&mut P)) -> Turn {
        if self.armed {
            self.armed = false;
            party.disarm();
        }
        if party.poll() {
            self.empty = 0;
            return Turn::Moved;
        }
        if self.spin == u32::MAX || self.empty < self.spin {
            self.empty = self.empty.saturating_add(1);
            core::hint::spin_loop();
            return Turn::Empty;
        }
        self.rest(party, sleep)
    }

    #[cold]
    fn rest<P: Party>(&mut self, party: &mut P, sleep: impl FnOnce(&mut P)) -> Turn {
        self.empty = 0;
        self.armed = true;
        if party.arm() {
            return Turn::Stayed;
        }
        sleep(party);
        Turn::Slept
    }
}

#[cfg(test)]
mod tests;
