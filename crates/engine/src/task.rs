//! Work that a thread of its own does beside everything else, because it may have to wait: for the kernel, for other threads, for
//! programs. Nobody waits for it without a bound; what takes too long is left behind.

mod reserve;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use reserve::keep as keep_reserve;

/// The most that one look adds to the time that a task has taken: where nobody looked, it may have got no CPU either.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// A piece of work under way. Dropping it waits for its end, and drops what comes of it.
pub(crate) struct Task<T> {
    thread: Option<Worker>,
    outcome: Arc<Outcome<T>>,
    /// How long it may take.
    limit: Duration,
    looked: Instant,
    /// How long it has been looked at.
    seen: Duration,
}

/// What does the work.
enum Worker {
    /// A thread that is there for nothing else.
    Own(JoinHandle<()>),
    /// The thread that does what there was no thread for.
    Reserve,
}

/// The work of a task, which leaves its outcome where that is looked for.
type Job = Box<dyn FnOnce() + Send>;

/// The thread that does a job, or the job where none can be had.
type Begun = Result<JoinHandle<()>, (io::Error, Option<Job>)>;

/// What has come of a task, as soon as it is done.
struct Outcome<T> {
    state: Mutex<State<T>>,
    over: Condvar,
}

struct State<T> {
    is_over: bool,
    /// None of a task that goes on, or that has panicked.
    outcome: Option<T>,
}

impl<T> Outcome<T> {
    fn new() -> Arc<Self> {
        let state = Mutex::new(State { is_over: false, outcome: None });
        Arc::new(Self { state, over: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of a task, also where it panics, and unparks its beginner.
struct Ending<T>(Arc<Outcome<T>>, std::thread::Thread);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.over.notify_all();
        self.1.unpark();
    }
}

/// How far a task has come.
pub(crate) enum Progress<T> {
    /// It goes on.
    Going(Task<T>),
    /// It is done.
    Done(T),
    /// It has panicked, or takes too long: then it is left behind, and its own thread drops what comes of it. What is said of it, in
    /// words that follow its name.
    Lost(String),
}

impl<T: Send + 'static> Task<T> {
    /// Does `work` in a thread of this name. Whoever begins it is unparked when it is done.
    ///
    /// # Errors
    /// No thread can be had; `work` is dropped.
    pub(crate) fn begin(
        name: String,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
        now: Instant,
    ) -> io::Result<Self> {
        let (job, outcome) = job(work);
        let thread = spawn(name, job).map_err(|(error, _)| error)?;
        Ok(Self::of(Worker::Own(thread), outcome, limit, now))
    }

    /// Does `work` as [`Task::begin`] does, and where no thread can be had in the one that is kept for that, after what that has to
    /// do already. Only where there is none either it is done here.
    pub(crate) fn begin_anyhow(
        name: String,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
        now: Instant,
    ) -> Self {
        Self::begin_by(|job| spawn(name, job), limit, work, now)
    }

    fn begin_by(
        spawn: impl FnOnce(Job) -> Begun,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
        now: Instant,
    ) -> Self {
        let (job, outcome) = job(work);
        let worker = match spawn(job) {
            Ok(thread) => Worker::Own(thread),
            Err((_, job)) => {
                job.and_then(reserve::take).into_iter().for_each(|job| job());
                Worker::Reserve
            }
        };
        Self::of(worker, outcome, limit, now)
    }

    fn of(worker: Worker, outcome: Arc<Outcome<T>>, limit: Duration, now: Instant) -> Self {
        Self { thread: Some(worker), outcome, limit, looked: now, seen: Duration::ZERO }
    }

    /// Whether it is done, or has panicked.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.lock().is_over || self.thread.is_none()
    }

    /// How far it is at the time `now`; to be asked about ten times a second.
    pub(crate) fn look(mut self, now: Instant) -> Progress<T> {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        if self.is_over() {
            self.join();
            let outcome = self.outcome.lock().outcome.take();
            return outcome.map_or_else(|| Progress::Lost("has panicked".to_owned()), Progress::Done);
        }
        if self.seen < self.limit {
            return Progress::Going(self);
        }
        self.thread = None;
        Progress::Lost(format!("takes more than {:?}, and is left behind with what it holds", self.limit))
    }
}

impl<T> Task<T> {
    fn join(&mut self) {
        match self.thread.take() {
            // One that has panicked leaves no outcome.
            Some(Worker::Own(thread)) => drop(thread.join()),
            Some(Worker::Reserve) => {
                let goes_on = |state: &mut State<T>| !state.is_over;
                drop(self.outcome.over.wait_while(self.outcome.lock(), goes_on));
            }
            None => {}
        }
    }
}

/// Has the thread that is kept for that do something that nobody waits for; where there is none it is done here.
pub(crate) fn leave(job: Job) {
    if let Some(job) = reserve::take(job) {
        job();
    }
}

/// Work that leaves its outcome where that is looked for.
fn job<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Job, Arc<Outcome<T>>) {
    let outcome = Outcome::new();
    let ending = Ending(outcome.clone(), std::thread::current());
    let job = move || {
        let done = work();
        ending.0.lock().outcome = Some(done);
        drop(ending);
    };
    (Box::new(job), outcome)
}

/// Does a job in a thread of this name; it comes back where none can be had.
fn spawn(name: String, job: Job) -> Begun {
    let kept = Arc::new(Mutex::new(Some(job)));
    let take = |kept: &Mutex<Option<Job>>| kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let taken = kept.clone();
    let body = move || {
        if let Some(job) = take(&taken) {
            job();
        }
    };
    Builder::new().name(name).spawn(body).map_err(|error| (error, take(&kept)))
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests;
