//! Source of large TCP packets over IPv4, up to 64 KiB each, to be segmented further down the path: an e1000 segments them
//! itself, virtio-net passes them on unsegmented.

use arrayvec::ArrayVec;
use bootinfo::{BootFailure, NicModel};
use frame::offload::{Gso, Offload};
use frame::{Mac, checksum, ethernet, ipv4, tcp};
use router::{Buffer, Burst, Platform};

use crate::boot::Vcpu;
use crate::buffer::{CAPACITY, FrameBuffer, HEADER};
use crate::platform::Firmware;
use crate::roles;
use crate::segments::MOST;
use crate::serve::Duty;

/// Index of the NIC that it sends by.
const NIC: usize = 0;
/// Most frames sent in one pass, so that the host is still answered.
const FRAMES: usize = 8;
/// Source port, and destination port: discard (RFC 863).
const PORTS: (u16, u16) = (1024, 9);
/// Offsets of the IPv4 header, of the TCP header, and of the end of the latter.
const IP: usize = ethernet::HEADER;
const TCP: usize = IP + ipv4::HEADER;
const HEADERS: usize = TCP + tcp::HEADER;
/// Offset of the checksum in the TCP header.
const CHECKSUM: usize = 16;
/// Length of the longest frame: an Ethernet header and the longest IPv4 packet.
const LONGEST: usize = ethernet::HEADER + 65_535;

/// Source of large packets.
pub(crate) struct TsoSource {
    headers: [u8; HEADERS],
    octets: usize,
    offload: Offload,
    /// Entries of the transmit ring that a frame needs.
    entries: usize,
    burst: Burst<FrameBuffer>,
    /// TCP sequence number of the next frame.
    sequence: u32,
}

/// Creates the source that the host configured. Fails if the NIC cannot send such frames, or if its ring cannot hold one.
pub(crate) fn source(vcpu: &Vcpu) -> Result<TsoSource, BootFailure> {
    let (orders, traffic) = (&vcpu.info.traffic, roles::traffic(vcpu)?);
    let octets = (orders.frame_len as usize).clamp(HEADERS + 1, LONGEST);
    let offload = offload(orders.segment_len as usize).ok_or(BootFailure::BootInfo)?;
    // An e1000 needs a context descriptor, a descriptor for each buffer, and the one that stays free; virtio-net needs one
    // entry (an indirect table).
    let e1000 = vcpu.info.nics[NIC].model == NicModel::E1000 as u32;
    let entries = if e1000 { 1 + pieces(octets) } else { 1 };
    if entries >= vcpu.info.ring_size as usize {
        return Err(BootFailure::BootInfo);
    }
    if !vcpu.firmware.sendable(NIC).has(offload.needed()) {
        return Err(BootFailure::Nic);
    }
    let headers = headers(&traffic, octets);
    Ok(TsoSource { headers, octets, offload, entries, burst: ArrayVec::new_const(), sequence: 0 })
}

/// Offload metadata of the frames, for segments of this many octets.
fn offload(segment: usize) -> Option<Offload> {
    let mss = u16::try_from(segment.checked_sub(HEADERS)?).ok().filter(|mss| *mss > 0)?;
    let checksum = Offload::checksum(TCP as u16, CHECKSUM as u16)?;
    Some(checksum.with_gso(Gso::Tcp4, mss, HEADERS as u16))
}

/// Number of buffers that a frame of this many octets occupies.
fn pieces(octets: usize) -> usize {
    (HEADER as usize + octets).div_ceil(CAPACITY as usize)
}

impl Duty for TsoSource {
    const LISTENS: bool = false;

    fn pass(&mut self, firmware: &mut Firmware) -> usize {
        let sent = (0..FRAMES).take_while(|_| self.send(firmware)).count();
        if sent < FRAMES {
            firmware.await_sent(NIC);
        }
        roles::count(firmware, sent)
    }
}

impl TsoSource {
    /// Sends a frame; returns false if there is no room, or not enough buffers.
    fn send(&mut self, firmware: &mut Firmware) -> bool {
        if firmware.room(NIC) < self.entries {
            return false;
        }
        let Some(frame) = self.build(firmware) else { return false };
        self.burst.push(frame);
        firmware.transmit(NIC, &mut self.burst);
        true
    }

    /// Builds a frame; none if there are not enough buffers.
    fn build(&mut self, firmware: &mut Firmware) -> Option<FrameBuffer> {
        let (list, mut pieces) = allocate(firmware, pieces(self.octets))?;
        let first = pieces.first_mut()?;
        first.head()[..HEADERS].copy_from_slice(&self.headers);
        first.head()[TCP + 4..TCP + 8].copy_from_slice(&self.sequence.to_be_bytes());
        first.set_offload(self.offload);
        self.sequence = self.sequence.wrapping_add((self.octets - HEADERS) as u32);
        FrameBuffer::joined(pieces, list, self.octets)
    }
}

/// Buffers of a frame's pieces.
type Pieces = ArrayVec<FrameBuffer, MOST>;

/// Allocates this many buffers, at most [`MOST`], and if there are several, one more for their list; none if there are too
/// few. The list comes first, so that it gets the buffer on top of the stack, which was the last list.
fn allocate(firmware: &mut Firmware, count: usize) -> Option<(Option<FrameBuffer>, Pieces)> {
    let list = if count > 1 { Some(firmware.allocate()?) } else { None };
    let mut pieces = Pieces::new();
    while pieces.len() < count {
        let Some(buffer) = firmware.allocate() else {
            pieces.drain(..).chain(list).for_each(|buffer| firmware.free(buffer));
            return None;
        };
        pieces.push(buffer);
    }
    Some((list, pieces))
}

/// Builds the headers of a frame, with TCP's checksum over the pseudo header only.
fn headers(traffic: &router::roles::Traffic, octets: usize) -> [u8; HEADERS] {
    let mut head = [0; HEADERS];
    let (from, to): (Mac, Mac) = (traffic.from_mac, traffic.to_mac);
    let segment = (octets - TCP).min(usize::from(u16::MAX) - ipv4::HEADER) as u16;
    let ethernet = ethernet::Header { destination: to, source: from, ethertype: ethernet::IPV4 };
    let ip = ipv4::Header::new(ipv4::TCP, traffic.from_ip, traffic.to_ip, segment);
    let written = ethernet.write(&mut head).and_then(|()| ip.write(&mut head[IP..]));
    debug_assert!(written.is_ok());
    head[TCP..TCP + 2].copy_from_slice(&PORTS.0.to_be_bytes());
    head[TCP + 2..TCP + 4].copy_from_slice(&PORTS.1.to_be_bytes());
    head[TCP + 12] = 5 << 4;
    head[TCP + 13] = tcp::ACK;
    head[TCP + 14..TCP + 16].copy_from_slice(&u16::MAX.to_be_bytes());
    // Cannot overflow 16 bits: the segment is 20 octets shorter than the longest packet.
    let sum = checksum::sum(u16::from(ipv4::TCP) + segment, &head[IP + 12..IP + 20]);
    head[TCP + CHECKSUM..TCP + CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    head
}
