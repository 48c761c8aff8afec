//! Frames of several pieces, and the list of the pieces. The list is itself the table of descriptors from which the
//! device reads the frame when it is sent (an indirect table). So the frame passes from one NIC to the next without being
//! copied, and takes one entry of a transmit ring.

use frame::offload::LARGEST;
use ledger::RouterNic;
use ring::split::Segment;
use router::Burst;

use crate::buffer::{CAPACITY, FrameBuffer, HEADER, Pool};

/// Number of pieces of the longest frame.
pub(crate) const MOST: usize = (HEADER as usize + LARGEST).div_ceil(CAPACITY as usize);
/// Alignment of buffers in octets.
const ALIGNMENT: u64 = 64;
/// Offset of the header field with the number of buffers that the frame occupies (virtio 1.2, section 5.1.6).
const NUM_BUFFERS: u64 = 10;

/// Entry of a list, in the device's format.
type Entry = [u64; 2];
const _: () = assert!(MOST * size_of::<Entry>() <= CAPACITY as usize);

/// Address of entry `index` of a list; `index` is less than [`MOST`].
fn entry(list: u64, index: usize) -> *mut Entry {
    (list as *mut Entry).wrapping_add(index)
}

/// Writes an entry.
fn set(list: u64, index: usize, piece: Segment, last: bool) {
    let words = piece.words((!last).then_some(index as u16 + 1));
    // SAFETY: a list is a buffer of this vCPU that nothing else uses, aligned to 64 octets; index is less than MOST.
    unsafe { entry(list, index).write(words) }
}

/// Writes the list of a frame of `octets`, including the header, that occupies these buffers in order, at most [`MOST`]
/// of them.
pub(crate) fn write(list: u64, buffers: &[u64], octets: usize) {
    let count = buffers.len().min(MOST);
    for (index, &address) in buffers.iter().enumerate().take(count) {
        set(list, index, Segment { address, len: CAPACITY, writable: false }, index + 1 == count);
    }
    cut(list, count, octets);
}

/// Returns the addresses of the buffers of the first `count` pieces.
pub(crate) fn addresses(list: u64, count: usize) -> impl Iterator<Item = u64> {
    // SAFETY: as in `set`; this many entries were written.
    let entry = move |index| unsafe { entry(list, index).read()[0] };
    // The first piece may begin a little before or behind the beginning of its buffer (`begin`).
    (0..count.min(MOST)).map(move |index| (entry(index) + ALIGNMENT / 2) & !(ALIGNMENT - 1))
}

/// Lets a frame of several pieces begin at `at`, near the beginning of its first buffer, with `octets` in that buffer. To be
/// called after [`cut`].
pub(crate) fn begin(list: u64, (at, octets): (u64, u32)) {
    set(list, 0, Segment { address: at, len: octets, writable: false }, false);
}

/// Copies octets from offset `from` on, counted from the start of the header; returns false if they are not all there.
pub(crate) fn read(list: u64, count: usize, mut from: usize, mut target: &mut [u8]) -> bool {
    for piece in addresses(list, count) {
        let Some(rest) = (CAPACITY as usize).checked_sub(from) else {
            from -= CAPACITY as usize;
            continue;
        };
        let (now, later) = target.split_at_mut(rest.min(target.len()));
        // SAFETY: a piece is a buffer of this vCPU with CAPACITY octets, of which `rest` lie behind `from`.
        unsafe {
            core::ptr::copy_nonoverlapping((piece as usize + from) as *const u8, now.as_mut_ptr(), now.len())
        };
        (from, target) = (0, later);
        if target.is_empty() {
            return true;
        }
    }
    target.is_empty()
}

/// Truncates a list to a frame of `octets`, counted from the beginning of its first buffer; returns the number of entries.
pub(crate) fn cut(list: u64, count: usize, octets: usize) -> usize {
    let entries = octets.div_ceil(CAPACITY as usize).clamp(1, count);
    let last = entries - 1;
    let len = (octets - last * CAPACITY as usize) as u32;
    if let Some(address) = addresses(list, entries).last() {
        set(list, last, Segment { address, len, writable: false }, true);
    }
    entries
}

