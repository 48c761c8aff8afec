//! A data plane from the supervisor's side: its process and the link to it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use api::Request;
use link::{Link, PlanWithSupplies, Received, ToPlane, ToSupervisor};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use sched::ThreadIdentity;
use signal_hook::low_level::signal_name;

use super::ceiling::THREADS;
use super::rate::Rate;
use super::reaper::{ended, reap};
use super::reply_deadlines::{EXTENSION, LATE, ReplyDeadlines};
use super::stderr::{Stderr, StderrOutput};
use super::thread_lookups::ThreadLookups;
use super::vhost_threads::VhostThreads;

/// Request number of the orders: answered when they are carried out.
const ORDERS: u64 = 0;
/// Request number of the liveness check of the thread that carries out orders.
const PING: u64 = u64::MAX;
/// Time between two liveness checks.
const PAUSE: Duration = Duration::from_secs(1);
/// Most messages within a second. A busy data plane answers some hundred requests and reports some thousand
/// traced packets.
const MOST_MESSAGES: u32 = 50_000;
/// Time limit of waiting for the end of a dropped data plane.
const LAST: Duration = Duration::from_secs(1);
/// Octets of the longest name of a thread; names of routers and NICs have at most 14 each.
const LONGEST_NAME: usize = 64;

/// Process of a data plane or of a router.
pub(crate) trait Process {
    /// Process number.
    fn pid(&self) -> u32;
    /// Descriptor that is readable once it has ended.
    fn pidfd(&self) -> BorrowedFd<'_>;
    /// Description of its end, if it has ended: `was killed by SIGSEGV`.
    fn end(&mut self) -> Option<String> {
        ended(self.pidfd()).map(how)
    }
    /// Sends SIGKILL, without waiting for the end.
    fn kill(&mut self) {
        let _ = pidfd_send_signal(self.pidfd(), Signal::KILL);
    }
}

/// A running data plane. Dropping it kills it; use [`Plane::into_process`] to watch for its end instead.
pub(crate) struct Plane {
    process: Box<dyn Process>,
    link: Link,
    pub(super) stderr: Stderr,
    /// True once its orders have been carried out.
    pub(crate) is_up: bool,
    /// Most routers that it was ever told to run.
    pub(super) routers: u32,
    deadlines: ReplyDeadlines,
    /// End of the extension of a deadline that has passed: as long as the supervisor did not run, it may not have run either.
    extended: Option<Instant>,
    /// Date of the last liveness check.
    pinged: Option<Instant>,
    /// Since when its end of the link is closed.
    closed: Option<Instant>,
    /// When it was started.
    started: Instant,
    /// Rate of its messages.
    rate: Rate,
    /// Messages received and not handled yet.
    received: VecDeque<ToSupervisor>,
    pub(super) thread_lookups: ThreadLookups,
    /// Kernel threads that work for it.
    pub(super) vhost_threads: VhostThreads,
}

/// A child of this process.
struct PlaneProcess {
    pid: u32,
    pidfd: OwnedFd,
    killed: bool,
}

impl PlaneProcess {
    /// Starts a data plane with its ends of the link and of the pipe for standard error; it runs as `user`,
    /// if given.
    fn start(user: Option<u32>, link: OwnedFd, stderr: OwnedFd) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("data-plane").arg(std::process::id().to_string()).current_dir("/");
        command.args(user.map(|user| user.to_string()));
        // The service manager's socket is for the supervisor only.
        command.env_remove("NOTIFY_SOCKET");
        // Own process group: signals of a terminal are for the supervisor.
        command.process_group(0).stdin(Stdio::from(link)).stdout(Stdio::null()).stderr(Stdio::from(stderr));
        let child = command.spawn().context("cannot start the data plane")?;
        Self::watch(child).context("cannot watch the data plane")
    }

    /// Watches a child that has not been waited for. If it cannot be watched, it is killed.
    fn watch(mut child: Child) -> rustix::io::Result<Self> {
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self { pid: child.id(), pidfd, killed: false }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }
}

