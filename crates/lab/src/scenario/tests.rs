use std::cell::Cell;

use super::*;

#[test]
fn what_comes_after_the_load_belongs_to_no_rate() {
    let (came, turns) = (Cell::new(5), Cell::new(0));
    let offer = || {
        turns.set(turns.get() + 1);
        came.set(came.get() + 2);
    };
    let found = offered(Duration::ZERO, 3, offer, || came.set(came.get() + 1000), || came.get());
    assert_eq!((found.in_time, found.in_all), (2 * turns.get(), 2 * turns.get() + 1000));
    // A load of no length has no turn.
    assert_eq!((turns.get(), found.in_time), (0, 0));
    let found = offered(Duration::from_millis(1), 3, offer, || came.set(came.get() + 1000), || came.get());
    assert!(turns.get() > 0 && found.seconds > 0.0);
    assert_eq!((found.in_time, found.in_all), (2 * turns.get(), 2 * turns.get() + 1000));
}
