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
//!
//! A thread that polls in vain while others wait for its core starves those who have the work that it waits for. So it
//! looks at the clock meanwhile: where the scheduler has taken it off the core, it goes to sleep after a few empty polls,
//! for the next second. (It does not yield: Linux lets who yields often wait for as many slices of the others.)

mod company;
pub mod doze;

use company::Company;

/// Empty polls between two looks at the clock.
const POLLS_A_LOOK: u32 = 8;
/// Empty polls in a row after which a thread sleeps whose core others want: about what a burst takes, as its next
/// frames may be on their way.
const SHORT_SPIN: u32 = 64;

/// What a thread serves: one ring, or all of its rings and queues.
pub trait Party {
    /// Moves what can be moved; false if there was nothing.
    fn poll(&mut self) -> bool;

    /// Asks every ring for a notification, then looks at each again; true if there is news already. Must arm all
    /// of them, or return true.
    fn arm(&mut self) -> bool;

    /// Takes the wishes back: notifications are not wanted while polling.
    fn disarm(&mut self);

    /// Microseconds, roughly, since some moment; none for a party that always has its core for itself.
    fn now(&self) -> Option<u64> {
        None
    }

    /// There is nothing to do, others want this core, and this thread is never to sleep: lets them have it, where there
    /// is a way.
    fn give_way(&mut self) {
        core::hint::spin_loop();
    }
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
    company: Company,
    shared: bool,
}

impl Poller {
    /// A thread that arms and sleeps after `spin` empty polls in a row; `u32::MAX`: never.
    pub fn new(spin: u32) -> Self {
        // New rings want notifications.
        Self { spin, empty: 0, armed: true, company: Company::default(), shared: false }
    }

    /// Another budget of empty polls, from the next turn on.
    #[inline]
    pub fn set_spin(&mut self, spin: u32) {
        self.spin = spin;
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
            self.company.look_away();
            return Turn::Moved;
        }
        let spin = if self.shared { self.spin.min(SHORT_SPIN) } else { self.spin };
        if self.spin == u32::MAX || self.empty < spin {
            self.wait(party);
            return Turn::Empty;
        }
        self.rest(party, sleep)
    }

    /// A poll in vain, not the last one.
    #[inline]
    fn wait(&mut self, party: &mut impl Party) {
        self.empty = self.empty.wrapping_add(1);
        if self.empty.is_multiple_of(POLLS_A_LOOK)
            && let Some(now) = party.now()
        {
            self.shared = self.company.look(now);
        }
        if self.shared && self.spin == u32::MAX { party.give_way() } else { core::hint::spin_loop() }
    }

    #[cold]
    fn rest<P: Party>(&mut self, party: &mut P, sleep: impl FnOnce(&mut P)) -> Turn {
        self.empty = 0;
        self.armed = true;
        self.company.look_away();
        if party.arm() {
            return Turn::Stayed;
        }
        sleep(party);
        Turn::Slept
    }
}

#[cfg(test)]
mod tests;
