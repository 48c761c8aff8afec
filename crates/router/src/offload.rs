//! What frames leave to be done on their way, as far as a router has to know: how long their segments are, and how to
//! make them ready where the next step cannot.

use frame::offload::{Gso, HEADERS, Offload, Segments};
use frame::{checksum, tcp, udp};

use crate::platform::Buffer;

/// Where TCP has the octet whose high half is the header's length in words.
const DATA_OFFSET: usize = 12;
/// Octets that are summed up at a time; an even number.
const CHUNK: usize = 256;

/// Octets of all headers of a frame that is to be cut, which `octets` begins with; `None` if they are not all there.
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

/// Octets of the longest frame that becomes on a wire of one that is `len` octets long, begins with `octets` and leaves
/// this to be done.
pub fn wire_len(octets: &[u8], offload: Offload, len: usize) -> usize {
    // What the sender says of its headers is a hint; who cuts the frame looks as well.
    headers(octets, offload).map_or(len, |headers| len.min(headers + usize::from(offload.gso_size())))
}

/// How a frame is to be cut. `None` if it is not, or is not what its order says.
pub(crate) fn segments<B: Buffer>(buffer: &mut B) -> Option<Segments> {
    let (offload, len) = (buffer.offload(), buffer.len());
    offload.gso()?;
    let octets = buffer.octets();
    Segments::new(offload, len, octets.get(..HEADERS).unwrap_or(octets)).ok()
}

/// Makes a frame ready for a plain wire: fills its checksum in; of a frame that is to be cut the first segment is left.
pub(crate) fn make_plain<B: Buffer>(buffer: &mut B) {
    let offload = buffer.offload();
    if offload.is_work() {
        if let Some(segments) = segments(buffer) {
            let len = segments.payload(0).end;
            buffer.set_len(len);
            let octets = buffer.octets();
            // A segment is not longer than a link's MTU, and so lies in the first piece.
            if octets.len() == len {
                segments.write(0, octets);
            }
        }
        fill_checksum(buffer, offload);
    }
    buffer.clear_offload();
}

/// Fills the checksum of a frame in, whatever its pieces.
fn fill_checksum<B: Buffer>(buffer: &mut B, offload: Offload) {
    let len = buffer.len();
    if buffer.octets().len() == len {
        offload.complete(buffer.octets());
        return;
    }
    let Some(sum) = sum(buffer, usize::from(offload.csum_start())..len) else { return };
    let place = usize::from(offload.csum_start()) + usize::from(offload.csum_offset());
    if let Some(place) = buffer.octets().get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
        // In UDP a zero says that there is no checksum (RFC 768); elsewhere the two are equal.
        *place = match !sum {
            0 => [0xff; 2],
            sum => sum.to_be_bytes(),
        };
    }
}

/// The sum of these octets of a frame, whatever its pieces; `None` if they are not all there.
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
