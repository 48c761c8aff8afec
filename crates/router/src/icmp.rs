//! ICMP (RFC 792, RFC 1812 4.3): errors about packets that cannot be forwarded, and packets addressed to the router
//! itself.

use frame::{checksum, ethernet, icmp, ipv4};
use ledger::Counter;

use crate::offload;
use crate::options;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::{Origin, ipv4_header};

/// Maximum length of a packet with an error, in octets (RFC 1812, 4.3.2.3).
const LONGEST_ERROR: usize = 576;
/// Length of the headers before the packet that an error quotes, in octets.
const ERROR_HEADERS: usize = ipv4::HEADER + icmp::HEADER;
/// Internetwork control, the precedence of errors (RFC 1812, 4.3.2.5).
const CONTROL: u8 = 0xc0;
/// Time to live of packets that the router creates.
const TTL: u8 = 64;

/// A packet that cannot be forwarded.
pub(crate) struct Refused<'c, B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
    /// Counter under which it is lost.
    pub(crate) cause: &'c Counter,
}

/// Reason reported to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its time to live has expired.
    Expired,
    /// It was not reassembled in time.
    Incomplete,
    /// An option is malformed.
    Problem {
        /// Offset of the wrong octet from the start of the packet.
        at: u8,
    },
    /// There is no route.
    NoRoute,
    /// The next hop does not answer.
    NoNeighbour,
    /// The route prohibits it.
    Prohibited,
    /// The router does not support this protocol.
    NoProtocol,
    /// No socket listens at this port of the router.
    NoPort,
    /// It exceeds the next link's MTU and must not be fragmented.
    TooLarge {
        /// Maximum length that would fit, in octets.
        mtu: u16,
    },
}

impl Reason {
    fn message(self) -> icmp::Header {
        let unreachable = |code| icmp::Header { kind: icmp::UNREACHABLE, code, rest: 0 };
        match self {
            Self::Expired => icmp::Header { kind: icmp::TIME_EXCEEDED, code: 0, rest: 0 },
            Self::Incomplete => icmp::Header { kind: icmp::TIME_EXCEEDED, code: 1, rest: 0 },
            Self::Problem { at } => {
                icmp::Header { kind: icmp::PARAMETER_PROBLEM, code: 0, rest: u32::from(at) << 24 }
            }
            Self::NoRoute => unreachable(icmp::unreachable::NET),
            Self::NoNeighbour => unreachable(icmp::unreachable::HOST),
            Self::Prohibited => unreachable(icmp::unreachable::PROHIBITED),
            Self::NoProtocol => unreachable(icmp::unreachable::PROTOCOL),
            Self::NoPort => unreachable(icmp::unreachable::PORT),
            Self::TooLarge { mtu } => {
                icmp::Header { rest: u32::from(mtu), ..unreachable(icmp::unreachable::FRAGMENTATION_NEEDED) }
            }
        }
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Counts a packet as lost and sends an error to its sender, if that is allowed. The error is built in the packet's
    /// own buffer.
    pub(crate) fn refuse<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut refused: Refused<'_, B>,
        reason: Reason,
    ) {
        let Origin::Received(nic) = refused.origin else {
            return self.discard(platform, refused.buffer, refused.origin, refused.cause);
        };
        refused.cause.add(1);
        let addresses = self.may_complain(&mut refused.buffer, nic);
        let allowed = addresses.filter(|_| self.within_rate(nic));
        let Some((from, to)) = allowed else {
            return platform.free(refused.buffer);
        };
        let message = reason.message();
        match self.build_error(&mut refused.buffer, &message, (from, to)) {
            Ok(()) => self.route(platform, refused.buffer, Origin::Own),
            Err(_) => self.discard(platform, refused.buffer, Origin::Own, refused.cause),
        }
    }

    /// Returns source and destination of an error about this packet, if one may be sent (RFC 1122, 3.2.2): never about
    /// errors, later fragments, broadcasts, or packets whose source is not a single host.
    fn may_complain(&self, buffer: &mut B, nic: u8) -> Option<(u32, u32)> {
        let octets = buffer.octets();
        let to_group = octets.first()? & 1 != 0;
        let packet = ipv4::Packet::parse_quoted(octets.get(ethernet::HEADER..)?).ok()?;
        let header = packet.header();
        let own = self.nics.get(usize::from(nic))?;
        let about_error = header.protocol == ipv4::ICMP
            && icmp::Header::parse_quoted(packet.payload()).map_or(true, |(message, _)| message.is_error());
        let nobody = |ip| ipv4::is_martian(ip) || own.is_network_wide(ip);
        // There is no route to a reserved address, which its sender may know.
        let all = |ip| nobody(ip) && !is_reserved(ip);
        if to_group || header.fragment_offset != 0 || about_error {
            return None;
        }
        if nobody(header.source) || all(header.destination) {
            return None;
        }
        // An address that was asked answers itself (RFC 1122, 3.3.4.2), as for IPv6 (RFC 4443, 2.2 (a)).
        let asked = Some(header.destination).filter(|ip| self.is_own(*ip));
        Some((asked.or_else(|| self.address_at(nic, header.source))?, header.source))
    }

    /// Returns the own address to use on NIC `nic` towards `peer`; of another NIC if this one has none, as when its gateways have
    /// IPv6 addresses (RFC 1812, 4.3.2.4).
    pub(crate) fn address_at(&self, nic: u8, peer: u32) -> Option<u32> {
        let here = self.nics.get(usize::from(nic)).and_then(|own| own.address_towards(peer));
        here.or_else(|| self.nics.iter().find_map(|own| own.address_towards(peer)))
    }

