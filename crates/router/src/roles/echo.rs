//! Sends every frame back out of the NIC at which it arrived.

use arrayvec::ArrayVec;

use super::FLOW;
use crate::platform::{Buffer, Burst, HEAD, Platform};

/// Ethertype IPv4, version 4, header without options.
const PLAIN_IPV4: [u8; 3] = [0x08, 0x00, 0x45];
/// Offset of the protocol number in a frame.
const PROTOCOL: usize = 23;

/// Swaps source and destination: of Ethernet always, of IPv4 and UDP if there are such headers.
pub struct Echo<B> {
    burst: Burst<B>,
}

impl<B: Buffer> Default for Echo<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Buffer> Echo<B> {
    /// Creates the role.
    pub const fn new() -> Self {
        Self { burst: ArrayVec::new_const() }
    }

    /// Makes one pass over all NICs; returns how many frames were sent back.
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P) -> usize {
        let mut frames = 0;
        for nic in 0..platform.nics() {
            platform.receive(nic, &mut self.burst);
            if self.burst.is_empty() {
                continue;
            }
            self.burst.iter().for_each(Buffer::prefetch);
            for buffer in &mut self.burst {
                let len = buffer.len();
                turn(buffer.head(), len);
            }
            frames += self.burst.len();
            platform.transmit(nic, &mut self.burst);
        }
        frames
    }
}

/// Swaps the addresses. Checksums stay correct: a sum does not depend on the order of its terms.
#[inline(always)]
fn turn(head: &mut [u8; HEAD], len: usize) {
    swap::<6>(head, 0, 6);
    if len >= FLOW && head[12..15] == PLAIN_IPV4 {
        swap::<4>(head, 26, 30);
        if head[PROTOCOL] == frame::ipv4::UDP {
            swap::<2>(head, 34, 36);
        }
    }
}

#[inline(always)]
fn swap<const N: usize>(head: &mut [u8; HEAD], a: usize, b: usize) {
    let (mut first, mut second) = ([0; N], [0; N]);
    first.copy_from_slice(&head[a..a + N]);
    second.copy_from_slice(&head[b..b + N]);
    head[a..a + N].copy_from_slice(&second);
    head[b..b + N].copy_from_slice(&first);
}
