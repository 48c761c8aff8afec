//! Assembly of packets that cannot be sent from guest memory: those in several buffers, with checksums or a tag to
//! insert, to be padded, or to be segmented.
//!
//! Descriptors are fed one after the other, and one that yields more frames than the burst has room for is fed again.
//! So the size of a burst is bounded, however long a packet is and however small its segments are.

use std::ops::Range;

use arrayvec::ArrayVec;
use port::{Offload, Offloads};
use ring::e1000::{Context, Data, Descriptor, Legacy, tx};
use ring::{BURST, Bytes};

use super::super::TxSettings;
use super::assembly_buffer::{AssemblyBuffer, TAG};
use super::checksum::{Sum, Zero};
use super::context::{Contexts, RequestedChecksums, ip_sum, transport_sum};
use super::gso_buffer::GsoBuffer;
use super::segmentation::{Segmentation, SegmentationError};
use super::{SHORTEST, is_whole, longest};

/// A descriptor taken from the ring, and the unconsumed part of its buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartialDescriptor {
    pub(super) position: u16,
    pub(super) descriptor: Descriptor,
    /// Unconsumed octets.
    pub(super) octets: Bytes<'static>,
}

/// Result of feeding a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumed {
    /// The descriptor is consumed.
    Wholly,
    /// The burst is full: feed the descriptor again.
    Partly,
}

/// Location of a frame to be shown.
#[derive(Clone, Debug)]
pub(super) enum FrameLocation {
    /// In guest memory.
    GuestMemory(Bytes<'static>),
    /// In the room, with its pending offload metadata.
    AssemblyBuffer(Range<usize>, Offload),
    /// The large packet, from this octet on, with its pending offload metadata.
    Large(usize, Offload),
}

/// Output of one burst.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) frames: ArrayVec<FrameLocation, BURST>,
    /// Maximum number of frames.
    budget: usize,
    pub(super) drops: Drops,
    /// Packets that were completely segmented.
    pub(super) segmented: u64,
    /// Packets whose segmentation failed.
    pub(super) unsegmented: u64,
}

impl Output {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget: budget.min(BURST), ..Self::default() }
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= self.budget
    }
}

/// Counts of packets that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Drops {
    pub(super) short: u64,
    pub(super) long: u64,
    /// Packets with inconsistent segmentation parameters.
    pub(super) offload: u64,
}

impl Drops {
    pub(super) const fn all(self) -> u64 {
        self.short + self.long + self.offload
    }
}

/// State of the packet whose descriptors are being fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    /// No packet has begun.
    None,
    /// A packet that is one frame.
    Whole,
    /// A packet that is segmented.
    Cut,
    /// A frame that is dropped: descriptors are skipped up to its end.
    TooLong,
    /// A packet to be segmented that is dropped.
    FailedSegmentation(SegmentationError),
}

/// A packet that is one frame. Its octets are in the room.
#[derive(Debug, Default)]
struct Whole {
    context: Context,
    wanted: RequestedChecksums,
}

/// A packet that is segmented. The octets of its current frame are in the room.
#[derive(Debug)]
struct Cut {
    segmentation: Segmentation,
    tag: Option<[u8; TAG]>,
    /// True if the packet has more octets than PAYLEN says.
    surplus: bool,
    way: SegmentationMode,
}

/// Way in which a packet to be segmented leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentationMode {
    /// Not known before the header is complete.
    Unknown,
    /// Segmented here.
    Segments,
    /// As one frame, with this pending offload metadata.
    Large(Offload),
}

/// Assembles packets.
#[derive(Debug)]
pub(super) struct Assembly {
    contexts: Contexts,
    packet: Packet,
    whole: Whole,
    cut: Cut,
    room: AssemblyBuffer,
    large: GsoBuffer,
    /// Offloads that the next port accepts.
    leaves: Offloads,
}

