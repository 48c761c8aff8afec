//! Data path of the transmit queue: frames from the guest are shown in guest memory (virtio 1.2, section 5.1.6.2).
//!
//! Each chain is a header of [`HEADER`] octets, then a frame. A frame in one buffer, with the header in the same or in
//! a buffer of its own, is shown in guest memory; a frame in more pieces is gathered into a private buffer first.
//!
//! The offload metadata in a header is read once. Usually all of it is zero, which the OR of a burst's headers shows;
//! headers are not read at all if the driver has negotiated no offload. A frame whose header requests an offload that
//! was not negotiated, or one that does not fit the frame, is dropped (`drop_bad_offload`). A claim that a checksum was
//! verified is ignored, because the sender is not trusted.

use frame::offload::{LARGEST, VIRTIO};
use ledger::NicDirection;
use port::{Frame, Frames, Offload, Offloads};
use ring::split::{Broken, Burst, Chain, DeviceQueue};
use ring::{BURST, Bytes};

/// Length of the header before each frame in octets (`struct virtio_net_hdr_v1`).
pub const HEADER: usize = 12;
/// Length of the shortest frame in octets: an Ethernet header.
pub const SHORTEST: usize = 14;
/// Additional room for the frames of one burst that have to be gathered; the total is eight frames of the largest size.
/// (With room for two, a guest that forwards such frames is interrupted far more often.)
const GATHER: usize = 7 * LARGEST;
/// Mask of the first word of a header: the bits that request an offload (NEEDS_CSUM and a gso_type), which
/// [`Offload::from_virtio`] decodes. The other bits, DATA_VALID and undefined flags, are ignored.
const ASKS: u64 = 0xff01;

/// Result of one call of [`TxQueue::drain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Number of frames that left the queue: those shown, and those dropped.
    pub frames: usize,
    /// True if the driver wants an interrupt.
    pub interrupt: bool,
}

/// The device's data path of one transmit queue.
#[derive(Debug)]
pub struct TxQueue {
    queue: DeviceQueue,
    burst: Burst,
    /// Maximum length in octets, without FCS, of a frame that is not segmented.
    longest: usize,
    /// Offloads that the driver may request.
    offloads: Offloads,
    /// Buffer for frames in several pieces; empty until first used.
    gathered: Vec<u8>,
    /// True if the broken ring was counted.
    reported: bool,
}

/// Contents of a chain.
enum Content {
    /// A frame in one piece.
    Whole(Bytes<'static>),
    /// A frame of this many octets in several pieces, behind the header.
    Pieces(usize),
    Nothing(Fault),
}

/// Reason why a frame is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    TooShort,
    TooLong,
    BadOffload,
}

/// Counts of frames of one burst that were not shown.
#[derive(Default)]
struct Dropped {
    short: usize,
    long: usize,
    offload: usize,
}

/// Counts of frames of one burst that carry pending offload metadata.
#[derive(Default)]
struct PendingOffloads {
    checksums: u64,
    segments: u64,
}

impl TxQueue {
    /// Creates the data path of a queue. `longest`: maximum length in octets of a frame that is let through, without
    /// FCS.
    pub fn new(queue: DeviceQueue, longest: usize) -> Self {
        let offloads = Offloads::NONE;
        Self { queue, burst: Burst::new(), longest, offloads, gathered: Vec::new(), reported: false }
    }

    /// Sets the offloads that the driver may request.
    #[must_use]
    pub fn with_offloads(self, offloads: Offloads) -> Self {
        Self { offloads, ..self }
    }

