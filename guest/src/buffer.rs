//! Frame buffers: 2112 octets apart, the virtio-net header directly before the frame, both in the first cache line. The build
//! for jumbo frames (feature `jumbo`) has longer ones, so that each frame on a wire lies in one.
//!
//! A frame that is longer than a buffer occupies several, its pieces. Only the first piece is ever accessed; the locations of
//! the others are in a list in one more buffer (`segments`), whose address is stored behind the first piece:
//!
//! ```text
//!   at                                            at + CAPACITY
//!   +--------+---------------------------------+------+
//!   | header | frame, or its first piece       | list |   64 octets that no device writes
//!   +--------+---------------------------------+--|---+
//!                                                 v
//!                                     descriptors of all pieces
//! ```
//!
//! A frame that loses or gets the tags of a VLAN begins up to 8 octets later or earlier, and the header before it, too: what is
//! moved are the twelve octets before the tags. The octets before a buffer are the last ones behind the list of the buffer before.

use core::ptr;

use arrayvec::ArrayVec;
use bootinfo::{buffers, map};
use frame::offload::{Offload, VIRTIO};
use frame::vlan;
use router::{Buffer, HEAD};

use crate::segments::{self, MOST};

/// True in the build for jumbo frames.
pub(crate) const JUMBO: bool = cfg!(feature = "jumbo");
/// Distance between buffers, in octets. With 2048 the first lines of all buffers would fall into two sets of the L1 cache; 64
/// more cost a little memory and yield a far higher rate.
pub(crate) const STRIDE: u64 = buffers::stride(JUMBO);
/// Length of a virtio-net header in octets.
pub(crate) const HEADER: u32 = 12;
/// Octets of a buffer that the device may write: header and frame.
pub(crate) const CAPACITY: u32 = if JUMBO { buffers::JUMBO } else { buffers::PLAIN };

/// Bit in `marks`: the device has written the header.
const DESCRIBED: u16 = 1 << 15;
/// Mask in a token: number of pieces after the first. (Buffers are aligned to 64 octets.)
const FURTHER: u64 = 63;
/// Most octets by which a frame begins before or behind the place where it is received: those of two tags.
const MOST_SHIFT: i64 = (vlan::MOST * vlan::TAG) as i64;
/// Octets before the first buffer of a pool.
pub(crate) const HEADROOM: u64 = 64;
/// Length up to which a frame, with its header, certainly lies in its first piece.
pub(crate) const SURELY: u32 = CAPACITY - MOST_SHIFT as u32;
const _: () = assert!(MOST <= FURTHER as usize && STRIDE.is_multiple_of(FURTHER + 1));
const _: () = assert!(size_of::<u64>() + MOST_SHIFT as usize <= buffers::SPARE as usize);

/// Bits in the first two octets of a header (flags and gso_type) that mean pending work. The flag for a verified checksum
/// (VIRTIO_NET_HDR_F_DATA_VALID) is not among them: it is for receivers only (virtio 1.2, section 5.1.6.2).
const PENDING_OFFLOAD_MASK: u64 = 0xff01;

/// Frame owned by this vCPU, in one buffer or several.
pub(crate) struct FrameBuffer {
    at: u64,
    /// Length of the frame in octets.
    len: u32,
    /// Upper bound on the octets of the longest frame on the wire that results from it.
    wire: u16,
    /// [`DESCRIBED`]; and in the low octet, with a sign, what is added to `at` for the token.
    marks: u16,
}

impl FrameBuffer {
    /// Creates a frame of `len` octets in the buffer at `at`, which came from this vCPU's pool.
    #[inline(always)]
    pub(crate) fn new(at: u64, len: u32) -> Self {
        debug_assert!(at >= map::POOL);
        let len = len.min(CAPACITY - HEADER);
        Self { at, len, wire: len as u16, marks: 0 }
    }

