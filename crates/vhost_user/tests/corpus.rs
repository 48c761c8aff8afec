//! Runs the corpus of this crate's fuzz target, and variants of its inputs.

#[path = "../../../fuzz/bodies/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/bodies/vhost_user.rs"]
mod door;

/// Number of variants of each input.
const VARIANTS: u64 = 150;
/// Octets at the front that are changed: the messages. The octets after them are memory.
const MESSAGES: usize = 1024;

#[test]
fn any_peer_is_served_or_sent_away() {
    corpus::replay("vhost_user", door::run);
}

#[test]
fn peers_that_say_something_a_little_different_are_too() {
    corpus::replay("vhost_user", |input| (1..=VARIANTS).for_each(|seed| door::run(&changed(input, seed))));
}

/// Returns the input with up to four octets changed, the same for the same seed.
fn changed(input: &[u8], seed: u64) -> Vec<u8> {
    let mut octets = input.to_vec();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..=seed % 4 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = (state >> 8) as usize % octets.len().clamp(1, MESSAGES);
        if let Some(octet) = octets.get_mut(at) {
            *octet = if state & 0x10 == 0 { state as u8 } else { *octet ^ (1 << ((state >> 5) & 7)) };
        }
    }
    octets
}
