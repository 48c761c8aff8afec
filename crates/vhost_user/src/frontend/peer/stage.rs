//! State machine of the connection with a peer.

use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use door::{Door, process_at};
use nic_port::SetUp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vmm_sys_util::eventfd::EventFd;

use super::observed_limit::ObservedLimit;
use super::{Clock, Shared, Status};
use crate::frontend::event::{EventFdExt, take};
use crate::frontend::messaging::{Job, Outcome};
use crate::frontend::session::{Refused, Session};

/// Time limit of the peer for the messages of one job, in observed time.
pub(super) const ANSWER: Duration = Duration::from_secs(1);
/// Pause before the first attempt after a failed one; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause.
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// Interval between checks when there is nothing to wait for.
const LOOK: Duration = Duration::from_secs(10);

/// The queues handed over.
#[derive(Clone)]
struct HandedOver {
    set_up: Arc<SetUp>,
    turn: u64,
    pairs: usize,
}

/// The current exchange of messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Topic {
    Greeting,
    /// The rings are being handed over: not all of them are before it is done.
    Start,
    /// The number of queue pairs in use.
    Pairs,
    Stop,
}

impl Topic {
    fn of(job: &Job) -> Self {
        match job {
            Job::Greet(_) => Self::Greeting,
            Job::Start(..) => Self::Start,
            Job::Enable(..) => Self::Pairs,
            Job::Stop(..) => Self::Stop,
        }
    }
}

enum Stage {
    Away,
    /// Messages are being exchanged; with time limit (`None` once it is over), and what the peer has been handed.
    Talking {
        limit: Option<ObservedLimit>,
        given: Option<HandedOver>,
        topic: Topic,
    },
    Idle(Session),
    Serving(Session, HandedOver),
}

/// The state machine.
pub(super) struct ConnectionStateMachine {
    clock: Clock,
    shared: Arc<Shared>,
    door: Arc<Door>,
    jobs: Sender<Job>,
    outcomes: Receiver<Outcome>,
    calls: Arc<Vec<EventFd>>,
    /// Signalled when a job is done.
    done: Arc<EventFd>,
    stage: Stage,
    /// The connection, kept to watch it and to shut it down.
    stream: Option<UnixStream>,
    /// Time of the next attempt.
    next: Instant,
    pause: Duration,
    over: bool,
}

impl ConnectionStateMachine {
    pub(super) fn new(
        (clock, shared): (Clock, Arc<Shared>),
        door: Arc<Door>,
        jobs: Sender<Job>,
        outcomes: Receiver<Outcome>,
        (calls, done): (Arc<Vec<EventFd>>, Arc<EventFd>),
    ) -> Self {
        let (next, pause) = (clock(), FIRST_PAUSE);
        let (stage, stream) = (Stage::Away, None);
        Self { clock, shared, door, jobs, outcomes, calls, done, stage, stream, next, pause, over: false }
    }

    pub(super) fn run(mut self) {
        while !self.over {
            let talked = self.talks();
            self.step((self.clock)());
            self.publish();
            // Wishes that changed during the exchange do not signal again, and the last pause need not pass before the end.
            let goes_on = (talked || self.quits()) && !self.talks();
            if !self.over && !goes_on {
                self.wait((self.clock)());
            }
        }
    }

    fn quits(&self) -> bool {
        self.shared.quit.load(Ordering::Acquire)
    }

    fn talks(&self) -> bool {
        matches!(self.stage, Stage::Talking { .. })
    }