    /// Creates a frame as received; if `described`, the header before it, written by the device, holds its offload metadata.
    #[inline(always)]
    pub(crate) fn received(at: u64, len: u32, described: bool) -> Self {
        let marks = if described { DESCRIBED } else { 0 };
        Self { marks, ..Self::new(at, len) }
    }

    /// Creates a described frame of `len` octets in the buffer at `at`, with `further` more pieces given by their list, at most
    /// 63.
    pub(crate) fn with_pieces(at: u64, len: u32, list: u64, further: u16) -> Self {
        // SAFETY: the buffer is RAM that only this vCPU uses; behind the part that devices write are 64 octets, aligned to 64.
        unsafe { ptr::write((at + u64::from(CAPACITY)) as *mut u64, list) };
        let mut frame = Self { at, len, wire: u16::MAX, marks: DESCRIBED | further };
        let offload = frame.offload();
        frame.wire = router::offload::wire_len(frame.octets(), offload, len as usize).min(0xffff) as u16;
        frame
    }

    /// Joins buffers into one frame of `octets`. All buffers but the last are full, and the first one holds the frame's
    /// offload metadata. If there are several, one more buffer takes their list. None if there is no buffer.
    pub(crate) fn joined(buffers: ArrayVec<Self, MOST>, list: Option<Self>, octets: usize) -> Option<Self> {
        let at: ArrayVec<u64, MOST> = buffers.into_iter().map(Self::into_token).collect();
        let first = *at.first()?;
        let Some(list) = list.map(Self::into_token) else {
            return Some(Self::received(first, octets as u32, true));
        };
        segments::write(list, &at, HEADER as usize + octets);
        Some(Self::with_pieces(first, octets as u32, list, at.len() as u16 - 1))
    }

    /// Returns the address of the first buffer and the number of pieces after the first, as one number.
    #[inline(always)]
    fn token(&self) -> u64 {
        self.at.wrapping_add_signed(i64::from(self.marks as i8))
    }

    /// Address of the first buffer.
    fn base(&self) -> u64 {
        self.token() & !FURTHER
    }

    /// Number of pieces after the first.
    fn further(&self) -> u64 {
        self.token() & FURTHER
    }

    /// Octets of the frame for which there is room in its first piece.
    fn room(&self) -> u32 {
        (self.base() + u64::from(CAPACITY - HEADER) - self.at) as u32
    }

    /// Changes the length to one for which the first piece may have no room; cuts it to what all pieces have room for.
    #[cold]
    #[inline(never)]
    fn set_long_len(&mut self, octets: usize) {
        let most = self.room() + self.further() as u32 * CAPACITY;
        self.len = octets.min(most as usize) as u32;
        self.wire = self.len.min(u32::from(u16::MAX)) as u16;
    }

    /// Gives up ownership: the token returns to a pool, directly or by way of the device.
    #[inline(always)]
    pub(crate) fn into_token(self) -> u64 {
        self.token()
    }

    /// Address of the header before the frame.
    #[inline(always)]
    pub(crate) fn address(&self) -> u64 {
        self.at
    }

    /// Prepares the list of a frame that does not fit into its first piece; returns the list, the number of its entries that are
    /// needed, and the octets in the first piece, header included. `None`: the frame lies in one piece.
    pub(crate) fn table(&self) -> Option<(u64, usize, u32)> {
        let first = self.room() + HEADER;
        let (list, count) = self.pieces().filter(|_| HEADER + self.len > first)?;
        // As if the frame began where its first buffer does.
        let octets = self.at.wrapping_sub(self.base()).wrapping_add(u64::from(HEADER + self.len));
        let entries = segments::cut(list, count, octets as usize);
        segments::begin(list, (self.at, first));
        Some((list, entries, first))
    }