    pub(crate) fn within_rate(&mut self, nic: u8) -> bool {
        let granted = self.nics[usize::from(nic)].errors.take(self.now);
        if !granted {
            self.counters.icmp_suppressed.add(1);
        }
        granted
    }

    /// Moves the packet behind new headers, truncated to the maximum that an error may quote.
    fn build_error(
        &mut self,
        buffer: &mut B,
        message: &icmp::Header,
        (from, to): (u32, u32),
    ) -> Result<(), frame::Error> {
        // Quotes the packet as it would have been forwarded.
        offload::make_plain(buffer);
        // Padding of the frame is no part of it.
        let packet = usize::from(ipv4_header(buffer)?.total_len);
        let packet = packet.min(buffer.len().saturating_sub(ethernet::HEADER));
        let total = (packet + ERROR_HEADERS).min(LONGEST_ERROR);
        buffer.set_len(ethernet::HEADER + total);
        let octets = buffer.octets();
        let Some(rest) = octets.get_mut(ethernet::HEADER..) else { return Err(frame::Error::Short) };
        let quoted = rest.len().checked_sub(ERROR_HEADERS).ok_or(frame::Error::Short)?;
        rest.copy_within(..quoted, ERROR_HEADERS);
        message.write(&mut rest[ipv4::HEADER..])?;
        let payload = (quoted + icmp::HEADER) as u16;
        let header = ipv4::Header { tos: CONTROL, ..self.own_header(from, to, payload) };
        header.write(rest)
    }

    /// Returns the header of a packet from the router itself, with `payload` octets of ICMP.
    pub(crate) fn own_header(&mut self, from: u32, to: u32, payload: u16) -> ipv4::Header {
        self.identification = self.identification.wrapping_add(1);
        let header = ipv4::Header::new(ipv4::ICMP, from, to, payload);
        ipv4::Header { ttl: TTL, identification: self.identification, ..header }
    }

    /// Handles a packet for the router itself. A control plane would attach here: it would receive the packets that are
    /// dropped now.
    pub(crate) fn deliver<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (header, nic): (&ipv4::Header, u8),
    ) {
        if self.is_own(header.destination) && is_echo_request(&mut buffer, header) {
            return self.echo(platform, buffer, (header, nic));
        }
        let cause = &self.counters.drop_local;
        let refused = Refused { buffer, origin: Origin::Received(nic), cause };
        if header.is_fragment() && self.is_own(header.destination) {
            return self.collect(platform, refused.buffer, (header, nic));
        }
        match header.protocol {
            // A fragment for a group cannot be interpreted alone.
            _ if header.is_fragment() => self.discard(platform, refused.buffer, refused.origin, cause),
            ipv4::ICMP => self.discard(platform, refused.buffer, refused.origin, cause),
            ipv4::UDP | ipv4::TCP => self.refuse(platform, refused, Reason::NoPort),
            _ => self.refuse(platform, refused, Reason::NoProtocol),
        }
    }

    /// Answers an echo request in its own buffer (RFC 1122, 3.2.2.6). Options are not returned, except for records of the
    /// route and timestamps, with the router's own entry.
    fn echo<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (request, nic): (&ipv4::Header, u8),
    ) {
        offload::make_plain(&mut buffer);
        if options::records(&mut buffer, request) {
            return self.echo_with_records(platform, buffer, (request, nic));
        }
        let (start, end) = (usize::from(request.header_len), usize::from(request.total_len));
        let message = end - start;
        let packet = &mut buffer.octets()[ethernet::HEADER..];
        if start > ipv4::HEADER {
            if end > packet.len() {
                // The frame consists of several buffers, whose contents cannot be moved together.
                let origin = Origin::Received(nic);
                return self.discard(platform, buffer, origin, &self.counters.drop_local);
            }
            packet.copy_within(start..end, ipv4::HEADER);
        }
        self.counters.consumed.add(1);
        let old = u16::from_be_bytes([packet[ipv4::HEADER + 2], packet[ipv4::HEADER + 3]]);
        packet[ipv4::HEADER] = icmp::ECHO_REPLY;
        let sum = checksum::replace(old, u16::from(icmp::ECHO_REQUEST) << 8, 0);
        packet[ipv4::HEADER + 2..ipv4::HEADER + 4].copy_from_slice(&sum.to_be_bytes());
        let reply = self.own_header(request.destination, request.source, message as u16);
        let reply = ipv4::Header { tos: request.tos, dont_fragment: request.dont_fragment, ..reply };
        let written = reply.write(packet);
        let used = ethernet::HEADER + usize::from(reply.total_len);
        buffer.set_len(buffer.len().min(used.max(ethernet::SHORTEST)));
        match written {
            Ok(()) => self.route(platform, buffer, Origin::Own),
            Err(_) => self.discard(platform, buffer, Origin::Own, &self.counters.drop_local),
        }
    }
}

/// Returns true if an address is of a block that is reserved, but of a single host: 0.0.0.0/8 and 240.0.0.0/4 without
/// their ends.
pub(crate) const fn is_reserved(ip: u32) -> bool {
    ip != 0 && ip != u32::MAX && matches!(ip >> 24, 0 | 240..)
}

/// Returns true if a packet is a complete, valid echo request (code 0).
fn is_echo_request<B: Buffer>(buffer: &mut B, header: &ipv4::Header) -> bool {
    if header.protocol != ipv4::ICMP || header.is_fragment() {
        return false;
    }
    let start = ethernet::HEADER + usize::from(header.header_len);
    let end = ethernet::HEADER + usize::from(header.total_len);
    let message = buffer.octets().get(start..).map(icmp::Header::parse_quoted);
    let Some(Ok((message, _))) = message else { return false };
    message.kind == icmp::ECHO_REQUEST
        && message.code == 0
        && offload::sum(buffer, start..end) == Some(0xffff)
}
