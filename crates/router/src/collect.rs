//! Fragments for the router itself: collected, and answered when all are there.

use frame::ipv6::Upper;
use frame::{checksum, ethernet, icmp, icmpv6, ipv4, ipv6};

use crate::icmp::{Reason, Refused};
use crate::ip::Ip;
use crate::offload;
use crate::pending::Held;
use crate::platform::{Buffer, Platform};
use crate::reassembly::{Collected, Key, Part, Parts};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::icmp::{Reason6, Refused6};
use crate::slow::{Origin, ethertype};

/// Time to live and hop limit of packets that the router creates.
const TTL: u8 = 64;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Collects an IPv4 fragment for the router.
    pub(crate) fn collect<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        (header, nic): (&ipv4::Header, u8),
    ) {
        let key = Key {
            nic,
            source: Ip::v4(header.source),
            destination: Ip::v4(header.destination),
            protocol: Some(header.protocol),
            identification: header.identification.into(),
        };
        let part = Part {
            buffer,
            at: u32::from(header.fragment_offset) * 8,
            len: u32::from(header.total_len) - u32::from(header.header_len),
            place: ethernet::HEADER as u32 + u32::from(header.header_len),
            more: header.more_fragments,
        };
        self.collect_part(platform, key, part);
    }

    /// Collects an IPv6 fragment for the router.
    pub(crate) fn collect6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        (header, nic): (&ipv6::Header, u8),
        upper: &Upper,
    ) {
        let found = upper.fragment.and_then(|(fragment, at)| {
            let start = at + ipv6::Fragment::LEN;
            Some((fragment, start, header.total_len().checked_sub(start)?))
        });
        let Some((fragment, start, len)) = found else {
            let origin = Origin::Received(nic);
            return self.discard(platform, buffer, origin, &self.counters.drop_ip_header);
        };
        if let Some(at) = wrong_field(&fragment, start, len) {
            let (origin, cause) = (Origin::Received(nic), &self.counters.drop_reassembly);
            let problem = Reason6::Problem { code: icmpv6::problem::FIELD, at };
            return self.refuse6(platform, Refused6 { buffer, origin, cause }, problem);
        }
        let key = Key {
            nic,
            source: Ip::v6(header.source),
            destination: Ip::v6(header.destination),
            protocol: None,
            identification: fragment.identification,
        };
        let (at, len) = (u32::from(fragment.offset) * 8, len as u32);
        let place = (ethernet::HEADER + start) as u32;
        self.collect_part(platform, key, Part { buffer, at, len, place, more: fragment.more });
    }

    fn collect_part<P: Platform<Buffer = B>>(&mut self, platform: &mut P, key: Key, mut part: Part<B>) {
        offload::make_plain(&mut part.buffer);
        if let Some(others) = self.waiting.reassembly.make_room(&key) {
            self.lose_parts(platform, others, key.nic);
        }
        match self.waiting.reassembly.add(key, part, self.now) {
            Collected::Waits => {}
            Collected::Lost(parts) => self.lose_parts(platform, parts, key.nic),
            Collected::Whole(mut parts) => {
                if is_echo_request(&mut parts, &key) {
                    self.echo_parts(platform, parts, &key);
                } else {
                    self.refuse_parts(platform, parts, &key);
                }
            }
        }
    }

    /// Counts fragments as lost.
    fn lose_parts<P: Platform<Buffer = B>>(&mut self, platform: &mut P, parts: Parts<B>, nic: u8) {
        for part in parts {
            let cause = &self.counters.drop_reassembly;
            self.discard(platform, part.buffer, Origin::Received(nic), cause);
        }
    }

    /// Gives up datagrams whose time is over; the sender is told if the first fragment was there (RFC 792).
    pub(crate) fn expire_parts<P: Platform<Buffer = B>>(&mut self, platform: &mut P) {
        while let Some((nic, mut parts)) = self.waiting.reassembly.expired(self.now) {
            let first = parts.iter().position(|part| part.at == 0).map(|at| parts.swap_remove(at));
            self.lose_parts(platform, parts, nic);
            if let Some(mut part) = first {
                let (origin, cause) = (Origin::Received(nic), &self.counters.drop_reassembly);
                if ethertype(&mut part.buffer) == ethernet::IPV6 {
                    let refused = Refused6 { buffer: part.buffer, origin, cause };
                    self.refuse6(platform, refused, Reason6::Incomplete);
                } else {
                    let refused = Refused { buffer: part.buffer, origin, cause };
                    self.refuse(platform, refused, Reason::Incomplete);
                }
            }
        }
    }

    /// Refuses a datagram that is not an echo request, by its first fragment.
    fn refuse_parts<P: Platform<Buffer = B>>(&mut self, platform: &mut P, parts: Parts<B>, key: &Key) {
        let (origin, counters) = (Origin::Received(key.nic), self.counters);
        let cause = &counters.drop_local;
        let mut parts = parts.into_iter();
        let Some(Part { mut buffer, .. }) = parts.next() else { return };
        match key.protocol {
            Some(ipv4::ICMP) => self.discard(platform, buffer, origin, cause),
            Some(ipv4::UDP | ipv4::TCP) => {
                self.refuse(platform, Refused { buffer, origin, cause }, Reason::NoPort);
            }
            Some(_) => self.refuse(platform, Refused { buffer, origin, cause }, Reason::NoProtocol),
            None => match upper_of(&mut buffer) {
                Some(upper) => self.refuse_upper(platform, Refused6 { buffer, origin, cause }, &upper),
                None => self.discard(platform, buffer, origin, cause),
            },
        }
        for part in parts {
            self.discard(platform, part.buffer, origin, cause);
        }
    }

    /// Answers an echo request fragment by fragment, in the buffers of the request.
    fn echo_parts<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut parts: Parts<B>, key: &Key) {
        self.identification = self.identification.wrapping_add(1);
        let number = self.identification;
        if let Some(first) = parts.first_mut() {
            turn(first, key.source.as_v4().is_some());
        }
        for mut part in parts {
            let written = answer(&mut part, key, number);
            let (buffer, origin) = (part.buffer, Origin::Received(key.nic));
            match written {
                Some(()) => {
                    self.counters.consumed.add(1);
                    self.route_again(platform, Held { buffer, origin: Origin::Own }, key.nic);
                }
                None => self.discard(platform, buffer, origin, &self.counters.drop_local),
            }
        }
    }
}

