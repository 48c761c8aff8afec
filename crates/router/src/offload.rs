//! What frames leave to be done on their way, as far as a router has to know: how long their segments are, and how to
//! make them ready where the next step cannot.

use frame::offload::{Gso, Offload};
use frame::tcp;

/// Where TCP has the octet whose high half is the header's length in words.
const DATA_OFFSET: usize = 12;
/// Octets of a UDP header.
const UDP_HEADER: usize = 8;

/// Octets of all headers of a frame that is to be cut, which `octets` begins with; `None` if they are not all there.
pub fn headers(octets: &[u8], offload: Offload) -> Option<usize> {
    let transport = usize::from(offload.csum_start());
    let len = match offload.gso()? {
        Gso::Tcp4 | Gso::Tcp6 => {
            let words = octets.get(transport + DATA_OFFSET)? >> 4;
            (4 * usize::from(words)).max(tcp::HEADER)
        }
        Gso::Udp => UDP_HEADER,
    };
    (transport + len <= octets.len()).then_some(transport + len)
}

/// Octets of the longest frame that becomes on a wire of one that is `len` octets long, begins with `octets` and leaves
/// this to be done.
pub fn wire_len(octets: &[u8], offload: Offload, len: usize) -> usize {
    // What the sender says of its headers is a hint; who cuts the frame looks as well.
    headers(octets, offload).map_or(len, |headers| len.min(headers + usize::from(offload.gso_size())))
}
