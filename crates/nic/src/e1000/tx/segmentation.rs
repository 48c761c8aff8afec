//! Segmentation of one large packet into frames (82540EM manual, "TCP Segmentation").
//!
//! ```text
//! what the driver provides | header |              payload               |   HDRLEN + PAYLEN octets
//! frames                   | header |   MSS    |
//!                          | header |   MSS    |
//!                          | header | the rest |
//! ```
//!
//! Every frame begins with a copy of the packet's header, in which these fields are adapted: lengths, the IPv4
//! identification, the TCP sequence number and flags, checksums.

use frame::offload::Segments;
use port::{Gso, Offload, Offloads};
use ring::e1000::Context;

use super::checksum::Zero;
use super::context::{Protocols, RequestedChecksums, ip_sum, transport_sum};

/// Lengths of the headers without options, in octets.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;
/// Offset of the EtherType; a smaller value than [`SMALLEST_TYPE`] is the length of an IEEE 802.3 frame.
const TYPE: usize = 12;
const SMALLEST_TYPE: u16 = 0x600;
/// TCP flags set in the last segment only.
const FIN_PSH: u8 = 0x09;
/// TCP flag set in the first segment only (RFC 3168, section 6.1.2).
const CWR: u8 = 0x80;

const NO_CONTEXT: Context = Context {
    ip_start: 0,
    ip_offset: 0,
    ip_end: 0,
    tcp_start: 0,
    tcp_offset: 0,
    tcp_end: 0,
    payload: 0,
    command: 0,
    status: 0,
    header: 0,
    mss: 0,
};

/// Reason why a packet cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentationError {
    /// The header lengths contradict each other, or segments would have no data.
    Lengths,
    /// A segment would exceed the maximum frame length.
    TooLong,
}

/// A packet that is being segmented.
#[derive(Clone, Debug)]
pub(super) struct Segmentation {
    context: Context,
    wanted: RequestedChecksums,
    header: [u8; 255],
    /// Octets of the header received so far.
    header_len: usize,
    /// Octets of payload received so far.
    taken: u32,
    /// Number of frames completed.
    frames: u32,
}

impl Segmentation {
    /// State without a packet.
    pub(super) const NONE: Self = Self {
        context: NO_CONTEXT,
        wanted: RequestedChecksums { ip: false, transport: false },
        header: [0; 255],
        header_len: 0,
        taken: 0,
        frames: 0,
    };

    /// Begins a packet for which these checksums are requested. Frames have at most `longest` octets.
    pub(super) fn new(
        context: Context,
        wanted: RequestedChecksums,
        longest: usize,
    ) -> Result<Self, SegmentationError> {
        let segment = u32::from(context.mss).min(context.payload) as usize;
        if segment == 0 || usize::from(context.header) < least_header(&context) {
            return Err(SegmentationError::Lengths);
        }
        if usize::from(context.header) + segment > longest {
            return Err(SegmentationError::TooLong);
        }
        Ok(Self { context, wanted, ..Self::NONE })
    }

    /// Returns the space for the next octets of the header; empty once the header is complete.
    pub(super) fn missing_header(&mut self) -> &mut [u8] {
        self.header.get_mut(self.header_len..usize::from(self.context.header)).unwrap_or_default()
    }

    /// Adds `n` octets to the header.
    pub(super) fn add_header(&mut self, n: usize) {
        self.header_len += n;
    }

    /// Returns the header, once it is complete.
    pub(super) fn header(&self) -> Option<&[u8]> {
        let all = self.header.get(..usize::from(self.context.header))?;
        (self.header_len == all.len()).then_some(all)
    }

    /// Returns how many octets of payload may be added to a frame that already has `present` of them.
    pub(super) fn room(&self, present: usize) -> usize {
        usize::from(self.context.mss).saturating_sub(present).min(self.left())
    }

    /// Adds `n` octets of payload.
    pub(super) fn add_payload(&mut self, n: usize) {
        self.taken += n as u32;
    }

    /// Returns how many octets of payload PAYLEN announces that have not been received.
    pub(super) const fn left(&self) -> usize {
        (self.context.payload - self.taken) as usize
    }

    /// Returns the number of frames completed.
    pub(super) const fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the offload metadata with which the packet can be left to the receiving port unsegmented, if the port
    /// accepts it and the packet is suitable. Call once the header is complete.
    pub(super) fn as_offload(&self, takes: Offloads) -> Option<Offload> {
        let (context, header) = (&self.context, self.header()?);
        let gso = match Protocols::of(context) {
            Protocols::Tcp4 => Gso::Tcp4,
            Protocols::Tcp6 => Gso::Tcp6,
            Protocols::Udp4 | Protocols::Any => return None,
        };
        let left = Offload::checksum(
            context.tcp_start.into(),
            context.tcp_offset.checked_sub(context.tcp_start)?.into(),
        )?
        .with_gso(gso, context.mss, context.header.into());
        // GSO metadata with ECN means that CWR is set in the first segment only; that holds here.
        let [flags] = get(header, usize::from(context.tcp_start) + 13);
        let left = if flags & CWR != 0 { left.with_ecn() } else { left };
        let summed = self.wanted.transport && (self.wanted.ip || gso == Gso::Tcp6) && context.tcp_end == 0;
        let len = header.len() + context.payload as usize;
        // The receiving port parses the headers itself, so it must find the same ones, at the place that the driver
        // gave.
        let sound = Segments::new(left, len, header).is_ok_and(|segments| segments.headers() == header.len());
        (summed && sound && takes.has(left.needed())).then_some(left)
    }

