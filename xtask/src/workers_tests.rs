use std::sync::{Condvar, MutexGuard};
use std::time::Duration;

use super::*;

/// Timeout: no thread is kept from its CPU for so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Number of items in progress, and the most that were in progress at once.
#[derive(Default)]
struct Busy {
    count: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Busy {
    fn count(&self) -> MutexGuard<'_, (usize, usize)> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an item, and continues once `wanted` items have been in progress at once.
    fn until_at_once(&self, wanted: usize) {
        let mut count = self.count();
        count.0 += 1;
        count.1 = count.1.max(count.0);
        self.changed.notify_all();
        let too_few = |count: &mut (usize, usize)| count.1 < wanted;
        let waited = self.changed.wait_timeout_while(count, PATIENCE, too_few);
        let (mut count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        count.0 -= 1;
    }
}

#[test]
fn all_of_the_work_is_done_once_by_as_many_at_once_as_there_are_workers() {
    let (busy, mut done) = (Busy::default(), Vec::new());
    let run = |piece: u32| {
        busy.until_at_once(2);
        piece * 10
    };
    share((0..7).collect(), 2, run, |piece| done.push(piece));
    done.sort_unstable();
    assert_eq!(done, [0, 10, 20, 30, 40, 50, 60]);
    assert_eq!(*busy.count(), (0, 2));
}

#[test]
fn one_worker_keeps_the_order() {
    let mut done = Vec::new();
    share(["a", "b", "c"].into(), 1, str::to_owned, |piece| done.push(piece));
    assert_eq!(done, ["a", "b", "c"]);
}
