//! ICMPv6 errors (RFC 4443): about packets that cannot be forwarded, and packets addressed to the router itself.

use frame::{checksum, ethernet, icmpv6, ipv6};
use ledger::Counter;

use crate::ip::Ip;
use crate::offload;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::{Routes, Routes6};
use crate::six::packet::header;
use crate::slow::Origin;

/// Length of the headers before the packet that an error quotes, in octets.
const ERROR_HEADERS: usize = ipv6::HEADER + icmpv6::HEADER;
/// Octets of a quoted packet in which its headers are looked for.
const LOOK: usize = 512;

/// A packet that cannot be forwarded.
pub(crate) struct Refused6<'c, B> {
    pub(crate) buffer: B,
    pub(crate) origin: Origin,
    /// Counter under which it is lost.
    pub(crate) cause: &'c Counter,
}

/// Reason reported to its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason6 {
    /// Its hop limit has expired.
    Expired,
    /// It was not reassembled in time.
    Incomplete,
    /// There is no route.
    NoRoute,
    /// The route prohibits it.
    Prohibited,
    /// Its source is not valid beyond its link.
    Scope,
    /// The next hop does not answer.
    NoNeighbour,
    /// No socket listens at this port of the router.
    NoPort,
    /// It exceeds the next link's MTU.
    TooBig {
        /// Maximum length that would fit, in octets.
        mtu: u16,
    },
    /// It is a first fragment that does not contain all headers.
    CutInHeaders,
    /// A field is wrong, or names something that is not known.
    Problem {
        /// One of [`icmpv6::problem`].
        code: u8,
        /// Offset of the field from the start of the packet, in octets.
        at: u32,
    },
}

impl Reason6 {
    fn message(self) -> icmpv6::Header {
        let unreachable = |code| icmpv6::Header { kind: icmpv6::UNREACHABLE, code, rest: 0 };
        match self {
            Self::Expired => icmpv6::Header { kind: icmpv6::TIME_EXCEEDED, code: 0, rest: 0 },
            Self::Incomplete => icmpv6::Header { kind: icmpv6::TIME_EXCEEDED, code: 1, rest: 0 },
            Self::NoRoute => unreachable(icmpv6::unreachable::NO_ROUTE),
            Self::Prohibited => unreachable(icmpv6::unreachable::PROHIBITED),
            Self::Scope => unreachable(icmpv6::unreachable::SCOPE),
            Self::NoNeighbour => unreachable(icmpv6::unreachable::ADDRESS),
            Self::NoPort => unreachable(icmpv6::unreachable::PORT),
            Self::TooBig { mtu } => {
                icmpv6::Header { kind: icmpv6::TOO_BIG, code: 0, rest: mtu.max(ipv6::SMALLEST_MTU).into() }
            }
            Self::CutInHeaders => Self::Problem { code: icmpv6::problem::HEADER_CHAIN, at: 0 }.message(),
            Self::Problem { code, at } => icmpv6::Header { kind: icmpv6::PARAMETER_PROBLEM, code, rest: at },
        }
    }

    /// Returns true if it is reported even about a packet to a group (RFC 4443, 2.4 (e.3)).
    const fn concerns_groups(self) -> bool {
        matches!(self, Self::TooBig { .. } | Self::Problem { code: icmpv6::problem::OPTION, .. })
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Counts a packet as lost and sends an error to its sender, if that is allowed. The error is built in the packet's
    /// own buffer.
    pub(crate) fn refuse6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut refused: Refused6<'_, B>,
        reason: Reason6,
    ) {
        let Origin::Received(nic) = refused.origin else {
            return self.discard(platform, refused.buffer, refused.origin, refused.cause);
        };
        refused.cause.add(1);
        let ends = self.may_complain6(&mut refused.buffer, nic, reason);
        let Some(ends) = ends.filter(|_| self.within_rate(nic)) else {
            return platform.free(refused.buffer);
        };
        match build_error(&mut refused.buffer, &reason.message(), ends) {
            Ok(()) => self.route6(platform, refused.buffer, Origin::Own, nic),
            Err(_) => self.discard(platform, refused.buffer, Origin::Own, refused.cause),
        }
    }