impl Process for PlaneProcess {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    fn kill(&mut self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.killed = true;
    }
}

impl Drop for PlaneProcess {
    /// Kills the process unless that was done before, waits briefly for its end, and has it reaped.
    fn drop(&mut self) {
        if !self.killed {
            self.kill();
            let mut fds = [PollFd::from_borrowed_fd(self.pidfd(), PollFlags::IN)];
            let _ = poll(&mut fds, Timespec::try_from(LAST).ok().as_ref());
        }
        reap(&self.pidfd);
    }
}

impl Plane {
    /// Starts the process, which runs as `user`, if given; it does nothing until [`Plane::order`].
    ///
    /// # Errors
    /// No process, socket or descriptor is available.
    pub(crate) fn start(user: Option<u32>, now: Instant) -> Result<Self> {
        let (link, theirs) = Link::pair()?;
        let (stderr, its) = Stderr::pair(now).context("cannot make a pipe")?;
        Ok(Self::new(Box::new(PlaneProcess::start(user, theirs, its)?), (link, stderr), now))
    }

    /// Wraps a process and the supervisor's ends of its link and standard error.
    pub(super) fn new(process: Box<dyn Process>, (link, stderr): (Link, Stderr), now: Instant) -> Self {
        Self {
            process,
            link,
            stderr,
            is_up: false,
            routers: 0,
            deadlines: ReplyDeadlines::default(),
            extended: None,
            pinged: None,
            closed: None,
            started: now,
            rate: Rate::new(now),
            received: VecDeque::new(),
            thread_lookups: ThreadLookups::new(now),
            vhost_threads: VhostThreads::default(),
        }
    }

