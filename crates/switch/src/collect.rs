//! First step of the switch: prefetches the first cache lines of all frames, then reads their addresses, each
//! once.
//!
//! A sender may change a frame while it is switched. The addresses read here decide where the frame goes; no
//! address is read twice.

use frame::offload::Offload;
use port::Frame;
use ring::BURST;

use crate::table::Key;

/// Length of an Ethernet header; a shorter frame is dropped.
pub(crate) const HEADER: usize = frame::ethernet::HEADER;

/// Addresses of a burst.
pub(crate) struct Addresses {
    pub(crate) destination: [Key; BURST],
    pub(crate) source: [Key; BURST],
}

impl Addresses {
    pub(crate) fn new() -> Self {
        Self { destination: [Key::default(); BURST], source: [Key::default(); BURST] }
    }
}

/// Properties of a burst, besides its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Total length of all frames in octets.
    pub(crate) octets: u64,
    /// Pending offload metadata of all frames, combined.
    pub(crate) left: Offload,
    /// A bit for each frame that is shorter than its header. Its addresses are zero.
    pub(crate) short: u64,
}

/// Reads the addresses of at most [`BURST`] frames.
#[inline]
pub(crate) fn collect(frames: &[Frame<'_>], addresses: &mut Addresses) -> Collected {
    for frame in frames {
        frame.octets().prefetch();
    }
    let mut collected = Collected::default();
    let places = addresses.destination.iter_mut().zip(&mut addresses.source);
    for (i, (frame, (destination, source))) in frames.iter().zip(places).enumerate() {
        // Two overlapping words, each of which yields one address: no octet of an address is read twice.
        let octets = frame.octets();
        collected.octets += frame.len() as u64;
        collected.left = collected.left.with(frame.offload());
        let words = [octets.read::<8>(0), octets.read::<8>(HEADER - 8)];
        let [Some(first), Some(second)] = words else {
            (*destination, *source) = Default::default();
            collected.short |= 1 << i;
            continue;
        };
        *destination = Key::from_word(u64::from_le_bytes(first));
        *source = Key::from_word(u64::from_le_bytes(second));
    }
    collected
}
