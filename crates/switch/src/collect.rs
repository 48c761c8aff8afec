//! First step of the switch: bring the first lines of all frames near, then read their addresses, each once.
//!
//! A sender may change a frame while it is switched. What is read here decides where the frame goes; nothing is
//! read twice.

use ring::BURST;

use crate::port::Frame;
use crate::table::Key;

/// Octets of an Ethernet header, without which a frame goes nowhere.
pub(crate) const HEADER: usize = frame::ethernet::HEADER;

/// The addresses of a burst.
pub(crate) struct Addresses {
    pub(crate) destination: [Key; BURST],
    pub(crate) source: [Key; BURST],
}

impl Addresses {
    pub(crate) fn new() -> Self {
        Self { destination: [Key::default(); BURST], source: [Key::default(); BURST] }
    }
}

/// What a burst is, besides its addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Octets of all frames together.
    pub(crate) octets: u64,
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
        let header = frame.octets().read::<HEADER>(0).unwrap_or_else(|| {
            collected.short |= 1 << i;
            [0; HEADER]
        });
        collected.octets += frame.len() as u64;
        (*destination, *source) = addresses_of(&header);
    }
    collected
}

#[inline(always)]
fn addresses_of(header: &[u8; HEADER]) -> (Key, Key) {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = *header;
    let destination = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let source = u64::from_le_bytes([g, h, i, j, k, l, m, n]);
    (Key::from_word(destination), Key::from_word(source))
}
