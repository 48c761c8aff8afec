//! Thread that exchanges messages with a peer, and blocks on it. The thread that gave it a job watches the
//! time, and ends the wait by shutting the socket down.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use nic_port::SetUp;
use vmm_sys_util::eventfd::EventFd;

use super::session::{Refused, Session};

/// Job for the messaging thread.
pub(super) enum Job {
    /// Start the session.
    Greet(UnixStream),
    /// Hand over what the driver has set up, with this many queue pairs in use.
    Start(Session, Arc<SetUp>, usize),
    /// Change the number of queue pairs in use.
    Enable(Session, Arc<SetUp>, usize),
    /// Take the rings back.
    Stop(Session, Arc<SetUp>),
}

/// Outcome of a job.
pub(super) enum Outcome {
    /// Done; the session continues.
    Said(Session),
    /// The session has ended as requested.
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
                // The peer is gone either way, in good order or not.
                let _ = session.stop(&set_up);
                return Outcome::Stopped;
            }
        };
        said.map_or_else(Outcome::Refused, Outcome::Said)
    }
}

/// Executes jobs until the sender is dropped.
pub(super) fn talk(jobs: &Receiver<Job>, outcomes: &Sender<Outcome>, calls: &[EventFd], bell: &EventFd) {
    for job in jobs {
        let outcome = job.carry_out(calls);
        if outcomes.send(outcome).is_err() {
            return;
        }
        // The only error is a full counter, and then it is signalled already.
        let _ = bell.write(1);
    }
}