    /// Lets the frame begin `by` octets later, or earlier, and moves its first `keep` octets there; its offload metadata follows.
    /// Returns false, and changes nothing, if that is too far, or the metadata cannot follow.
    fn shift(&mut self, keep: usize, by: i8) -> bool {
        let shift = self.at.wrapping_sub(self.base()) as i64 + i64::from(by);
        // A frame that begins later has its network header nearer to its beginning.
        let Some(offload) = self.offload().moved(-i16::from(by)) else { return false };
        let Some(len) = self.len.checked_add_signed(-i32::from(by)) else { return false };
        if shift.abs() > MOST_SHIFT || keep > len.min(self.len) as usize || keep > self.room() as usize {
            return false;
        }
        let (from, adjust) = (self.frame(), self.marks as i8 - by);
        self.at = self.at.wrapping_add_signed(by.into());
        // SAFETY: both ranges are exclusive RAM: `keep` octets of the first piece, and the same up to MOST_SHIFT octets later, where
        // the frame went on, or earlier, where this buffer's header was or the spare octets before it are.
        unsafe { ptr::copy(from, self.frame(), keep) };
        (self.len, self.marks) = (len, self.marks & !0xff | u16::from(adjust as u8));
        if offload.is_none() {
            self.clear_offload();
        } else {
            self.set_offload(offload);
            self.wire = router::offload::wire_len(self.octets(), offload, len as usize).min(0xffff) as u16;
        }
        true
    }

    /// Returns true if the frame may have several pieces, begin elsewhere than it was received, or have pending offload metadata.
    #[inline(always)]
    pub(crate) fn is_marked(&self) -> bool {
        self.marks != 0
    }

    /// Returns the list of the pieces and their number, if there are several.
    pub(crate) fn pieces(&self) -> Option<(u64, usize)> {
        let further = self.further() as usize;
        (further != 0).then(|| (list_of(self.base()), further + 1))
    }

    /// Turns the header into one that a driver may send (virtio 1.2, section 5.1.6.2).
    #[inline(always)]
    pub(crate) fn seal_header(&mut self) {
        let [low, high] = [self.at as *mut u64, (self.at + 8) as *mut u64];
        // SAFETY: the header is RAM that only this vCPU uses, 4-octet aligned: that of the buffer, up to MOST_SHIFT octets earlier or
        // later.
        unsafe {
            let said = if self.marks & DESCRIBED != 0 { low.read_unaligned() } else { 0 };
            if said & PENDING_OFFLOAD_MASK == 0 {
                low.write_unaligned(0);
                high.cast::<u32>().write(0);
            } else {
                // Keep it as received, but clear the flags that are not for devices, and the number of buffers.
                low.write_unaligned(said & !0xfe);
                high.cast::<u16>().add(1).write(0);
            }
        }
    }

    fn frame(&self) -> *mut u8 {
        (self.at + u64::from(HEADER)) as *mut u8
    }
}

impl Buffer for FrameBuffer {
    #[inline(always)]
    fn head(&mut self) -> &mut [u8; HEAD] {
        // SAFETY: exclusive RAM (see `new`) that holds at least HEADER + HEAD octets.
        unsafe { &mut *self.frame().cast::<[u8; HEAD]>() }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.len as usize
    }

    #[inline(always)]
    fn wire_len(&self) -> usize {
        usize::from(self.wire)
    }

    #[inline(always)]
    fn set_len(&mut self, octets: usize) {
        if octets <= (SURELY - HEADER) as usize {
            // Wherever the frame begins, its first piece has room for it.
            (self.len, self.wire) = (octets as u32, octets as u16);
        } else {
            self.set_long_len(octets);
        }
    }

    fn octets(&mut self) -> &mut [u8] {
        let here = self.len.min(self.room()) as usize;
        // SAFETY: exclusive RAM (see `new`) that holds at least HEADER + here octets.
        unsafe { core::slice::from_raw_parts_mut(self.frame(), here) }
    }

