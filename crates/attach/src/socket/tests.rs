use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use super::*;
use crate::requirements::tests::wanted;

/// Time within which another test's child executes its program, generous for a busy host.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn whoever_listens_is_seen_and_not_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a b.sock");
    assert!(!is_served(&path));
    let listener = UnixListener::bind(&path).expect("bound");
    listener.set_nonblocking(true).expect("set");
    assert!(is_served(&path));
    let found = |side: &str| {
        let mut wanted = wanted(&format!("vhost-user-backend:{}", path.display()));
        wanted.attach.set(KEY, side);
        look(&wanted).map(|(state, _)| state)
    };
    assert_eq!(found(LISTEN), Ok(State::No));
    assert_eq!(found("connect"), Ok(State::Ok));
    assert!(listener.accept().is_err(), "it was called");
    drop(listener);
    // A child that another test starts has a copy of it until it executes its program.
    let end = Instant::now() + LIMIT;
    while is_served(&path) {
        assert!(Instant::now() < end, "it is served without its listener");
        std::thread::yield_now();
    }
    assert_eq!(found(LISTEN), Ok(State::Note));
    assert_eq!(found("connect"), Ok(State::Note));
}
