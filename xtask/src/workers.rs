//! Work that threads share: each takes the next piece when it is done with one.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// CPUs that this program may use.
pub(crate) fn cpus() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Has so many threads do all pieces of the work, in their order as far as one is begun after the other; gives what came of each to
/// `take` as soon as it is done.
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
