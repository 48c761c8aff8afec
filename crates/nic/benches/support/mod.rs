//! Memory of a guest simulated in this program.

use ring::Region;
use ring::split::Layout;

/// Distance of two buffers: with 2048 all their first lines would share few cache sets.
const STRIDE: u64 = 2112;
/// Guest-physical address of the memory.
const START: u64 = 0x10_0000;

/// Some queues, then buffers.
pub(crate) struct Memory {
    pub(crate) region: Region,
    size: u16,
    buffers: u64,
}

impl Memory {
    /// Allocates room for `queues` of `size` entries and this many buffers, and leaks it.
    pub(crate) fn new(queues: u64, size: u16, buffers: u16) -> Self {
        let rings = (queues * Layout::octets(size)).next_multiple_of(4096);
        let len = (rings + u64::from(buffers) * STRIDE) as usize;
        let octets = Box::leak(vec![0; len + 4096].into_boxed_slice());
        let skew = octets.as_ptr().align_offset(4096);
        let octets = &mut octets[skew..skew + len];
        octets[rings as usize..].fill(2);
        Self { region: Region::from_static(octets, START), size, buffers: START + rings }
    }

    /// Returns the location of a queue.
    pub(crate) fn layout(&self, queue: u64) -> Layout {
        Layout::contiguous(self.size, START + queue * Layout::octets(self.size))
    }

    /// Returns the address of a buffer.
    pub(crate) fn buffer(&self, number: u16) -> u64 {
        self.buffers + u64::from(number) * STRIDE
    }
}