    /// Shows up to `budget` (at most [`BURST`]) frames to `take`, in order and in one call, then returns their buffers
    /// to the driver. Shows none if none waits or the ring is broken. Counts frames, drops and the interrupt in
    /// `ledger`.
    #[inline]
    pub fn drain(
        &mut self,
        budget: usize,
        ledger: &NicDirection,
        take: &mut dyn FnMut(&[Frame<'_>]),
    ) -> Drained {
        match self.queue.take_readable(budget.min(BURST), &mut self.burst) {
            Ok(0) => {
                ledger.polls_empty.add(1);
                Drained::default()
            }
            Ok(_) => {
                if self.burst.is_simple() && !self.asks() {
                    self.show_simple(ledger, take);
                } else {
                    self.show_any(ledger, take);
                }
                self.finish(ledger)
            }
            Err(_) => self.report(ledger),
        }
    }

    /// Returns true if, in a burst of single-buffer chains, a header requests an offload.
    #[inline(always)]
    fn asks(&self) -> bool {
        let header = |chain: &Chain| chain.only().read(0).map_or(0, u64::from_le_bytes);
        !self.offloads.is_none()
            && self.burst.chains().iter().fold(0, |all, chain| all | header(chain)) & ASKS != 0
    }

    /// Shows a burst of single-buffer chains whose headers do not matter.
    #[inline(always)]
    fn show_simple(&mut self, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        let (mut frames, mut bytes, mut dropped) = (Frames::new_const(), 0, Dropped::default());
        for chain in self.burst.chains() {
            let octets = chain.only().skip(HEADER as u32);
            if octets.len().wrapping_sub(SHORTEST) <= self.longest - SHORTEST {
                bytes += octets.len() as u64;
                frames.push(Frame::new(octets));
            } else {
                let short = octets.len() < SHORTEST && !chain.too_many();
                dropped.add(if short { Fault::TooShort } else { Fault::TooLong });
            }
        }
        hand_over(&frames, bytes, &dropped, ledger, take);
    }

    /// Shows a burst of any kind.
    #[cold]
    fn show_any(&mut self, ledger: &NicDirection, take: &mut dyn FnMut(&[Frame<'_>])) {
        let largest = if self.offloads.segments() { LARGEST } else { self.longest };
        if self.gathered.is_empty() {
            // Zeroed lazily by the allocator: unused pages take no memory.
            self.gathered = vec![0; GATHER + largest];
        }
        let (mut frames, mut bytes, mut dropped) = (Frames::new_const(), 0, Dropped::default());
        let (mut room, mut keep, mut left) =
            (&mut self.gathered[..], self.burst.len(), PendingOffloads::default());
        for (i, chain) in self.burst.chains().iter().enumerate() {
            let offload = offload(self.burst.readable(chain), self.offloads);
            let octets = match content(&self.burst, chain, offload, self.longest) {
                Content::Whole(octets) => octets,
                Content::Pieces(len) if len <= room.len() => {
                    let (frame, rest) = room.split_at_mut(len);
                    room = rest;
                    gather(self.burst.readable(chain), frame);
                    Bytes::from_slice(frame)
                }
                Content::Pieces(_) => {
                    keep = i;
                    break;
                }
                Content::Nothing(fault) => {
                    dropped.add(fault);
                    continue;
                }
            };
            bytes += octets.len() as u64;
            let offload = offload.unwrap_or_default();
            left.add(offload);
            frames.push(Frame::with_offload(octets, offload));
        }
        left.count(ledger);
        hand_over(&frames, bytes, &dropped, ledger, take);
        // The remaining chains come again in the next burst, when the whole buffer is free.
        self.queue.give_back(&mut self.burst, keep);
    }

    /// Returns the burst's buffers to the driver.
    #[inline(always)]
    fn finish(&mut self, ledger: &NicDirection) -> Drained {
        self.queue.complete_all(&self.burst);
        let interrupt = self.queue.publish();
        let counter = if interrupt { &ledger.interrupts } else { &ledger.interrupts_suppressed };
        counter.add(1);
        Drained { frames: self.burst.len(), interrupt }
    }

    #[cold]
    fn report(&mut self, ledger: &NicDirection) -> Drained {
        if !self.reported {
            self.reported = true;
            ledger.drop_bad_ring.add(1);
        }
        Drained::default()
    }

    /// Returns true if frames wait; false on a broken ring.
    pub fn has_frames(&mut self) -> bool {
        self.queue.ready(1).is_ok_and(|waiting| waiting > 0)
    }

    /// Returns the available index of the next chain, at which another backend can continue.
    pub fn index(&self) -> u16 {
        self.queue.index()
    }

    /// Asks for a kick when the next frame arrives; returns true if one waits already.
    pub fn arm(&mut self) -> bool {
        self.queue.arm()
    }

    /// Declines kicks, for a device that polls.
    pub fn disarm(&mut self) {
        self.queue.disarm();
    }

    /// Returns the reason why the ring stopped, if it did.
    pub fn broken(&self) -> Option<Broken> {
        self.queue.broken()
    }
}

impl Dropped {
    #[cold]
    fn add(&mut self, fault: Fault) {
        *match fault {
            Fault::TooShort => &mut self.short,
            Fault::TooLong => &mut self.long,
            Fault::BadOffload => &mut self.offload,
        } += 1;
    }
}

impl PendingOffloads {
    fn add(&mut self, offload: Offload) {
        self.checksums += u64::from(offload.needs_csum());
        self.segments += u64::from(offload.gso().is_some());
    }

    fn count(&self, ledger: &NicDirection) {
        ledger.left_checksum.add(self.checksums);
        ledger.left_segments.add(self.segments);
    }
}

/// Counts the frames and shows them to `take`.
#[inline(always)]
fn hand_over(
    frames: &[Frame<'_>],
    bytes: u64,
    dropped: &Dropped,
    ledger: &NicDirection,
    take: &mut dyn FnMut(&[Frame<'_>]),
) {
    if dropped.short + dropped.long + dropped.offload > 0 {
        ledger.drop_too_short.add(dropped.short as u64);
        ledger.drop_too_long.add(dropped.long as u64);
        ledger.drop_bad_offload.add(dropped.offload as u64);
    }
    if !frames.is_empty() {
        take(frames);
        ledger.frames.add(frames.len() as u64);
        ledger.bytes.add(bytes);
        ledger.batches.add(1);
    }
}

/// Returns the offload that a header requests; `None` if the driver may not request it.
fn offload(segments: &[Bytes<'static>], allowed: Offloads) -> Option<Offload> {
    if allowed.is_none() {
        return Some(Offload::NONE);
    }
    let mut header = [0; VIRTIO];
    let mut at = 0;
    for segment in segments {
        at += segment.copy_to_slice(header.get_mut(at..)?);
        if at == VIRTIO {
            break;
        }
    }
    let offload = Offload::from_virtio(header).ok()?;
    let agreed = allowed.has(offload.needed());
    agreed.then(|| if offload.is_work() { offload } else { Offload::NONE })
}

/// Determines the contents of a chain of any shape.
fn content(burst: &Burst, chain: &Chain, offload: Option<Offload>, longest: usize) -> Content {
    let segments = burst.readable(chain);
    let total: usize = segments.iter().map(Bytes::len).sum();
    let len = total.saturating_sub(HEADER);
    // A large frame whose segments would be too long is segmented all the same, and the segments are dropped at their
    // receiver.
    let large = offload.is_some_and(|offload| offload.gso().is_some());
    if len > if large { LARGEST } else { longest } || chain.too_many() {
        return Content::Nothing(Fault::TooLong);
    }
    if len < SHORTEST {
        return Content::Nothing(Fault::TooShort);
    }
    if !offload.is_some_and(|offload| offload.fits(len)) {
        return Content::Nothing(Fault::BadOffload);
    }
    let mut header = HEADER;
    for segment in segments {
        if segment.len() > header {
            let frame = segment.skip(header as u32);
            return if frame.len() == len { Content::Whole(frame) } else { Content::Pieces(len) };
        }
        header -= segment.len();
    }
    Content::Nothing(Fault::TooShort)
}

/// Copies the frame without the header; the target is as long as the frame.
fn gather(segments: &[Bytes<'static>], mut target: &mut [u8]) {
    let mut header = HEADER;
    for segment in segments {
        let piece = segment.skip(header as u32);
        header = header.saturating_sub(segment.len());
        let copied = piece.copy_to_slice(target);
        target = &mut target[copied..];
    }
}

#[cfg(test)]
mod offload_tests;
#[cfg(test)]
mod tests;
