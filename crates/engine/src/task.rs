//! Background task on a thread of its own, for work that may block: on the kernel, on other threads, on other
//! programs. All waits for it are bounded; a task that exceeds its time limit is left behind.

mod reserve;

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use reserve::keep as keep_reserve;

/// Maximum time that one look adds to the elapsed time of a task: if no look took place, the task may have
/// got no CPU either.
const LONGEST_STEP: Duration = Duration::from_millis(250);

/// A task in progress. Dropping it waits for its end, and drops its result.
pub(crate) struct Task<T> {
    thread: Option<Worker>,
    outcome: Arc<Outcome<T>>,
    /// Its time limit.
    limit: Duration,
    looked: Instant,
    /// Elapsed time, as far as it was observed by looks.
    seen: Duration,
}

/// The thread that does the work.
enum Worker {
    /// A thread of its own.
    Own(JoinHandle<()>),
    /// The shared reserve thread, which does the work for which no thread could be started.
    Reserve,
}

/// The work of a task, including storing its result.
type Job = Box<dyn FnOnce() + Send>;

/// The thread that does a job, or the error and the job if no thread could be started.
type Begun = Result<JoinHandle<()>, (io::Error, Option<Job>)>;

/// Result slot of a task.
struct Outcome<T> {
    state: Mutex<State<T>>,
    over: Condvar,
}

struct State<T> {
    is_over: bool,
    /// `None` while the task is in progress, or if it has panicked.
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

/// Completion guard: records the end of a task, also if it panics, and unparks the thread that began it.
struct CompletionGuard<T>(Arc<Outcome<T>>, std::thread::Thread);

impl<T> Drop for CompletionGuard<T> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.over.notify_all();
        self.1.unpark();
    }
}

/// Progress of a task.
pub(crate) enum Progress<T> {
    /// It is in progress.
    Going(Task<T>),
    /// It is done.
    Done(T),
    /// It has panicked or exceeded its time limit; in the latter case it is left behind, and its own thread
    /// drops the result. The text describes this, to be appended to the task's name.
    Abandoned(String),
}

impl<T: Send + 'static> Task<T> {
    /// Runs `work` in a thread of this name. The calling thread is unparked when it is done.
    ///
    /// # Errors
    /// No thread can be started; `work` is dropped.
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

    /// Runs `work` as [`Task::begin`] does; if no thread can be started, the reserve thread runs it after its
    /// earlier jobs. If there is no reserve thread either, the calling thread runs it.
    pub(crate) fn begin_or_fall_back(
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

    /// Returns true if it is done, or has panicked.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome.lock().is_over || self.thread.is_none()
    }

    /// Checks progress at the time `now`; to be called about ten times a second.
    pub(crate) fn look(mut self, now: Instant) -> Progress<T> {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        if self.is_over() {
            self.join();
            let outcome = self.outcome.lock().outcome.take();
            return outcome.map_or_else(|| Progress::Abandoned("has panicked".to_owned()), Progress::Done);
        }
        if self.seen < self.limit {
            return Progress::Going(self);
        }
        self.thread = None;
        Progress::Abandoned(format!(
            "takes more than {:?}, and is left behind with what it holds",
            self.limit
        ))
    }
}

impl<T> Task<T> {
    fn join(&mut self) {
        match self.thread.take() {
            // A thread that has panicked leaves no result.
            Some(Worker::Own(thread)) => drop(thread.join()),
            Some(Worker::Reserve) => {
                let goes_on = |state: &mut State<T>| !state.is_over;
                drop(self.outcome.over.wait_while(self.outcome.lock(), goes_on));
            }
            None => {}
        }
    }
}

/// Hands a job whose result is not needed to the reserve thread; if there is none, the calling thread runs
/// it.
pub(crate) fn run_on_reserve(job: Job) {
    if let Some(job) = reserve::take(job) {
        job();
    }
}

/// Wraps work into a job that stores its result.
fn job<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Job, Arc<Outcome<T>>) {
    let outcome = Outcome::new();
    let ending = CompletionGuard(outcome.clone(), std::thread::current());
    let job = move || {
        let done = work();
        ending.0.lock().outcome = Some(done);
        drop(ending);
    };
    (Box::new(job), outcome)
}

/// Runs a job in a thread of this name; returns the job if no thread can be started.
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
