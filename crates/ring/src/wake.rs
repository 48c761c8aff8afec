//! The common protocol by which a thread that serves rings goes to sleep and wakes up.
//!
//! ```text
//!          +--> poll all --- frames moved ---> (again)
//!          |       | no frames, `spin` times in a row
//!          |    arm all     request notifications, and poll each ring again
//!          |       | no work          \ work: do not sleep
//!          |     sleep                 |
//!          +-- disarm all  <-----------+
//! ```
//!
//! While a thread polls it declines notifications: one costs more than a burst of frames. It requests one only before
//! it sleeps; and because an event may arrive between its last poll and the request, it polls again after the request
//! (`split::notify` has the fences). The I/O threads of the host and the firmware use this protocol.
//!
//! A busy-polling thread that finds no work while other threads wait for its core starves the threads that produce the
//! work it waits for. So it detects preemption by reading the clock between empty polls: if the scheduler has taken it
//! off the core, it goes to sleep after a few empty polls, for the next second. (It does not call `sched_yield`: Linux
//! makes a thread that yields often wait for as many slices of the other threads.)

mod preemption;
pub mod sleep_flag;

use preemption::PreemptionDetector;

/// Empty polls between two reads of the clock.
const POLLS_A_LOOK: u32 = 8;
/// Empty polls in a row after which a thread on a shared core sleeps: about the duration of a burst, because its next
/// frames may be on their way.
const SHORT_SPIN: u32 = 64;

/// The rings that one thread serves: a single ring, or all of its rings and queues.
pub trait RingServer {
    /// Moves frames if there are any; returns false if there were none.
    fn poll(&mut self) -> bool;

    /// Requests a notification from every ring, then polls each again; returns true if one has work already. Must arm
    /// all rings, or return true.
    fn arm(&mut self) -> bool;

    /// Declines notifications, which are not wanted while polling.
    fn disarm(&mut self);

    /// Returns a clock in rough microseconds from an arbitrary origin; `None` for a party that always has its core to
    /// itself.
    fn now(&self) -> Option<u64> {
        None
    }

    /// Called if there is no work, other threads want this core, and this thread is configured never to sleep: yields
    /// the core to them, if there is a way.
    fn yield_core(&mut self) {
        core::hint::spin_loop();
    }
}

/// Outcome of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Frames moved.
    Moved,
    /// There was no work, but the budget of empty polls is not yet spent.
    Empty,
    /// Armed, but the second poll found work: did not sleep.
    Stayed,
    /// Slept, and was woken up.
    Slept,
}

/// State of one thread in the protocol.
#[derive(Clone, Debug)]
pub struct Poller {
    spin: u32,
    empty: u32,
    armed: bool,
    preemption: PreemptionDetector,
    shared: bool,
}

impl Poller {
    /// Creates the state of a thread that arms and sleeps after `spin` empty polls in a row; `u32::MAX`: never.
    pub fn new(spin: u32) -> Self {
        // Notifications of a new ring are enabled.
        Self { spin, empty: 0, armed: true, preemption: PreemptionDetector::default(), shared: false }
    }

    /// Changes the budget of empty polls, from the next turn on.
    #[inline]
    pub fn set_spin(&mut self, spin: u32) {
        self.spin = spin;
    }

    /// Runs one turn. `sleep` blocks until any of the party's rings notifies (or for another reason of the caller's);
    /// it must return at once if a notification arrived after the party was armed.
    #[inline]
    pub fn turn<P: RingServer>(&mut self, server: &mut P, sleep: impl FnOnce(&mut P)) -> Turn {
        if self.armed {
            self.armed = false;
            server.disarm();
        }
        if server.poll() {
            self.empty = 0;
            self.preemption.reset();
            return Turn::Moved;
        }
        let spin = if self.shared { self.spin.min(SHORT_SPIN) } else { self.spin };
        if self.spin == u32::MAX || self.empty < spin {
            self.wait(server);
            return Turn::Empty;
        }
        self.arm_and_sleep(server, sleep)
    }

    /// Handles an empty poll that is not the last of the budget.
    #[inline]
    fn wait(&mut self, server: &mut impl RingServer) {
        self.empty = self.empty.wrapping_add(1);
        if self.empty.is_multiple_of(POLLS_A_LOOK)
            && let Some(now) = server.now()
        {
            self.shared = self.preemption.record_poll(now);
        }
        if self.shared && self.spin == u32::MAX { server.yield_core() } else { core::hint::spin_loop() }
    }

    #[cold]
    fn arm_and_sleep<P: RingServer>(&mut self, server: &mut P, sleep: impl FnOnce(&mut P)) -> Turn {
        self.empty = 0;
        self.armed = true;
        self.preemption.reset();
        if server.arm() {
            return Turn::Stayed;
        }
        sleep(server);
        Turn::Slept
    }
}

#[cfg(test)]
mod tests;