    /// Completes one frame of the header and the entire payload, which is segmented later.
    pub(super) fn complete_large(&mut self, frame: &mut [u8]) {
        self.frames += 1;
        let (ip, transport) = (ip_sum(&self.context), transport_sum(&self.context));
        match Protocols::of(&self.context) {
            Protocols::Tcp6 => set_ipv6(frame, ip.start.into()),
            _ => set_ipv4(frame, ip.start.into(), 0),
        }
        transport.add_length(frame);
        if self.wanted.ip {
            ip.insert(frame, Zero::Stays);
        }
    }

    /// Completes a frame of the header and the next part of the payload.
    pub(super) fn complete(&mut self, frame: &mut [u8], last: bool) {
        let (number, protocols) = (self.frames, Protocols::of(&self.context));
        self.frames += 1;
        let (ip, transport) = (ip_sum(&self.context), transport_sum(&self.context));
        set_802_3_length(frame);
        match protocols {
            Protocols::Any => {}
            Protocols::Tcp4 | Protocols::Udp4 => set_ipv4(frame, ip.start.into(), number),
            Protocols::Tcp6 => set_ipv6(frame, ip.start.into()),
        }
        match protocols {
            Protocols::Any => {}
            Protocols::Udp4 => set_udp(frame, transport.start.into()),
            Protocols::Tcp4 | Protocols::Tcp6 => {
                let before = number.wrapping_mul(u32::from(self.context.mss));
                set_tcp(frame, transport.start.into(), before, last);
            }
        }
        if self.wanted.transport {
            if protocols != Protocols::Any {
                transport.add_length(frame);
            }
            transport.insert(frame, Zero::AllOnes);
        }
        if self.wanted.ip {
            ip.insert(frame, Zero::Stays);
        }
    }
}

/// Returns the minimum length of a header that contains all fields to be adapted.
fn least_header(context: &Context) -> usize {
    let (ip, transport) = (usize::from(context.ip_start), usize::from(context.tcp_start));
    let (ip_len, transport_len) = match Protocols::of(context) {
        Protocols::Any => return ETHERNET,
        Protocols::Tcp4 => (IPV4, TCP),
        Protocols::Tcp6 => (IPV6, TCP),
        Protocols::Udp4 => (IPV4, UDP),
    };
    ETHERNET.max(ip + ip_len).max(transport + transport_len)
}

/// Stores octets; the header is known to be long enough.
fn put<const N: usize>(frame: &mut [u8], at: usize, octets: [u8; N]) {
    if let Some(place) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = octets;
    }
}

fn get<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    frame.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// Returns the number of octets from `start` to the end, less `header`, as a 16-bit field.
fn length_from(frame: &[u8], start: usize, header: usize) -> [u8; 2] {
    (frame.len().saturating_sub(start + header) as u16).to_be_bytes()
}

/// Sets the length of an IEEE 802.3 frame (SNAP), which other frames do not have.
fn set_802_3_length(frame: &mut [u8]) {
    if u16::from_be_bytes(get(frame, TYPE)) < SMALLEST_TYPE {
        put(frame, TYPE, length_from(frame, ETHERNET, 0));
    }
}

/// Sets total length and identification.
fn set_ipv4(frame: &mut [u8], ip: usize, number: u32) {
    put(frame, ip + 2, length_from(frame, ip, 0));
    let identification = u16::from_be_bytes(get(frame, ip + 4)).wrapping_add(number as u16);
    put(frame, ip + 4, identification.to_be_bytes());
}

/// Sets the payload length. The manual of the 8254x family specifies MSS + HDRLEN - IPCSS; those of later controllers
/// subtract the 40 octets of the IPv6 header, which are not payload (RFC 8200, section 3).
fn set_ipv6(frame: &mut [u8], ip: usize) {
    put(frame, ip + 4, length_from(frame, ip, IPV6));
}

fn set_udp(frame: &mut [u8], udp: usize) {
    put(frame, udp + 4, length_from(frame, udp, 0));
}

/// Sets the sequence number, `before` octets after the packet's, and the flags.
fn set_tcp(frame: &mut [u8], tcp: usize, before: u32, last: bool) {
    let sequence = u32::from_be_bytes(get(frame, tcp + 4)).wrapping_add(before);
    put(frame, tcp + 4, sequence.to_be_bytes());
    let [mut flags] = get(frame, tcp + 13);
    if !last {
        flags &= !FIN_PSH;
    }
    if before > 0 {
        flags &= !CWR;
    }
    put(frame, tcp + 13, [flags]);
}

#[cfg(test)]
mod tests;