    /// Process number.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Milliseconds since it was started.
    pub(super) fn age(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.started).as_secs_f64() * 1e3
    }

    /// Returns the thread with this number, if it is the data plane's own or works for it.
    pub(super) fn thread(&self, number: i32) -> Option<ThreadIdentity> {
        let own = ThreadIdentity::look(self.pid().cast_signed(), number);
        own.or_else(|| self.vhost_threads.get(sched::stat, number))
    }

    /// Tells it what to run.
    pub(crate) fn order(&mut self, orders: PlanWithSupplies, descriptors: Vec<OwnedFd>, now: Instant) {
        self.routers = orders.routers();
        self.deadlines.asked_for(ORDERS, orders.routers(), now);
        self.send(&ToPlane::Start(orders), descriptors, now);
    }

    /// Sends a message. A request must be answered in time. Messages to a dead data plane are lost.
    pub(crate) fn say(&mut self, message: &ToPlane, descriptors: Vec<OwnedFd>, now: Instant) {
        match message {
            ToPlane::Apply { id, orders, .. } => {
                self.routers = self.routers.max(orders.routers());
                self.deadlines.asked_for(*id, orders.routers(), now);
            }
            ToPlane::Ask { id, request: Request::Start { .. } | Request::Restart { .. } } => {
                self.deadlines.asked_for(*id, 1, now);
            }
            // These are answered when there is something to report, so no deadline applies.
            ToPlane::Ask { request: Request::Trace { .. } | Request::Capture { .. }, .. } => {}
            ToPlane::Ask { id, request: Request::Counters { .. } } => self.deadlines.asked_to_count(*id, now),
            ToPlane::Ask { id, .. } => self.deadlines.asked(*id, now),
            ToPlane::Ping => self.deadlines.asked(PING, now),
            _ => {}
        }
        self.send(message, descriptors, now);
    }

    /// Sends a message with a file that the caller closes. No deadline applies to its answer.
    pub(crate) fn lend(&mut self, message: &ToPlane, file: Arc<OwnedFd>, now: Instant) {
        if self.link.lend(message, file).is_err() {
            self.closed.get_or_insert(now);
        }
    }

    fn send(&mut self, message: &ToPlane, descriptors: Vec<OwnedFd>, now: Instant) {
        if self.link.send(message, descriptors).is_err() {
            self.closed.get_or_insert(now);
        }
    }

    /// Notes that it has answered this request.
    pub(crate) fn has_done(&mut self, id: u64, now: Instant) {
        self.deadlines.answered(id, now);
    }

    /// Checks from time to time whether the thread that carries out orders still answers: counters are
    /// reported by another thread, and prove nothing.
    fn ping(&mut self, now: Instant) {
        let is_due = self.pinged.is_none_or(|pinged| now >= pinged + PAUSE);
        if self.is_up && is_due && !self.deadlines.waits_for(PING) {
            self.pinged = Some(now);
            self.say(&ToPlane::Ping, Vec::new(), now);
        }
    }

    /// Notes that its orders are carried out. Returns true the first time.
    pub(crate) fn has_come_up(&mut self, now: Instant) -> bool {
        self.has_done(ORDERS, now);
        !std::mem::replace(&mut self.is_up, true)
    }

    /// Receives messages, once all earlier ones were handled, and sends what is pending.
    ///
    /// # Errors
    /// It breaks the rules of the link, or sends too much.
    fn receive_messages(&mut self, now: Instant) -> Result<()> {
        if self.link.flush().is_err() {
            self.closed.get_or_insert(now);
        }
        if !self.received.is_empty() {
            return Ok(());
        }
        let mut messages: Vec<Received<ToSupervisor>> = self.link.receive()?;
        if messages.iter().any(|_| self.rate.exceeds(MOST_MESSAGES, now)) {
            bail!("more than {MOST_MESSAGES} messages a second");
        }
        messages.iter().try_for_each(|(message, _)| self.validate(message))?;
        for _ in messages.extract_if(.., |(message, _)| matches!(message, ToSupervisor::Pong)) {
            self.deadlines.answered(PING, now);
        }
        self.ping(now);
        if self.link.is_ended() {
            self.closed.get_or_insert(now);
        }
        self.received.extend(messages.into_iter().map(|(message, _)| message));
        Ok(())
    }

    /// Next message to handle.
    pub(crate) fn next(&mut self) -> Option<ToSupervisor> {
        self.received.pop_front()
    }

    /// Refuses a message that claims more than can exist.
    fn validate(&self, message: &ToSupervisor) -> Result<()> {
        let ToSupervisor::Threads { threads } = message else { return Ok(()) };
        let most = (THREADS as usize).saturating_mul(self.routers as usize);
        ensure!(threads.len() <= most, "{} threads, where {most} are the most", threads.len());
        let is_long = |thread: &api::Thread| thread.name.len() > LONGEST_NAME;
        ensure!(!threads.iter().any(is_long), "a thread with a name of more than {LONGEST_NAME} octets");
        Ok(())
    }

    /// Description of an overdue answer, if there is one and the extension of its deadline is over.
    fn overdue(&mut self, now: Instant) -> Option<&'static str> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            self.extended = None;
            return None;
        }
        if now < *self.extended.get_or_insert(now + EXTENSION) {
            return None;
        }
        if self.closed.is_some_and(|closed| now >= closed + LATE) {
            return Some("closed its link and was killed");
        }
        Some("did not answer in time and was killed")
    }

    /// Receives messages for [`Plane::next`]. Returns a description if it breaks the rules of the link.
    pub(crate) fn listen(&mut self, now: Instant) -> Option<String> {
        let broken = |error| format!("breaks the rules of the link ({error:#}) and was killed");
        self.receive_messages(now).err().map(broken)
    }

    /// Why it must be replaced, in words: it has ended, is in `trouble`, or is overdue.
    pub(crate) fn verdict(&mut self, trouble: Option<String>, now: Instant) -> Option<String> {
        // Messages sent before its end are handled first.
        let end = self.process.end().filter(|_| self.received.is_empty());
        end.or(trouble).or_else(|| self.overdue(now).map(str::to_owned))
    }

    /// Returns true if a request is outstanding for longer than a healthy data plane takes that is not busy.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadlines.is_late(now)
    }

    /// Returns true if even its counters, which a busy data plane still reports, are outstanding for longer than `most`.
    pub(crate) fn is_silent(&self, most: Duration, now: Instant) -> bool {
        self.deadlines.is_silent(most, now)
    }

    /// When something that it has requested is to be done.
    pub(crate) fn work_due(&self, now: Instant) -> Option<Instant> {
        let said = (!self.received.is_empty()).then_some(now);
        said.or_else(|| self.thread_lookups.due(self.routers))
    }

    /// When it is to be judged whether its next answer is overdue.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.extended.or_else(|| self.deadline())
    }

    /// Deadline of its next answer.
    fn deadline(&self) -> Option<Instant> {
        let end = self.closed.map(|closed| closed + LATE);
        self.deadlines.deadline().into_iter().chain(end).min()
    }

    /// Returns its process, and closes the link.
    pub(crate) fn into_process(self) -> Box<dyn Process> {
        self.process
    }

    /// Waits for its end after [`ToPlane::Stop`], at most for `most` by `clock`, which is read repeatedly.
    /// Messages that arrive meanwhile go to `heed`. Returns what it wrote to standard error, and its process,
    /// which may still be running.
    pub(crate) fn wait(
        mut self,
        most: Duration,
        clock: impl Fn() -> Instant,
        mut heed: impl FnMut(ToSupervisor),
    ) -> (StderrOutput, Box<dyn Process>) {
        let (end, mut said) = (clock() + most, StderrOutput::default());
        while self.process.end().is_none() {
            let now = clock();
            said.add(self.stderr.hear(now));
            let left = end.saturating_duration_since(now);
            if left.is_zero() || self.receive_messages(now).is_err() {
                break;
            }
            std::mem::take(&mut self.received).into_iter().for_each(&mut heed);
            let mut fds: Vec<_> =
                self.watched().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
            let timeout = Timespec::try_from(left.min(Duration::from_millis(100))).ok();
            let _ = poll(&mut fds, timeout.as_ref());
        }
        said.add(self.stderr.rest());
        (said, self.into_process())
    }

    /// Descriptors to poll: its end, its standard error, and the link while it is open.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let output = if self.link.wants_to_write() { PollFlags::OUT } else { PollFlags::empty() };
        let link = self.closed.is_none().then(|| (self.link.as_fd(), PollFlags::IN | output));
        let said = self.stderr.watched().map(|fd| (fd, PollFlags::IN));
        std::iter::once((self.process.pidfd(), PollFlags::IN)).chain(link).chain(said)
    }
}

