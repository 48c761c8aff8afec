//! Thread that serves the peers of one port.

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use door::{Door, process_at};
use nic_port::NicQueues;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use sandbox::{Class, Confinement};
use signals::interrupt::END_LIMIT;
use threads::Thread;

use super::message::{MessageStream, ReadResult};
use super::session::Refused;
use super::{Fault, Offer, Session};

/// Interval between two checks of a peer's health, and time limit for the rest of a message.
const LOOK: Duration = Duration::from_millis(100);
const STUCK: Duration = Duration::from_secs(5);
/// Interval between two attempts to accept a peer.
const KNOCK: Duration = Duration::from_millis(200);
/// Pause after the first connection that we ended, and longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Time after which a healthy peer resets the pause.
const SOUND: Duration = Duration::from_secs(10);
/// Maximum number of unreported events.
const MOST_LINES: usize = 16;
/// State of a port whose peer is being served.
const SERVED: &str = "a peer is served";

/// Event at a port for peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Service of a peer's rings has begun; with its process ID, if known.
    Served(Option<i32>),
    /// The peer has closed the connection in good order.
    Gone,
    /// The peer was disconnected because it broke a rule; with one line that says which.
    Fault(String),
    /// No peer can be accepted at the moment, which is no fault of a peer; with one line that says why.
    CannotAccept(String),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Served(_) => SERVED,
            Self::Gone => "the peer is gone",
            Self::Fault(line) | Self::CannotAccept(line) => line,
        })
    }
}

/// A port for vhost-user peers.
pub struct Backend {
    queues: Arc<NicQueues>,
    shared: Arc<Shared>,
    thread: Thread,
}

struct Shared {
    stop: OwnedFd,
    stopped: AtomicBool,
    up: AtomicBool,
    news: Mutex<VecDeque<News>>,
}

impl Backend {
    /// Begins to accept peers at a door, in a thread of this name.
    ///
    /// # Errors
    /// No descriptors are left, or no thread can be started.
    pub fn start(name: &str, door: Door, offer: Offer, confinement: Confinement) -> Result<Self> {
        let queues = NicQueues::foreign(offer.pairs)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .context("cannot make an event descriptor")?;
        let shared = Arc::new(Shared {
            stop,
            stopped: AtomicBool::new(false),
            up: AtomicBool::new(false),
            news: Mutex::default(),
        });
        let mut host = PeerServer {
            door,
            offer,
            queues: queues.clone(),
            shared: shared.clone(),
            pause: FIRST_PAUSE,
            told: None,
        };
        let thread = Thread::spawn(name, &[], Class::Backend, confinement, move || host.serve())?;
        Ok(Self { queues, shared, thread })
    }

    /// Returns the peer's queues: its receive queues are a sink for frames, its transmit queues a source.
    pub fn queues(&self) -> &Arc<NicQueues> {
        &self.queues
    }

    /// Returns true if a peer is being served.
    pub fn is_up(&self) -> bool {
        self.shared.up.load(Ordering::Acquire)
    }

    /// Describes the state in one line.
    pub fn state(&self) -> String {
        if self.is_up() { SERVED } else { "no peer is there" }.to_owned()
    }

    /// Returns the next unreported event. To be called about ten times a second: this also releases our
    /// threads that are blocked in event descriptors of the peer. Never blocks itself.
    pub fn look_after(&self) -> Option<News> {
        self.queues.interrupt_blocked_writers();
        self.shared.news.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // A full counter is signalled already.
        let _ = rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes());
        // It may be blocked in an event descriptor of the peer, and a thread that has locked the queue in
        // another one.
        Thread::urge_all([&mut self.thread], END_LIMIT, |_, _| self.queues.interrupt_blocked_writers());
    }
}

/// The last time at which a peer was between two messages.
struct Progress(Instant);

