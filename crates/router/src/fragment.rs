//! Fragmentation (RFC 791, 2.3 and 3.2) of a packet that exceeds the next link's MTU and may be fragmented.

use arrayvec::ArrayVec;
use frame::{ethernet, ipv4};

use crate::adjacency::Adjacency;
use crate::platform::{Buffer, Burst, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::{Origin, Outgoing, finish};

/// Options of a later fragment, up to the maximum length.
type Options = ArrayVec<u8, { ipv4::LONGEST_HEADER - ipv4::HEADER }>;
/// Bit of an option's type: the option is copied into every fragment.
const COPIED: u8 = 0x80;
/// Option that ends the list.
const END: u8 = 0;
/// Option without a length octet.
const NO_OPERATION: u8 = 1;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Sends a packet in fragments. The first one stays in the packet's own buffer.
    pub(crate) fn fragment<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Outgoing<B>,
        entry: &Adjacency,
    ) {
        let mut rest = Burst::new();
        if !self.later_fragments(platform, &mut packet, &mut rest) {
            rest.into_iter().for_each(|buffer| platform.free(buffer));
            let cause = &self.counters.drop_no_memory;
            return self.discard(platform, packet.buffer, packet.origin, cause);
        }
        first_fragment(&mut packet);
        finish(&mut packet.buffer, packet.origin, entry);
        self.send(platform, entry.interface(), packet.buffer, packet.origin);
        for mut buffer in rest {
            finish(&mut buffer, packet.origin, entry);
            self.send(platform, entry.interface(), buffer, Origin::Part);
        }
    }

    /// Copies the rest after the first fragment into new buffers; returns false if there are not enough of them.
    fn later_fragments<P: Platform<Buffer = B>>(
        &self,
        platform: &mut P,
        packet: &mut Outgoing<B>,
        rest: &mut Burst<B>,
    ) -> bool {
        let header = packet.header;
        let octets = packet.buffer.octets();
        let Some(whole) = octets.get(ethernet::HEADER..).map(ipv4::Packet::parse_quoted) else {
            return false;
        };
        let Ok(whole) = whole else { return false };
        let options = copied_options(whole.options());
        let before = ethernet::HEADER + usize::from(header.header_len);
        let payload = usize::from(header.total_len - u16::from(header.header_len));
        let mut at = first_payload(&header, packet.mtu);
        let most = (usize::from(packet.mtu) - ipv4::HEADER - options.len()) & !7;
        while at < payload {
            let end = payload.min(at + most);
            let piece = ipv4::Header {
                header_len: (ipv4::HEADER + options.len()) as u8,
                total_len: (ipv4::HEADER + options.len() + end - at) as u16,
                more_fragments: header.more_fragments || end < payload,
                fragment_offset: header.fragment_offset + (at / 8) as u16,
                ..header
            };
            let Some(mut buffer) = platform.allocate() else { return false };
            let built = build(&mut buffer, &piece, &options, (&mut packet.buffer, before + at));
            if let Err(refused) = rest.try_push(buffer) {
                platform.free(refused.element());
                return false;
            }
            if !built {
                return false;
            }
            at = end;
        }
        true
    }
}

/// Returns the length of the payload in the first fragment, in octets.
fn first_payload(header: &ipv4::Header, mtu: u16) -> usize {
    usize::from(mtu - u16::from(header.header_len)) & !7
}

/// Shortens the packet to its first fragment.
fn first_fragment<B: Buffer>(packet: &mut Outgoing<B>) {
    let total = usize::from(packet.header.header_len) + first_payload(&packet.header, packet.mtu);
    let first = ipv4::Header { total_len: total as u16, more_fragments: true, ..packet.header };
    packet.buffer.set_len(ethernet::HEADER + total);
    if let Some(octets) = packet.buffer.octets().get_mut(ethernet::HEADER..) {
        // It cannot fail: the header was read from these octets, and only its length has decreased.
        let _ = first.write(octets);
    }
}

/// Fills a buffer with a later fragment, whose payload begins at octet `from` of the whole frame; returns false if the
/// buffer is too small.
fn build<B: Buffer>(
    buffer: &mut B,
    header: &ipv4::Header,
    options: &[u8],
    (whole, from): (&mut B, usize),
) -> bool {
    let len = ethernet::HEADER + usize::from(header.total_len);
    buffer.set_len(len.max(ethernet::SHORTEST));
    let octets = buffer.octets();
    if octets.len() < len {
        return false;
    }
    let (packet, padding) = octets[ethernet::HEADER..].split_at_mut(usize::from(header.total_len));
    padding.fill(0);
    packet[ipv4::HEADER..ipv4::HEADER + options.len()].copy_from_slice(options);
    whole.read(from, &mut packet[ipv4::HEADER + options.len()..]) && header.write(packet).is_ok()
}

/// Returns the options to copy into every fragment, padded to a multiple of 4 octets. A malformed list ends at the
/// first error.
fn copied_options(mut options: &[u8]) -> Options {
    let mut copied = Options::new();
    while let [kind, rest @ ..] = options {
        let len = match (*kind, rest) {
            (END, _) => break,
            (NO_OPERATION, _) => 1,
            (_, [len, ..]) if *len >= 2 => usize::from(*len),
            _ => break,
        };
        let Some(option) = options.get(..len) else { break };
        if kind & COPIED != 0 && copied.try_extend_from_slice(option).is_err() {
            break;
        }
        options = &options[len..];
    }
    while copied.len() % 4 != 0 && copied.try_push(END).is_ok() {}
    copied
}
