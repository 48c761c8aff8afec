//! Waiting for a result.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Looks again after each `pause` until there is a result, which it returns. `what`: its name in the message.
///
/// # Panics
///
/// There is none within this time.
pub fn until_some<T>(
    within: Duration,
    pause: Duration,
    what: &str,
    mut look: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {within:?}");
        sleep(pause);
    }
}
