//! Which queue pair a frame goes to: by flow, so that the frames of a flow stay in order.

use ring::BURST;
use switch::{Frame, Frames};

/// Calls `deliver` with each pair's frames of a burst, in their order. Frames that are not IPv4 go to pair 0.
pub(crate) fn by_flow(burst: &[Frame<'_>], pairs: usize, mut deliver: impl FnMut(usize, &[Frame<'_>])) {
    let mut choice = [0usize; BURST];
    for (chosen, frame) in choice.iter_mut().zip(burst) {
        *chosen = pair(frame, pairs);
    }
    for pair in 0..pairs {
        let group: Frames<'_> = burst
            .iter()
            .zip(&choice)
            .filter(|(_, chosen)| **chosen == pair)
            .map(|(frame, _)| *frame)
            .collect();
        if !group.is_empty() {
            deliver(pair, &group);
        }
    }
}

/// The pair of one frame: a hash of addresses and, for TCP and UDP that is not fragmented, ports.
fn pair(frame: &Frame<'_>, pairs: usize) -> usize {
    let Some(head) = frame.octets().read::<38>(0) else { return 0 };
    if head[12..15] != [0x08, 0x00, 0x45] {
        return 0;
    }
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let whole = word(20) & 0x3fff_0000 == 0;
    let ports = if whole && matches!(head[23], 6 | 17) { word(34) } else { 0 };
    let mixed = (u64::from(word(26)) ^ u64::from(ports)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(word(30)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    let hash = (mixed ^ mixed >> 32) as u32;
    // The hash as a fraction of 2^32, times the number of pairs.
    ((u64::from(hash) * pairs as u64) >> 32) as usize
}

#[cfg(test)]
mod tests;
