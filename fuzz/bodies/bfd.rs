//! Arbitrary control packets of BFD for a few sessions, with time between them. Finds panics, sessions that send without end or are due in the
//! past, and packets that are not counted.
//!
//! The input consists of pieces: an octet that says by which port and time to live, one for the time that passes, a length, and a payload.

use bfd::{Arrived, Config, Out, PORT, Packet, Path, Sessions, TTL, Watch};

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let (mut sessions, mut now, mut rest, mut arrived) = (Sessions::new(1), 0, input, 0);
    for number in 1..4u32 {
        let config =
            Config { number, min_tx: 10_000 * number, min_rx: 50_000, multiplier: 3, ..Config::default() };
        let path = Path {
            local: [192, 0, 2, 1].into(),
            remote: [192, 0, 2, 2].into(),
            index: number,
            is_multihop: number == 3,
            least_ttl: 250,
        };
        sessions.set(&Watch { config, path, hold: 0 }, now, &mut |_| {});
    }
    while let Some((&[how, later, length], after)) = rest.split_first_chunk() {
        let (payload, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        now += u64::from(later) * 5_000;
        let packet = Arrived {
            source: [192, 0, 2, 2].into(),
            destination: [192, 0, 2, 1].into(),
            index: (how & 3).into(),
            port: if how & 4 == 0 { PORT } else { bfd::MULTIHOP_PORT },
            ttl: if how & 8 == 0 { TTL } else { how },
            payload,
            at: now,
        };
        arrived += 1;
        let _ = sessions.take(&packet, &mut |_| {});
        let mut sent = 0;
        sessions.turn(now, &mut |out| {
            if let Out::Send { payload, .. } = out {
                assert!(Packet::parse(payload).is_ok(), "what is sent is valid");
                sent += 1;
            }
        });
        assert!(sent <= 6, "an answer and a periodic packet for each session");
        assert!(sessions.due().is_none_or(|due| due > now), "what is due is done");
    }
    let counters = sessions.counters();
    let dropped =
        [&counters.drop_malformed, &counters.drop_ttl, &counters.drop_unknown, &counters.drop_authentication];
    assert_eq!(arrived, counters.taken.get() + dropped.iter().map(|counter| counter.get()).sum::<u64>());
}
