//! Segmentation in software: used only for a frame whose segments exceed the next link's MTU but may be fragmented.

use frame::offload::Segments;
use frame::{ethernet, ipv4};

use crate::adjacency::Adjacency;
use crate::offload;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::{Origin, Outgoing};

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Segments a frame and sends each segment in fragments. Frames that cannot be segmented, or find no buffer, are
    /// dropped.
    pub(crate) fn segment<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut packet: Outgoing<B>,
        entry: &Adjacency,
    ) {
        let counters = self.counters;
        let Some(segments) = offload::segments(&mut packet.buffer) else {
            return self.discard(platform, packet.buffer, packet.origin, &counters.drop_mtu);
        };
        for number in 0..segments.count() {
            let Some((buffer, header)) = build(platform, &segments, number, &mut packet.buffer) else {
                if number == 0 {
                    return self.discard(platform, packet.buffer, packet.origin, &counters.drop_no_memory);
                }
                counters.originated_lost.add(1);
                continue;
            };
            // The first segment is counted for the whole frame.
            let origin = if number == 0 { packet.origin } else { Origin::Part };
            let part = Outgoing { buffer, origin, header, mtu: packet.mtu };
            self.send_whole_or_fragments(platform, part, entry);
        }
        platform.free(packet.buffer);
    }
}

/// Builds one complete segment of an IPv4 packet in a buffer of its own.
fn build<P: Platform>(
    platform: &mut P,
    segments: &Segments,
    number: usize,
    whole: &mut P::Buffer,
) -> Option<(P::Buffer, ipv4::Header)> {
    let mut buffer = copy(platform, segments, number, whole)?;
    let packet = buffer.octets().get(ethernet::HEADER..).map(ipv4::Packet::parse_quoted);
    let header = packet.and_then(Result::ok).map(|packet| *packet.header());
    match header {
        Some(header) => Some((buffer, header)),
        None => {
            platform.free(buffer);
            None
        }
    }
}

/// Copies one complete segment into a buffer of its own.
fn copy<P: Platform>(
    platform: &mut P,
    segments: &Segments,
    number: usize,
    whole: &mut P::Buffer,
) -> Option<P::Buffer> {
    let (payload, headers) = (segments.payload(number), segments.headers());
    let len = headers + payload.len();
    let mut buffer = platform.allocate()?;
    buffer.set_len(len.max(ethernet::SHORTEST));
    let written = buffer.octets().get_mut(..len).and_then(|octets| {
        whole.read(payload.start, octets.get_mut(headers..)?).then_some(())?;
        segments.write(number, octets).complete(octets).then_some(())
    });
    if let Some(padding) = buffer.octets().get_mut(len..) {
        padding.fill(0);
    }
    if written.is_none() {
        platform.free(buffer);
        return None;
    }
    Some(buffer)
}