/// Description of a process's end, as in `was killed by SIGSEGV`.
fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        _ if sandbox::was_forbidden(status) => {
            "was killed by SIGSYS: it made a system call that is forbidden to it".to_owned()
        }
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("was killed by {name}"),
            None => format!("was killed by signal {signal}"),
        },
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words() {
        let told = |raw| how(ExitStatus::from_raw(raw));
        assert_eq!(told(9), "was killed by SIGKILL");
        assert!(told(31).starts_with("was killed by SIGSYS: "));
        assert_eq!(told(1 << 8), "ended with exit code 1");
        assert_eq!(told(40), "was killed by signal 40");
    }

    /// State letter of a process in `/proc`; `None`: the process is gone.
    fn state(pid: u32) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    #[test]
    fn what_has_ended_is_known_before_it_is_taken_away_and_that_is_waited_for_by_nobody() {
        let child = Command::new("sleep").arg("1000").spawn().expect("a process");
        let mut own = PlaneProcess::watch(child).expect("it is watched");
        let pid = own.pid();
        assert_eq!(own.end(), None);
        own.kill();
        let mut fds = [PollFd::from_borrowed_fd(own.pidfd(), PollFlags::IN)];
        let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&patience)), Ok(1));
        for _ in 0..2 {
            assert_eq!(own.end().as_deref(), Some("was killed by SIGKILL"));
        }
        assert_eq!(state(pid), Some('Z'), "this thread has not taken it away");
        drop(own);
        let end = Instant::now() + Duration::from_secs(60);
        while state(pid).is_some() {
            assert!(Instant::now() < end, "it stays");
            std::thread::yield_now();
        }
    }
}