/// Returns the offset of the field that is wrong in a fragment with `len` octets of data at `start` of its packet (RFC 8200, 4.5):
/// the payload length if the data of other fragments cannot follow, the fragment offset if they lie too far behind.
fn wrong_field(fragment: &ipv6::Fragment, start: usize, len: usize) -> Option<u32> {
    let end = usize::from(fragment.offset) * 8 + len;
    if fragment.more && !len.is_multiple_of(8) {
        Some(4)
    } else if end > usize::from(u16::MAX) {
        Some((start - ipv6::Fragment::LEN + 2) as u32)
    } else {
        None
    }
}

/// Writes the headers of one fragment of a reply before its data.
fn answer<B: Buffer>(part: &mut Part<B>, key: &Key, number: u16) -> Option<()> {
    let (offset, more, range) = ((part.at / 8) as u16, part.more, part.range());
    let (Some(to), Some(from)) = (key.source.as_v4(), key.destination.as_v4()) else {
        let fragment = ipv6::Fragment { offset, more, identification: number.into() };
        let ends = (key.destination.bits(), key.source.bits());
        return write6(&mut part.buffer, &fragment, (ends, range));
    };
    let header = ipv4::Header {
        identification: number,
        ttl: TTL,
        more_fragments: more,
        fragment_offset: offset,
        ..ipv4::Header::new(ipv4::ICMP, from, to, part.len as u16)
    };
    write4(&mut part.buffer, &header, range)
}

/// Returns the transport header of an IPv6 datagram, which its first fragment contains, unless it is ICMPv6.
fn upper_of<B: Buffer>(first: &mut B) -> Option<Upper> {
    let packet = first.octets().get(ethernet::HEADER..).unwrap_or(&[]);
    ipv6::walk(packet).ok().filter(|upper| upper.protocol != ipv6::next::ICMP)
}

