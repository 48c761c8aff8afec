use std::time::Duration;

use port::Null;
use ring::Bytes;

use super::*;

#[test]
fn who_delivers_waits_until_the_gate_is_open() {
    let gate = Gate::new(Arc::new(Null::default()));
    let arrived = Arc::new(AtomicBool::new(false));
    let sender = {
        let (gate, arrived) = (gate.clone(), arrived.clone());
        std::thread::spawn(move || {
            let taken = gate.deliver(&[Frame::new(Bytes::from_slice(&mut [0; 60]))]);
            arrived.store(true, Ordering::Release);
            taken
        })
    };
    std::thread::sleep(Duration::from_millis(20));
    assert!(!arrived.load(Ordering::Acquire));
    drop(OpenOnDrop(gate));
    sender.join().unwrap();
    assert!(arrived.load(Ordering::Acquire));
}
