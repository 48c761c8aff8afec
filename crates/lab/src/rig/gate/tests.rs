use std::sync::mpsc;
use std::time::{Duration, Instant};

use port::Null;
use ring::Bytes;
use rustix::thread::gettid;

use super::*;

#[test]
fn who_delivers_waits_until_the_gate_is_open() {
    let gate = Gate::new(Arc::new(Null::default()));
    let arrived = Arc::new(AtomicBool::new(false));
    let (tell, told) = mpsc::channel();
    let sender = {
        let (gate, arrived) = (gate.clone(), arrived.clone());
        std::thread::spawn(move || {
            tell.send(gettid().as_raw_nonzero().get()).unwrap();
            let taken = gate.deliver(&[Frame::new(Bytes::from_slice(&mut [0; 60]))]);
            arrived.store(true, Ordering::Release);
            taken
        })
    };
    let state = format!("/proc/self/task/{}/stat", told.recv().unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&state).expect("it has not ended").contains(") S ") {
        assert!(Instant::now() < end, "it does not sleep");
        std::thread::yield_now();
    }
    assert!(!arrived.load(Ordering::Acquire));
    drop(OpenOnDrop(gate));
    sender.join().unwrap();
    assert!(arrived.load(Ordering::Acquire));
}
