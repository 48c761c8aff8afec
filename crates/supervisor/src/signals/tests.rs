use std::sync::atomic::Ordering::Acquire;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::raise;

use super::StopRequest;

/// One test for all, since signals belong to the whole process.
#[test]
fn signals_ask_and_wake() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let stop = StopRequest::listen().expect("signals can be taken");
        let start = Instant::now();
        assert!(!stop.is_asked() && !stop.wait(Duration::from_millis(20)));
        assert!(start.elapsed() >= Duration::from_millis(20));
        let raiser = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            raise(signal)
        });
        assert!(stop.wait(Duration::from_secs(60)), "signal {signal}");
        assert!(stop.is_asked() && stop.flag().load(Acquire));
        assert!(stop.wait(Duration::ZERO), "it stays asked");
        assert!(matches!(raiser.join(), Ok(Ok(()))));
    }
}
