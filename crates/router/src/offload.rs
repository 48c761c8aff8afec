//! Pending offload metadata in a router: computes the length of segments, and completes offloads in software if the
//! next step does not support them.

use frame::offload::{Gso, HEADERS, Offload, Segments};
use frame::{checksum, tcp, udp};

use crate::platform::Buffer;

/// Offset in a TCP header of the octet whose high half is the header's length in words.
const DATA_OFFSET: usize = 12;
/// Octets that are summed at a time; an even number.
const CHUNK: usize = 256;

/// Returns the length of all headers of a frame to be segmented, which starts with `octets`; `None` if they are not
/// complete.
pub fn headers(octets: &[u8], offload: Offload) -> Option<usize> {
    let transport = usize::from(offload.csum_start());
    let len = match offload.gso()? {
        Gso::Tcp4 | Gso::Tcp6 => {
            let words = octets.get(transport + DATA_OFFSET)? >> 4;
            (4 * usize::from(words)).max(tcp::HEADER)
        }
        Gso::Udp => udp::HEADER,
    };
    (transport + len <= octets.len()).then_some(transport + len)
}

/// Returns the length of the longest frame on the wire that results from a frame of `len` octets that starts with
/// `octets` and carries this offload metadata.
pub fn wire_len(octets: &[u8], offload: Offload, len: usize) -> usize {
    // The header length in the metadata is only a hint; the code that segments the frame also parses the headers
    // itself.
    headers(octets, offload).map_or(len, |headers| len.min(headers + usize::from(offload.gso_size())))
}

/// Returns the segmentation of a frame. `None` if it is not to be segmented, or does not match its metadata.
pub(crate) fn segments<B: Buffer>(buffer: &mut B) -> Option<Segments> {
    let (offload, len) = (buffer.offload(), buffer.len());
    offload.gso()?;
    let octets = buffer.octets();
    Segments::new(offload, len, octets.get(..HEADERS).unwrap_or(octets)).ok()
}

/// Makes a frame ready for a plain wire: fills in its checksum; a frame to be segmented is reduced to its first
/// segment.
pub(crate) fn make_plain<B: Buffer>(buffer: &mut B) {
    let offload = buffer.offload();
    if offload.is_work() {
        if let Some(segments) = segments(buffer) {
            let len = segments.payload(0).end;
            buffer.set_len(len);
            let octets = buffer.octets();
            // A segment is not longer than a link's MTU, and so lies in the first buffer.
            if octets.len() == len {
                segments.write(0, octets);
            }
        }
        fill_checksum(buffer, offload);
    }
    buffer.clear_offload();
}

/// Fills in the checksum of a frame, even if it consists of several buffers.
fn fill_checksum<B: Buffer>(buffer: &mut B, offload: Offload) {
    let len = buffer.len();
    if buffer.octets().len() == len {
        offload.complete(buffer.octets());
        return;
    }
    let Some(sum) = sum(buffer, usize::from(offload.csum_start())..len) else { return };
    let place = usize::from(offload.csum_start()) + usize::from(offload.csum_offset());
    if let Some(place) = buffer.octets().get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
        // In UDP a zero means that there is no checksum (RFC 768); elsewhere both representations are equivalent.
        *place = match !sum {
            0 => [0xff; 2],
            sum => sum.to_be_bytes(),
        };
    }
}

/// Returns the sum of a range of a frame, even if it consists of several buffers; `None` if the range is not complete.
pub(crate) fn sum<B: Buffer>(buffer: &mut B, octets: core::ops::Range<usize>) -> Option<u16> {
    let (mut chunk, mut sum, mut at) = ([0; CHUNK], 0, octets.start);
    while at < octets.end {
        let next = &mut chunk[..CHUNK.min(octets.end - at)];
        if !buffer.read(at, next) {
            return None;
        }
        sum = checksum::sum(sum, next);
        at += next.len();
    }
    Some(sum)
}