    /// Returns source and destination of an error about this packet, if one may be sent (RFC 4443, 2.4 (e)): never about
    /// errors, redirects, packets to groups, or packets whose source is not a single node.
    fn may_complain6(&self, buffer: &mut B, nic: u8, reason: Reason6) -> Option<(u128, u128)> {
        let octets = buffer.octets();
        let link_group = octets.first()? & 1 != 0;
        let packet = ipv6::Packet::parse_quoted(octets.get(ethernet::HEADER..)?).ok()?;
        let header = packet.header();
        let to_group = link_group || ipv6::is_multicast(header.destination);
        let source = header.source;
        let unnamed = ipv6::is_multicast(source) || ipv6::is_martian(source) || self.is_shared6(source);
        // A first fragment without its headers does not tell what it carries.
        let may_tell = reason != Reason6::CutInHeaders;
        if unnamed || to_group && !reason.concerns_groups() || may_tell && is_about_error(packet.octets()) {
            return None;
        }
        let to = source;
        // The address that the sender has addressed, else one of the NIC by which the error leaves.
        let addressed =
            Some(header.destination).filter(|ip| self.is_own6(*ip, nic) && !self.is_anycast6(*ip));
        let from = addressed.or_else(|| self.source6(self.way_to(to, nic), to))?;
        Some((from, to))
    }

    /// Returns true if `ip` is the address of no NIC, and so may be that of all routers of a network.
    pub(crate) fn is_anycast6(&self, ip: u128) -> bool {
        self.nics.iter().all(|nic| nic.six.position(ip).is_none())
    }

    /// Returns the NIC by which a packet to `destination` leaves; `near` if it is link-local or there is no route.
    fn way_to(&self, destination: u128, near: u8) -> usize {
        let near = usize::from(near);
        if ipv6::is_link_local(destination) {
            return near;
        }
        let table = self.routes.six();
        let next = table.next_hop(table.member(table.lookup(destination), 0)).neighbour(Ip::v6(destination));
        next.map_or(near, |(nic, _)| usize::from(nic))
    }
}

/// Returns true if a packet carries an error or a redirect, or is too damaged to tell.
fn is_about_error(packet: &[u8]) -> bool {
    let looked_at = packet.get(..LOOK).unwrap_or(packet);
    let Ok(upper) = ipv6::walk(looked_at) else { return ipv6::misplaced(looked_at).is_none() };
    if upper.is_later_fragment() {
        // What it is a part of is not known, and other than IPv4 nothing forbids an error.
        return false;
    }
    let message = looked_at.get(upper.at..).unwrap_or(&[]);
    upper.protocol == ipv6::next::ICMP
        && icmpv6::Header::parse_quoted(message).map_or(true, |(message, _)| message.is_error())
}

/// Moves the packet behind new headers, truncated to the maximum that an error may quote: 1280 octets in all.
fn build_error<B: Buffer>(
    buffer: &mut B,
    message: &icmpv6::Header,
    (from, to): (u128, u128),
) -> Result<(), frame::Error> {
    // Quotes the packet as it would have been forwarded.
    offload::make_plain(buffer);
    let packet = header(buffer)?.total_len().min(buffer.len().saturating_sub(ethernet::HEADER));
    let total = (packet + ERROR_HEADERS).min(usize::from(ipv6::SMALLEST_MTU));
    buffer.set_len(ethernet::HEADER + total);
    let octets = buffer.octets();
    let Some(rest) = octets.get_mut(ethernet::HEADER..) else { return Err(frame::Error::Short) };
    let quoted = rest.len().checked_sub(ERROR_HEADERS).ok_or(frame::Error::Short)?;
    rest.copy_within(..quoted, ERROR_HEADERS);
    message.write(&mut rest[ipv6::HEADER..], (from, to))?;
    ipv6::Header::new(ipv6::next::ICMP, from, to, (quoted + icmpv6::HEADER) as u16).write(rest)
}

/// Returns true if the checksum of a message is correct, even if it is in several buffers.
pub(crate) fn is_intact<B: Buffer>(buffer: &mut B, header: &ipv6::Header, at: usize) -> bool {
    let Some(len) = header.total_len().checked_sub(at) else { return false };
    let pseudo = checksum::pseudo6(header.source, header.destination, len as u32, ipv6::next::ICMP);
    let range = ethernet::HEADER + at..ethernet::HEADER + header.total_len();
    offload::sum(buffer, range).is_some_and(|sum| {
        // The sum of both is all ones, whatever their order.
        checksum::sum(pseudo, &sum.to_be_bytes()) == 0xffff
    })
}
