//! Arbitrary octets in place of bfdd's orders to the data plane, in pieces, with reconnects. Finds panics, and sessions without end.

use bfd::Agent;

/// Runs one input: pieces of an octet that says what happens, a length, and octets.
pub(crate) fn run(input: &[u8]) {
    let (mut agent, mut now, mut rest) = (Agent::new(1), 0, input);
    agent.connected();
    while let Some((&[what, length], after)) = rest.split_first_chunk() {
        let (octets, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        now += u64::from(what) * 10_000;
        match what {
            0 => agent.connected(),
            1 => agent.closed(),
            2 => {
                agent.settle(&mut |_| {});
            }
            _ => {
                if agent.hear(octets, now, &mut |_| {}).is_err() {
                    agent.closed();
                }
            }
        }
        agent.turn(now, &mut |_| {});
        assert!(agent.due().is_none_or(|due| due > now), "what is due is done");
        assert!(agent.sessions().len() * 140 <= input.len() + 140, "each session was asked for");
        agent.outgoing().clear();
    }
}