    fn read(&mut self, at: usize, target: &mut [u8]) -> bool {
        if at.checked_add(target.len()).is_none_or(|end| end > self.len()) {
            return false;
        }
        match self.pieces() {
            Some((list, count)) => {
                let from = self.at.wrapping_sub(self.base()).wrapping_add(u64::from(HEADER)) as usize;
                segments::read(list, count, from + at, target)
            }
            None => {
                target.copy_from_slice(&self.octets()[at..at + target.len()]);
                true
            }
        }
    }

    fn offload(&self) -> Offload {
        if self.marks & DESCRIBED == 0 {
            return Offload::NONE;
        }
        // SAFETY: exclusive RAM (see `new`) that begins with a header.
        let header = unsafe { ptr::read(self.at as *const [u8; VIRTIO]) };
        // Metadata that is invalid counts as none.
        Offload::from_virtio(header).unwrap_or(Offload::NONE)
    }

    fn clear_offload(&mut self) {
        self.marks &= !DESCRIBED;
        self.wire = self.len.min(u32::from(u16::MAX)) as u16;
    }

    fn set_offload(&mut self, offload: Offload) {
        // SAFETY: exclusive RAM (see `new`) that begins with a header.
        unsafe { ptr::write(self.at as *mut [u8; VIRTIO], offload.to_virtio()) };
        self.marks |= DESCRIBED;
    }

    fn take_out(&mut self, at: usize, octets: usize) -> bool {
        octets as i64 <= MOST_SHIFT && self.shift(at, octets as i8)
    }

    fn make_room(&mut self, at: usize, octets: usize) -> bool {
        octets as i64 <= MOST_SHIFT && self.shift(at, -(octets as i8))
    }

    #[inline(always)]
    fn prefetch(&self) {
        ring::prefetch::write(self.at as *const u8);
    }
}

/// Address of the list of the frame whose first buffer is at `at`.
fn list_of(at: u64) -> u64 {
    // SAFETY: RAM that only this vCPU uses; `with_pieces` wrote the word before it marked the frame.
    unsafe { ptr::read((at + u64::from(CAPACITY)) as *const u64) }
}

/// Free buffers of one vCPU: a stack, so that the most recently used buffer, still cached, is used next.
pub(crate) struct Pool {
    free: &'static mut [u64],
    len: usize,
    /// Passes for which large frames are still expected; set when one is seen.
    large: u32,
}

/// Number of passes after a large frame in which the next one is expected.
const EXPECT: u32 = 256;

impl Pool {
    /// Creates an empty pool with room for as many buffers as `free` has elements.
    pub(crate) fn new(free: &'static mut [u64]) -> Self {
        Self { free, len: 0, large: 0 }
    }

    /// Records that a large frame is arriving.
    pub(crate) fn expect_large(&mut self) {
        self.large = EXPECT;
    }

    /// Counts a pass; returns true while large frames are expected.
    #[inline(always)]
    pub(crate) fn count_pass(&mut self) -> bool {
        self.large > 0 && {
            self.large -= 1;
            true
        }
    }

    /// Number of free buffers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the address of a free buffer.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u64> {
        let top = self.len.checked_sub(1)?;
        self.len = top;
        self.free.get(top).copied()
    }

    /// Returns a buffer. The stack has room for every existing buffer.
    #[inline(always)]
    pub(crate) fn give(&mut self, at: u64) {
        if let Some(place) = self.free.get_mut(self.len) {
            *place = at;
            self.len += 1;
        }
    }

    /// Returns a frame with all its pieces, by its token.
    #[inline(always)]
    pub(crate) fn give_frame(&mut self, token: u64) {
        if token & FURTHER == 0 {
            self.give(token);
        } else {
            self.give_pieces(token);
        }
    }

    #[cold]
    #[inline(never)]
    fn give_pieces(&mut self, token: u64) {
        let (at, further) = (token & !FURTHER, (token & FURTHER) as usize);
        let list = list_of(at);
        for piece in segments::addresses(list, further + 1) {
            self.give(piece);
        }
        self.give(list);
    }
}
