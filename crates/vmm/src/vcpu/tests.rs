use std::sync::atomic::Ordering::Release;

use super::*;

#[test]
fn the_others_wait_until_the_first_one_serves_or_gives_up() {
    for state in [1, 3] {
        let (first, stop) = (AtomicU32::new(0), AtomicBool::new(false));
        // It waits for nobody.
        await_first(0, &first, &stop);
        thread::scope(|scope| {
            let other = scope.spawn(|| await_first(1, &first, &stop));
            // It looks more than once meanwhile.
            thread::sleep(4 * LOOKS[1]);
            assert!(!other.is_finished());
            first.store(state, Release);
        });
        await_first(1, &first, &stop);
    }
}

#[test]
fn nobody_waits_for_the_first_one_after_the_stop() {
    let (first, stop) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| await_first(1, &first, &stop));
        thread::sleep(LOOKS[0]);
        stop.store(true, Release);
    });
}