    fn step(&mut self, now: Instant) {
        let _ = self.shared.news.read();
        let _ = self.done.read();
        let quits = self.quits();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Away) {
            Stage::Away => self.look_for_one(now, quits),
            Stage::Talking { limit, given, topic } => self.listen(now, limit, given, topic),
            Stage::Idle(session) => self.idle(session, now, quits),
            Stage::Serving(session, given) => self.serve(session, given, now, quits),
        };
    }

    /// No peer is connected: checks whether one is there.
    fn look_for_one(&mut self, now: Instant, quits: bool) -> Stage {
        self.stream = None;
        if quits {
            self.over = true;
            return Stage::Away;
        }
        if self.rests(now) {
            return Stage::Away;
        }
        match self.door.accept() {
            Ok(Some(stream)) => match stream.try_clone() {
                Ok(copy) => {
                    self.shared.said().process = process_at(&copy);
                    self.stream = Some(copy);
                    self.say(Job::Greet(stream), None, now)
                }
                Err(error) => self.disconnect(error.to_string(), now),
            },
            Ok(None) if now >= self.next && !self.door.listens() => {
                self.put_off(now);
                match self.door.request() {
                    Ok(()) => Stage::Away,
                    Err(error) => self.disconnect(error.to_string(), now),
                }
            }
            Ok(None) => Stage::Away,
            Err(error) => self.disconnect(error.to_string(), now),
        }
    }

    /// Returns true if new peers have to wait, because the last one was unusable.
    fn rests(&self, now: Instant) -> bool {
        self.door.listens() && now < self.next
    }

    /// Returns to the beginning, for this reason.
    fn disconnect(&mut self, why: String, now: Instant) -> Stage {
        self.stream = None;
        self.shared.said().why = Some(why);
        self.next = self.next.max(now + FIRST_PAUSE);
        Stage::Away
    }

    fn put_off(&mut self, now: Instant) {
        self.next = now + self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    fn say(&mut self, job: Job, given: Option<HandedOver>, now: Instant) -> Stage {
        let topic = Topic::of(&job);
        match self.jobs.send(job) {
            Ok(()) => Stage::Talking { limit: Some(ObservedLimit::new(ANSWER, now)), given, topic },
            Err(_) => self.disconnect("its thread has ended".to_owned(), now + LOOK),
        }
    }

    /// Checks whether the current exchange is done.
    fn listen(
        &mut self,
        now: Instant,
        mut limit: Option<ObservedLimit>,
        given: Option<HandedOver>,
        topic: Topic,
    ) -> Stage {
        match self.outcomes.try_recv() {
            Ok(Outcome::Said(session)) => self.go_on(session, given),
            Ok(Outcome::Stopped) => {
                // The peer was healthy: the next one need not wait.
                (self.next, self.pause, self.stream) = (now, FIRST_PAUSE, None);
                Stage::Away
            }
            Ok(Outcome::Refused(why)) => {
                if given.as_ref().is_some_and(|given| self.shared.lock().turn != given.turn) {
                    // The exchange was aborted by us.
                    (self.next, self.stream) = (now, None);
                    return Stage::Away;
                }
                self.shared.counters.refused.add(1);
                self.put_off(now);
                let late = if limit.is_none() { " (it did not answer in time)" } else { "" };
                self.disconnect(format!("{why}{late}"), now)
            }
            Err(TryRecvError::Empty) => {
                let unwanted = given.as_ref().is_some_and(|given| self.shared.lock().turn != given.turn);
                let unwanted = unwanted && topic != Topic::Stop;
                if limit.as_mut().is_some_and(|limit| limit.is_over(now) || unwanted) {
                    self.cut();
                    limit = None;
                }
                Stage::Talking { limit, given, topic }
            }
            Err(TryRecvError::Disconnected) => self.disconnect("its thread has ended".to_owned(), now + LOOK),
        }
    }

    /// Ends the wait of the messaging thread for the peer.
    fn cut(&self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn go_on(&mut self, session: Session, given: Option<HandedOver>) -> Stage {
        let mut said = self.shared.said();
        said.why = None;
        said.offer = Some(session.offer());
        drop(said);
        match given {
            Some(given) => Stage::Serving(session, given),
            None => Stage::Idle(session),
        }
    }

    /// A peer is connected, and has been handed nothing yet.
    fn idle(&mut self, session: Session, now: Instant, quits: bool) -> Stage {
        if quits || self.has_gone() {
            self.put_off(now);
            return self.disconnect("it went away".to_owned(), now);
        }
        let wishes = self.shared.lock();
        let Some(set_up) = wishes.set_up.clone() else { return Stage::Idle(session) };
        let given = HandedOver { set_up: set_up.clone(), turn: wishes.turn, pairs: wishes.pairs };
        drop(wishes);
        self.shared.counters.handed.add(1);
        self.say(Job::Start(session, set_up, given.pairs), Some(given), now)
    }

    /// The peer serves the rings.
    fn serve(&mut self, session: Session, mut given: HandedOver, now: Instant, quits: bool) -> Stage {
        self.pause = FIRST_PAUSE;
        if self.has_gone() {
            self.shared.counters.lost.add(1);
            self.next = now;
            return self.disconnect("it went away".to_owned(), now);
        }
        if given.set_up.has_blocked_us() {
            self.shared.counters.lost.add(1);
            self.put_off(now);
            return self.disconnect(Refused::Waited.to_string(), now);
        }
        self.pass_on(&given);
        let (turn, pairs) = {
            let wishes = self.shared.lock();
            (wishes.turn, wishes.pairs)
        };
        if quits || turn != given.turn {
            let set_up = given.set_up.clone();
            return self.say(Job::Stop(session, set_up), Some(given), now);
        }
        if pairs != given.pairs {
            given.pairs = pairs;
            return self.say(Job::Enable(session, given.set_up.clone(), pairs), Some(given), now);
        }
        Stage::Serving(session, given)
    }

    /// Returns true if the peer has closed the connection, or sends something unsolicited.
    fn has_gone(&self) -> bool {
        let Some(stream) = &self.stream else { return true };
        let mut fds = [PollFd::new(stream, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && !fds.iter().all(|fd| fd.revents().is_empty())
    }

    /// Forwards interrupts of a peer that cannot send them itself.
    fn pass_on(&self, given: &HandedOver) {
        for queue in given.set_up.queues.iter().filter(|queue| queue.call().is_none()) {
            let Some(call) = self.calls.get(usize::from(queue.index)) else { continue };
            if take(call) {
                queue.interrupt();
                self.shared.counters.interrupts.add(1);
            }
        }
    }

    /// Publishes the status.
    fn publish(&self) {
        let status = match &self.stage {
            Stage::Serving(..) | Stage::Talking { topic: Topic::Pairs | Topic::Stop, .. } => Status::Serving,
            Stage::Idle(_) | Stage::Talking { topic: Topic::Start, .. } => Status::Idle,
            Stage::Away | Stage::Talking { topic: Topic::Greeting, .. } => Status::Away,
        };
        let turn = match &self.stage {
            Stage::Serving(_, given) | Stage::Talking { given: Some(given), .. } => Some(given.turn),
            _ => None,
        };
        let was = self.shared.status.swap(status as u8, Ordering::AcqRel);
        let mut wishes = self.shared.lock();
        let settled = turn.unwrap_or(wishes.turn);
        let news = was != status as u8 || wishes.settled != settled;
        wishes.settled = settled;
        if news {
            self.shared.changed.notify_all();
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, now: Instant) {
        let (mut fds, mut until) = (vec![self.shared.news.as_fd_borrowed()], now + LOOK);
        match &self.stage {
            Stage::Away if self.rests(now) => until = until.min(self.next),
            Stage::Away if self.door.listens() => fds.push(self.door.bell()),
            Stage::Away => {
                fds.push(self.door.bell());
                until = until.min(self.next);
            }
            Stage::Talking { limit, .. } => {
                fds.push(self.done.as_fd_borrowed());
                until = limit.map_or(until, |limit| now + limit.pause());
            }
            Stage::Idle(_) => fds.extend(self.stream.as_ref().map(AsFd::as_fd)),
            Stage::Serving(_, given) => {
                fds.extend(self.stream.as_ref().map(AsFd::as_fd));
                let passed = given.set_up.queues.iter().filter(|queue| queue.call().is_none());
                let calls = passed.filter_map(|queue| self.calls.get(usize::from(queue.index)));
                fds.extend(calls.map(EventFdExt::as_fd_borrowed));
            }
        }
        let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let left = until.saturating_duration_since(now).max(Duration::from_millis(1));
        if poll(&mut fds, Timespec::try_from(left).ok().as_ref()).is_err() {
            // Interrupted by a signal, or temporarily out of memory.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