impl Progress {
    /// Returns true if it is stuck; `is_within` tells whether it is within a message at this time.
    fn is_stuck(&mut self, now: Instant, is_within: bool) -> bool {
        if !is_within {
            self.0 = now;
        }
        now.saturating_duration_since(self.0) > STUCK
    }
}

/// Returns the time until the next look, about [`LOOK`]. It is unpredictable, because it depends on the exact
/// time of the last look, in nanoseconds, which the peer does not know: a peer that blocks our threads cannot
/// release them just for the looks. (The control thread looks at predictable times.)
fn until_next_look(at: Duration) -> Duration {
    // Fibonacci hashing: the upper bits depend on the lowest ones.
    let spread = (at.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    LOOK / 2 + LOOK.mul_f64(spread as f64 / f64::from(1 << 16))
}

/// Returns the pause after a peer has closed the connection. If we have made it and the peer was never
/// served, it may close the next one as well, and the process that connects for us has other tasks.
const fn pause_after_end(was_served: bool, listens: bool) -> Duration {
    if was_served || listens { Duration::ZERO } else { KNOCK }
}

/// Serves one peer after the other.
struct PeerServer {
    door: Door,
    offer: Offer,
    queues: Arc<NicQueues>,
    shared: Arc<Shared>,
    /// Pause after the next connection that we have to end.
    pause: Duration,
    /// Reported reason why no peer can be accepted.
    told: Option<String>,
}

/// Reason why a connection ended.
enum End {
    /// The port is to stop.
    Asked,
    /// The peer has closed it.
    Gone,
    /// We have closed it.
    Fault(Fault),
}

impl PeerServer {
    fn serve(&mut self) {
        while !self.is_stopped() {
            let Some(socket) = self.meet() else { continue };
            let since = Instant::now();
            let mut session = Session::new(self.queues.clone(), self.offer);
            let end = self.talk(socket, &mut session, since);
            drop(session);
            let was_served = self.shared.up.swap(false, Ordering::AcqRel);
            match end {
                End::Asked => return,
                End::Gone => {
                    // Also if it has taken its rings back before.
                    if was_served {
                        self.tell(News::Gone);
                    }
                    self.wait(None, pause_after_end(was_served, self.door.listens()));
                }
                End::Fault(fault) => self.send_away(&fault, since.elapsed()),
            }
        }
    }

    /// Waits for a peer; returns `None` after a while, or when the port is to stop.
    fn meet(&mut self) -> Option<UnixStream> {
        let asked = self.door.request();
        let met = match asked {
            Ok(()) => {
                self.wait(Some(self.door.bell()), KNOCK);
                self.door.accept()
            }
            Err(error) => Err(error),
        };
        match met {
            Ok(peer) => {
                self.told = self.told.take().filter(|_| peer.is_none());
                peer
            }
            Err(error) => {
                self.cannot(&error);
                None
            }
        }
    }

    /// Reports that no peer can be accepted at the moment, once for each reason.
    fn cannot(&mut self, error: &std::io::Error) {
        let line = format!("no peer at {}: {error}; it is tried again", self.door.path().display());
        if self.told.as_ref() != Some(&line) {
            self.tell(News::CannotAccept(line.clone()));
            self.told = Some(line);
        }
        self.wait(None, KNOCK);
    }

    /// Handles the peer's requests until it closes the connection, causes a fault, or the port is to stop.
    fn talk(&mut self, socket: UnixStream, session: &mut Session, since: Instant) -> End {
        let process = process_at(&socket);
        let mut line = MessageStream::new(socket);
        let mut progress = Progress(Instant::now());
        let mut up = false;
        let mut look = progress.0;
        loop {
            self.wait(Some(line.socket().as_fd()), look.saturating_duration_since(Instant::now()));
            if self.is_stopped() {
                return End::Asked;
            }
            let now = Instant::now();
            if now >= look {
                self.queues.interrupt_blocked_writers();
                look = now + until_next_look(now - since);
            }
            match line.read_message().and_then(|what| handle(session, &line, what)) {
                Ok(Outcome::Heard) => progress = Progress(Instant::now()),
                Ok(Outcome::Nothing) if progress.is_stuck(Instant::now(), line.is_within()) => {
                    return End::Fault(Fault::Stuck);
                }
                Ok(Outcome::Nothing) => {}
                Ok(Outcome::End) => return End::Gone,
                Err(fault) => return End::Fault(fault),
            }
            if let Err(fault) = session.look() {
                return End::Fault(fault);
            }
            if !up && session.running() > 0 {
                up = true;
                self.shared.up.store(true, Ordering::Release);
                self.tell(News::Served(process));
            }
        }
    }

    fn send_away(&mut self, fault: &Fault, lasted: Duration) {
        if lasted >= SOUND {
            self.pause = FIRST_PAUSE;
        }
        let pause = self.pause;
        self.tell(News::Fault(format!(
            "the peer was sent away: {fault}; the next one is met in {:.1} s",
            pause.as_secs_f64()
        )));
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        let end = Instant::now() + pause;
        while !self.is_stopped() && Instant::now() < end {
            self.wait(None, end.saturating_duration_since(Instant::now()));
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Acquire)
    }

    /// Waits until the port is to stop, the descriptor is readable, or the time is over.
    fn wait(&self, readable: Option<std::os::fd::BorrowedFd<'_>>, most: Duration) {
        let mut fds = vec![PollFd::new(&self.shared.stop, PollFlags::IN)];
        fds.extend(readable.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        // Whatever the result, everything is checked afterwards.
        let _ = poll(&mut fds, Timespec::try_from(most).ok().as_ref());
    }

    fn tell(&self, news: News) {
        let mut waiting = self.shared.news.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MOST_LINES {
            waiting.push_back(news);
        }
    }
}

enum Outcome {
    Heard,
    Nothing,
    End,
}

fn handle(session: &mut Session, line: &MessageStream, heard: ReadResult) -> Result<Outcome, Fault> {
    let message = match heard {
        ReadResult::Message(message) => message,
        ReadResult::Nothing => return Ok(Outcome::Nothing),
        ReadResult::End => return Ok(Outcome::End),
    };
    match session.handle(message) {
        Ok(answer) => {
            let is_there = answer.map_or(Ok(true), |answer| line.send_reply(&answer))?;
            Ok(if is_there { Outcome::Heard } else { Outcome::End })
        }
        Err(Refused { answer, fault }) => {
            if let Some(answer) = answer {
                // The connection is closed anyway.
                let _ = line.send_reply(&answer);
            }
            Err(fault)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_stuck_in_a_message_that_takes_too_long_however_often_some_of_it_comes() {
        let start = Instant::now();
        let mut progress = Progress(start);
        assert!(!progress.is_stuck(start + 10 * STUCK, false), "it says nothing");
        let begun = start + 10 * STUCK;
        let stuck = (1..=60).find(|octet| progress.is_stuck(begun + LOOK * *octet, true));
        assert_eq!(stuck, Some(51), "after the first look beyond five seconds");
    }

    #[test]
    fn a_connection_of_ours_that_was_closed_unserved_is_not_made_again_at_once() {
        assert_eq!(pause_after_end(false, false), KNOCK);
        assert_eq!(pause_after_end(true, false), Duration::ZERO, "it was restarted");
        assert_eq!(pause_after_end(false, true), Duration::ZERO, "the next peer comes by itself");
    }

    #[test]
    fn looks_come_at_times_that_nobody_knows() {
        let next = |nanos| until_next_look(Duration::from_nanos(nanos));
        let (all, late) = (1_000_000..1_001_000, |nanos: &u64| next(*nanos) >= LOOK);
        assert!(all.clone().all(|nanos| next(nanos) >= LOOK / 2 && next(nanos) < LOOK * 3 / 2));
        assert!((400..600).contains(&all.filter(late).count()), "a nanosecond decides");
    }
}