/// Assembly of frames from the buffers of a receive queue.
#[derive(Default)]
pub(crate) struct FrameAssembler {
    /// True if the device writes offload metadata and the number of buffers before each frame.
    described: bool,
    /// [`CAPACITY`] within a frame of several buffers, otherwise 0.
    within: u32,
    /// Number of buffers of that frame that are still to come.
    missing: usize,
    /// Its list; none if the frame is being discarded.
    list: Option<u64>,
    /// Number of buffers that have come, and of octets in them.
    count: usize,
    octets: u32,
}

impl FrameAssembler {
    /// `described`: true if the device may write offload metadata and use several buffers for a frame.
    pub(crate) fn new(described: bool) -> Self {
        Self { described, ..Self::default() }
    }

    /// Takes a buffer into which the device has written this many octets; returns the octets of the frame that it
    /// completes. All but the last buffer of a frame are full (virtio 1.2, section 5.1.6.4.1), so the header need not be
    /// read as a rule.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        (at, written): (u64, u32),
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
        counters: &RouterNic,
    ) -> u64 {
        if written | self.within >= CAPACITY {
            return self.take_piece((at, written.min(CAPACITY)), burst, pool, counters);
        }
        let len = written.saturating_sub(HEADER);
        // A queue returns at most BURST buffers, and the burst was empty.
        let _ = burst.try_push(FrameBuffer::received(at, len, self.described));
        u64::from(len)
    }

    #[cold]
    #[inline(never)]
    fn take_piece(
        &mut self,
        (at, written): (u64, u32),
        burst: &mut Burst<FrameBuffer>,
        pool: &mut Pool,
        counters: &RouterNic,
    ) -> u64 {
        if self.missing == 0 {
            let buffers = if self.described { buffers(at) } else { 1 };
            if buffers <= 1 {
                let _ = burst.try_push(FrameBuffer::received(at, written - HEADER, self.described));
                return u64::from(written - HEADER);
            }
            self.begin(buffers, pool, counters);
        }
        self.missing -= 1;
        self.add((at, written), pool, counters);
        if self.missing > 0 {
            return 0;
        }
        self.within = 0;
        let Some(list) = self.list.take() else { return 0 };
        let Some(head) = addresses(list, 1).next() else { return 0 };
        let len = self.octets - HEADER;
        let _ = burst.try_push(FrameBuffer::with_pieces(head, len, list, self.count as u16 - 1));
        u64::from(len)
    }

    /// Begins a frame of several buffers.
    fn begin(&mut self, buffers: usize, pool: &mut Pool, counters: &RouterNic) {
        pool.expect_large();
        let list = if buffers <= MOST { pool.take() } else { None };
        if list.is_none() {
            counters.drop_rx_pieces.add(1);
        }
        *self = Self { described: true, within: CAPACITY, missing: buffers, list, count: 0, octets: 0 };
    }

    /// Adds a buffer to the frame.
    fn add(&mut self, (at, written): (u64, u32), pool: &mut Pool, counters: &RouterNic) {
        let Some(list) = self.list else { return pool.give(at) };
        let last = self.missing == 0;
        set(list, self.count, Segment { address: at, len: written, writable: false }, last);
        self.count += 1;
        self.octets += written;
        if written == 0 || !last && written < CAPACITY {
            // A conforming device never does that; the content of the frame is undefined.
            counters.drop_rx_pieces.add(1);
            addresses(list, self.count).for_each(|piece| pool.give(piece));
            pool.give(list);
            self.list = None;
        }
    }
}

/// Number of buffers of the frame that begins at `at`.
fn buffers(at: u64) -> usize {
    // SAFETY: a buffer of this vCPU, which the device has returned, aligned to 64 octets; it begins with a header.
    usize::from(unsafe { ((at + NUM_BUFFERS) as *const u16).read() })
}
