//! Arbitrary frames for the control plane, with time between them. Finds panics, frames that are counted twice or not at all, and classes that pass
//! more than their limit.

use core::net::IpAddr;

use punt::{Addresses, Class, Gate, Limit, Limits, Owner, PuntCounters, verdict};

/// Somebody has every second address.
struct Half;

impl Addresses for Half {
    fn owner(&self, ip: IpAddr) -> Option<Owner> {
        let last = match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[15],
        };
        [Some(Owner::Router), Some(Owner::Control), None, None][usize::from(last % 4)]
    }
}

/// Runs one input: pieces of an octet of time (milliseconds), a length, and a frame.
pub(crate) fn run(input: &[u8]) {
    let limits = Limits([Limit { rate: 100, burst: 3 }; Class::ALL.len()]);
    let (mut gate, counters, mut rest) = (Gate::new(&limits), PuntCounters::default(), input);
    let (mut now, mut frames, mut passed) = (0, 0, [0u64; Class::ALL.len()]);
    while let Some((&[later, length], after)) = rest.split_first_chunk() {
        let (frame, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        now += u64::from(later) * 1000;
        frames += 1;
        let mac = frame.first_chunk().copied().unwrap_or_default();
        // Whoever gets it: that is decided without a panic.
        let _ = verdict(frame, mac, &Half);
        if let Some(class) = gate.pass(frame, now, &counters) {
            passed[class as usize] += 1;
        }
        assert!(passed.iter().all(|passed| *passed <= 3 + now / 10_000));
    }
    let mut counted = 0;
    ledger::Group::each(&counters, &mut |_, value| counted += value);
    assert_eq!(counted, frames);
}
