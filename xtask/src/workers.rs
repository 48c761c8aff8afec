//! Work shared among threads: each thread takes the next item when it has finished one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// Number of CPUs that this program may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Processes all items with this many threads, starting them in order; passes each result to `take` as soon as it is available.
pub(crate) fn share<W: Send, D: Send>(
    work: VecDeque<W>,
    workers: usize,
    run: impl Fn(W) -> D + Sync,
    take: impl FnMut(D),
) {
    let queue = Mutex::new(work);
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (told, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (told, next, run) = (told.clone(), &next, &run);
            scope.spawn(move || {
                while let Some(piece) = next() {
                    if told.send(run(piece)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        done.iter().for_each(take);
    });
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
