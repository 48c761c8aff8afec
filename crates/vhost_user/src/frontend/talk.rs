//! The thread that speaks with a peer, and waits for it. Whoever gave it something to say keeps the time, and ends the wait by
//! shutting the socket down.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use nic_port::SetUp;
use vmm_sys_util::eventfd::EventFd;

use super::session::{Refused, Session};

/// What is to be said.
pub(super) enum Job {
    /// Begin.
    Greet(UnixStream),
    /// Hand over what the driver has set up, of which so many pairs are used.
    Start(Session, Arc<SetUp>, usize),
    /// Another number of pairs is used.
    Enable(Session, Arc<SetUp>, usize),
    /// Take it back.
    Stop(Session, Arc<SetUp>),
}

/// What came of it.
pub(super) enum Outcome {
    /// The conversation goes on.
    Said(Session),
    /// It has ended as it was meant to.
    Stopped,
    Refused(Refused),
}

impl Job {
    fn carry_out(self, calls: &[EventFd]) -> Outcome {
        let said = match self {
            Self::Greet(stream) => Session::greet(stream),
            Self::Start(mut session, set_up, pairs) => session.start(&set_up, pairs, calls).map(|()| session),
            Self::Enable(mut session, set_up, pairs) => session.enable(&set_up, pairs).map(|()| session),
            Self::Stop(session, set_up) => {
                // Gone is gone, in good order or not.
                let _ = session.stop(&set_up);
                return Outcome::Stopped;
            }
        };
        said.map_or_else(Outcome::Refused, Outcome::Said)
    }
}

/// Until nobody has anything more to say.
pub(super) fn talk(jobs: &Receiver<Job>, outcomes: &Sender<Outcome>, calls: &[EventFd], bell: &EventFd) {
    for job in jobs {
        let outcome = job.carry_out(calls);
        if outcomes.send(outcome).is_err() {
            return;
        }
        // The only error is a full counter, and then it is rung.
        let _ = bell.write(1);
    }
}