impl Assembly {
    pub(super) fn new(settings: &TxSettings) -> Self {
        Self {
            contexts: Contexts::default(),
            packet: Packet::None,
            whole: Whole::default(),
            cut: Cut {
                segmentation: Segmentation::NONE,
                tag: None,
                surplus: false,
                way: SegmentationMode::Unknown,
            },
            room: AssemblyBuffer::new(longest(settings)),
            large: GsoBuffer::default(),
            leaves: Offloads::NONE,
        }
    }

    /// Sets the offloads that the next port accepts from now on.
    pub(super) fn set_sink_offloads(&mut self, leaves: Offloads) {
        self.leaves = leaves;
    }

    /// Returns true if no packet has begun.
    #[inline(always)]
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.packet, Packet::None)
    }

    /// Begins a burst: frees the frames of the last one.
    pub(super) fn begin_burst(&mut self) {
        self.room.begin_burst();
        self.large.begin_burst();
    }

    /// Returns the memory of frames in [`FrameLocation::AssemblyBuffer`], and of the large packet.
    pub(super) fn octets(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.room.octets(), self.large.octets())
    }

    /// Consumes the rest of a descriptor, as far as the burst has room.
    pub(super) fn feed(
        &mut self,
        taken: &mut PartialDescriptor,
        settings: &TxSettings,
        out: &mut Output,
    ) -> Consumed {
        match Kind::of(taken.descriptor) {
            Kind::Context => self.contexts.set(taken.descriptor),
            Kind::Reserved => {}
            Kind::Data | Kind::Legacy => return self.feed_data(taken, settings, out),
        }
        Consumed::Wholly
    }

    fn feed_data(
        &mut self,
        taken: &mut PartialDescriptor,
        settings: &TxSettings,
        out: &mut Output,
    ) -> Consumed {
        if out.is_full() || !self.room.has_place() {
            return Consumed::Partly;
        }
        if self.is_idle() {
            if is_whole(taken.descriptor, taken.octets.len(), settings) {
                out.frames.push(FrameLocation::GuestMemory(taken.octets));
                return Consumed::Wholly;
            }
            self.begin(taken.descriptor, settings);
        }
        let ends = taken.descriptor.command() & tx::EOP != 0;
        let fed = match self.packet {
            Packet::Whole => self.gather(taken, ends, settings, out),
            Packet::Cut => self.cut(taken, ends, settings, out),
            Packet::None | Packet::TooLong | Packet::FailedSegmentation(_) => Consumed::Wholly,
        };
        if ends && fed == Consumed::Wholly {
            self.end(out);
        }
        fed
    }

    /// Begins a packet; its first descriptor determines its kind.
    fn begin(&mut self, descriptor: Descriptor, settings: &TxSettings) {
        let mut wanted = RequestedChecksums::default();
        if Kind::of(descriptor) == Kind::Data {
            wanted = RequestedChecksums::by(Data::from(descriptor).options);
            if descriptor.command() & tx::TSE != 0 {
                return self.begin_cut(wanted, tag(descriptor, settings), settings);
            }
        }
        self.packet = Packet::Whole;
        self.whole = Whole { context: self.contexts.normal, wanted };
    }

    fn begin_cut(&mut self, wanted: RequestedChecksums, tag: Option<[u8; TAG]>, settings: &TxSettings) {
        let longest = longest(settings) - tag.map_or(0, |tag| tag.len());
        self.packet = match Segmentation::new(self.contexts.segmentation, wanted, longest) {
            Ok(segmentation) => {
                self.cut = Cut { segmentation, tag, surplus: false, way: SegmentationMode::Unknown };
                Packet::Cut
            }
            Err(nonsense) => Packet::FailedSegmentation(nonsense),
        };
    }

    /// Ends a packet after its last octet; counts it if it was dropped.
    fn end(&mut self, out: &mut Output) {
        match self.packet {
            Packet::None | Packet::Whole => {}
            Packet::TooLong => out.drops.long += 1,
            Packet::FailedSegmentation(nonsense) => {
                out.unsegmented += 1;
                *(match nonsense {
                    SegmentationError::Lengths => &mut out.drops.offload,
                    SegmentationError::TooLong => &mut out.drops.long,
                }) += 1;
            }
            Packet::Cut => self.end_cut(out),
        }
        self.packet = Packet::None;
        self.room.discard();
        self.large.discard();
    }

    /// Adds a buffer to a frame, and completes the frame with the last one.
    fn gather(
        &mut self,
        taken: &PartialDescriptor,
        ends: bool,
        settings: &TxSettings,
        out: &mut Output,
    ) -> Consumed {
        let copied = taken.octets.copy_to_slice(self.room.free());
        self.room.add(copied);
        let tag = if ends { tag(taken.descriptor, settings) } else { None };
        let len = self.room.len() + tag.map_or(0, |tag| tag.len());
        if copied < taken.octets.len() || len > longest(settings) {
            self.packet = Packet::TooLong;
            self.room.discard();
        } else if ends && self.room.len() < SHORTEST {
            out.drops.short += 1;
        } else if ends {
            let left = self.whole.insert_sums(taken.descriptor, self.leaves, self.room.frame());
            let left = moved(left, tag);
            out.frames.push(FrameLocation::AssemblyBuffer(self.room.finish(tag, settings.pad_short), left));
        }
        Consumed::Wholly
    }

    /// Adds a buffer to a packet that is segmented. A frame is completed once it is known whether it is the last.
    fn cut(
        &mut self,
        taken: &mut PartialDescriptor,
        ends: bool,
        settings: &TxSettings,
        out: &mut Output,
    ) -> Consumed {
        self.cut_header(taken);
        let Some(header) = self.cut.segmentation.header().map(<[u8]>::len) else { return Consumed::Wholly };
        if self.cut.way == SegmentationMode::Unknown {
            self.cut.way = self
                .cut
                .segmentation
                .as_offload(self.leaves)
                .map_or(SegmentationMode::Segments, SegmentationMode::Large);
        }
        if let SegmentationMode::Large(left) = self.cut.way {
            return self.gather_large(taken, ends, left, out);
        }
        while !taken.octets.is_empty() {
            if self.cut.segmentation.left() == 0 {
                self.cut.surplus = true;
                taken.octets = Bytes::EMPTY;
            } else if self.room.len() == 0 {
                if !self.begin_segment() {
                    return Consumed::Partly;
                }
            } else if self.cut.segmentation.room(self.room.len() - header) > 0 {
                self.cut_payload(taken, header);
            } else if out.is_full() {
                return Consumed::Partly;
            } else {
                self.finish_segment(false, settings, out);
            }
        }
        if ends && self.room.len() > 0 {
            if out.is_full() {
                return Consumed::Partly;
            }
            self.finish_segment(true, settings, out);
        }
        Consumed::Wholly
    }

    /// Adds a buffer to a packet that is segmented later (GSO).
    fn gather_large(
        &mut self,
        taken: &mut PartialDescriptor,
        ends: bool,
        left: Offload,
        out: &mut Output,
    ) -> Consumed {
        let Some(header) = self.cut.segmentation.header() else { return Consumed::Wholly };
        // There is memory for only one such packet.
        if !self.large.begin(header) {
            return Consumed::Partly;
        }
        let copied = self.large.add(taken.octets.take(self.cut.segmentation.left() as u32));
        self.cut.segmentation.add_payload(copied);
        self.cut.surplus |= copied < taken.octets.len();
        taken.octets = Bytes::EMPTY;
        if ends && self.large.frame().len() > self.cut.segmentation.header().map_or(0, <[u8]>::len) {
            self.cut.segmentation.complete_large(self.large.frame());
            out.frames.push(FrameLocation::Large(self.large.finish(self.cut.tag), moved(left, self.cut.tag)));
        }
        Consumed::Wholly
    }

    fn cut_header(&mut self, taken: &mut PartialDescriptor) {
        let copied = taken.octets.copy_to_slice(self.cut.segmentation.missing_header());
        self.cut.segmentation.add_header(copied);
        taken.octets = taken.octets.skip(copied as u32);
    }

    fn cut_payload(&mut self, taken: &mut PartialDescriptor, header: usize) {
        let room = self.cut.segmentation.room(self.room.len() - header);
        let copied = taken.octets.take(room as u32).copy_to_slice(self.room.free());
        self.room.add(copied);
        self.cut.segmentation.add_payload(copied);
        taken.octets = taken.octets.skip(copied as u32);
    }

    /// Puts the header at the start of the next frame; returns false if there is no room for a frame.
    fn begin_segment(&mut self) -> bool {
        let (true, Some(header)) = (self.room.has_place(), self.cut.segmentation.header()) else {
            return false;
        };
        for (place, octet) in self.room.free().iter_mut().zip(header) {
            *place = *octet;
        }
        self.room.add(header.len());
        true
    }

    fn finish_segment(&mut self, last: bool, settings: &TxSettings, out: &mut Output) {
        self.cut.segmentation.complete(self.room.frame(), last);
        let range = self.room.finish(self.cut.tag, settings.pad_short);
        out.frames.push(FrameLocation::AssemblyBuffer(range, Offload::NONE));
    }

    fn end_cut(&self, out: &mut Output) {
        let segmentation = &self.cut.segmentation;
        if segmentation.header().is_none() {
            out.drops.short += 1;
        } else if segmentation.frames() == 0 {
            out.drops.offload += 1;
        }
        let wholly = segmentation.left() == 0 && !self.cut.surplus;
        *(if wholly { &mut out.segmented } else { &mut out.unsegmented }) += 1;
    }
}