/// Returns the kind of the header behind that of a fragment.
fn kind_behind_fragment<B: Buffer>(part: &mut Part<B>) -> Option<u8> {
    let at = (part.place as usize).checked_sub(ipv6::Fragment::LEN)?;
    part.buffer.octets().get(at).copied()
}

/// Returns true if a complete datagram is a valid echo request (code 0) to one address.
fn is_echo_request<B: Buffer>(parts: &mut Parts<B>, key: &Key) -> bool {
    let total = parts.iter().map(|part| part.len).sum();
    let (protocol, kind, mut sum) = if key.source.as_v4().is_some() {
        (ipv4::ICMP, icmp::ECHO_REQUEST, 0)
    } else {
        let (source, destination) = (key.source.bits(), key.destination.bits());
        let pseudo = checksum::pseudo6(source, destination, total, ipv6::next::ICMP);
        (ipv6::next::ICMP, icmpv6::ECHO_REQUEST, pseudo)
    };
    // In IPv6 only the first fragment tells (RFC 8200, 4.5).
    let named = key.protocol.or_else(|| parts.first_mut().and_then(kind_behind_fragment));
    if named != Some(protocol) || ipv6::is_multicast(key.destination.bits()) {
        return false;
    }
    for part in parts.iter_mut() {
        // Each part but the last has an even length, so the words of all parts are aligned.
        let range = part.range();
        let Some(next) = offload::sum(&mut part.buffer, range) else { return false };
        sum = checksum::sum(sum, &next.to_be_bytes());
    }
    let Some(first) = parts.first_mut() else { return false };
    let range = first.range();
    let message = first.buffer.octets().get(range).and_then(<[u8]>::first_chunk::<{ icmp::HEADER }>);
    sum == 0xffff && message.is_some_and(|message| message[0] == kind && message[1] == 0)
}

/// Turns the first fragment of an echo request into that of its reply.
fn turn<B: Buffer>(first: &mut Part<B>, is_v4: bool) {
    let range = first.range();
    let message = first.buffer.octets().get_mut(range).and_then(<[u8]>::first_chunk_mut::<4>);
    let Some([kind, code, high, low]) = message else { return };
    let reply = if is_v4 { icmp::ECHO_REPLY } else { icmpv6::ECHO_REPLY };
    let (old, new) = (u16::from_be_bytes([*kind, *code]), u16::from_be_bytes([reply, *code]));
    let sum = checksum::replace(u16::from_be_bytes([*high, *low]), old, new);
    *kind = reply;
    [*high, *low] = sum.to_be_bytes();
}

/// Puts the data of a fragment behind its new header.
fn write4<B: Buffer>(buffer: &mut B, header: &ipv4::Header, data: core::ops::Range<usize>) -> Option<()> {
    let (to, len) = (ethernet::HEADER + ipv4::HEADER, data.len());
    let octets = buffer.octets();
    octets.get(data.clone())?;
    octets.copy_within(data, to);
    header.write(octets.get_mut(ethernet::HEADER..)?).ok()?;
    buffer.set_len(buffer.len().min((to + len).max(ethernet::SHORTEST)));
    Some(())
}

/// Puts the data of a fragment behind its new headers.
fn write6<B: Buffer>(
    buffer: &mut B,
    fragment: &ipv6::Fragment,
    ((from, destination), data): ((u128, u128), core::ops::Range<usize>),
) -> Option<()> {
    let start = ethernet::HEADER + ipv6::HEADER;
    let (to, len) = (start + ipv6::Fragment::LEN, data.len());
    let octets = buffer.octets();
    octets.get(data.clone())?;
    octets.copy_within(data, to);
    octets.get_mut(start..to)?.copy_from_slice(&fragment.octets(ipv6::next::ICMP));
    let payload = (len + ipv6::Fragment::LEN) as u16;
    let header = ipv6::Header::new(ipv6::next::FRAGMENT, from, destination, payload);
    ipv6::Header { hop_limit: TTL, ..header }.write(octets.get_mut(ethernet::HEADER..)?).ok()?;
    buffer.set_len(buffer.len().min((to + len).max(ethernet::SHORTEST)));
    Some(())
}