impl Whole {
    /// Inserts the checksums that the packet's first data descriptor requests, and the one of the legacy descriptor at
    /// its end. Returns the offload metadata left to the receiving port.
    fn insert_sums(&self, last: Descriptor, takes: Offloads, frame: &mut [u8]) -> Offload {
        let mut left = Offload::NONE;
        if self.wanted.transport {
            left = self.leave(takes, frame.len()).unwrap_or_default();
            if left.is_none() {
                transport_sum(&self.context).insert(frame, Zero::AllOnes);
            }
        }
        if self.wanted.ip {
            ip_sum(&self.context).insert(frame, Zero::Stays);
        }
        if Kind::of(last) == Kind::Legacy && last.command() & tx::IC != 0 {
            let Legacy { css: start, cso: at, .. } = last.into();
            Sum { start, at, end: 0 }.insert(frame, Zero::Stays);
        }
        left
    }

    /// Returns the transport checksum as pending offload metadata, if the port accepts that and it is equivalent.
    fn leave(&self, takes: Offloads, len: usize) -> Option<Offload> {
        let Sum { start, at, end } = transport_sum(&self.context);
        let left = Offload::checksum(start.into(), at.checked_sub(start)?.into())?;
        (takes.has(Offloads::CSUM) && end == 0 && left.fits(len)).then_some(left)
    }
}

/// Adapts offload metadata to a frame into which a tag is inserted.
fn moved(left: Offload, tag: Option<[u8; TAG]>) -> Offload {
    left.moved(tag.map_or(0, |tag| tag.len() as i16)).unwrap_or_default()
}

/// Returns the tag that a descriptor requests, if tags are inserted at all: EtherType, then the tag itself.
fn tag(descriptor: Descriptor, settings: &TxSettings) -> Option<[u8; TAG]> {
    if !settings.vlan || descriptor.command() & tx::VLE == 0 {
        return None;
    }
    let [a, b] = settings.vlan_type.to_be_bytes();
    let [c, d] = Legacy::from(descriptor).special.to_be_bytes();
    Some([a, b, c, d])
}

/// Format of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Legacy,
    Context,
    Data,
    /// A reserved DTYP: no data, but a status report can be requested.
    Reserved,
}

impl Kind {
    pub(super) const fn of(descriptor: Descriptor) -> Self {
        match (descriptor.command() & tx::DEXT, descriptor.kind()) {
            (0, _) => Self::Legacy,
            (_, tx::CONTEXT) => Self::Context,
            (_, tx::DATA) => Self::Data,
            _ => Self::Reserved,
        }
    }
}
