//! IPv6 packets for the router itself: extension headers, echo, and what is not spoken here.

use frame::ipv6::{Action, Opt, Options, Upper, next};
use frame::{checksum, ethernet, icmpv6, ipv6, mld, nd};

use crate::offload;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::icmp::{Reason6, Refused6, is_intact};
use crate::six::packet::is_discovery;
use crate::slow::Origin;

/// Hop limit of packets that the router creates.
const HOPS: u8 = 64;

/// Reason why a packet is dropped for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionFault {
    /// The list is malformed.
    Malformed,
    /// An unknown option wants the packet to be dropped.
    Drop,
    /// An unknown option at this offset of the packet wants that to be reported, to groups only if `always`.
    Report { at: u32, always: bool },
}

/// Where a message for the router lies, and where it came from.
#[derive(Clone, Copy)]
pub(crate) struct Arrived<'h> {
    pub(crate) header: &'h ipv6::Header,
    pub(crate) nic: u8,
    /// Offset of the transport header in the packet.
    pub(crate) at: usize,
    /// True if there is a fragment header before it, though it is complete.
    pub(crate) is_fragment: bool,
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Checks the options in the header at `at` of a packet. Only the router alert is known, which changes nothing.
    pub(crate) fn look_at_options(&self, buffer: &mut B, at: usize) -> Result<(), OptionFault> {
        let packet = buffer.octets().get(ethernet::HEADER..).ok_or(OptionFault::Malformed)?;
        for option in Options::new(packet, at).map_err(|_| OptionFault::Malformed)? {
            let option = option.map_err(|_| OptionFault::Malformed)?;
            if option.kind == Opt::ROUTER_ALERT {
                continue;
            }
            let place = (at + option.at) as u32;
            match option.action() {
                Action::Skip => {}
                Action::Drop => return Err(OptionFault::Drop),
                Action::Report => return Err(OptionFault::Report { at: place, always: true }),
                Action::ReportUnicast => return Err(OptionFault::Report { at: place, always: false }),
            }
        }
        Ok(())
    }

    /// Drops a packet for an option, and reports it as the option says.
    pub(crate) fn refuse_option<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: B,
        (header, nic): (&ipv6::Header, u8),
        fault: OptionFault,
    ) {
        let (origin, counters) = (Origin::Received(nic), self.counters);
        let refused = Refused6 { buffer, origin, cause: &counters.drop_option };
        match fault {
            OptionFault::Report { at, always } if always || !ipv6::is_multicast(header.destination) => {
                self.refuse6(platform, refused, Reason6::Problem { code: icmpv6::problem::OPTION, at });
            }
            OptionFault::Malformed => {
                self.discard(platform, refused.buffer, origin, &counters.drop_ip_header);
            }
            OptionFault::Drop | OptionFault::Report { .. } => {
                self.discard(platform, refused.buffer, origin, &counters.drop_option);
            }
        }
    }

    /// Handles a packet for the router itself, or for a group to which it listens.
    pub(crate) fn deliver6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (header, nic): (&ipv6::Header, u8),
    ) {
        let (origin, counters) = (Origin::Received(nic), self.counters);
        if self.is_tentative6(header.destination) && !is_discovery(&mut buffer, header) {
            // Such an address receives nothing else (RFC 4862, 5.4).
            return self.discard(platform, buffer, origin, &counters.drop_local);
        }
        let octets = buffer.octets();
        let end = octets.len().min(ethernet::HEADER + header.total_len());
        let packet = octets.get(ethernet::HEADER..end).unwrap_or(&[]);
        let (walked, misplaced) = (ipv6::walk(packet), ipv6::misplaced(packet));
        let is_cut = packet.len() == header.total_len() && ipv6::is_cut_in_headers(packet);
        if let Some(at) = misplaced {
            // As a header of an unknown kind (RFC 8200, 4.1).
            let refused = Refused6 { buffer, origin, cause: &counters.drop_ip_header };
            let problem = Reason6::Problem { code: icmpv6::problem::NEXT_HEADER, at: at as u32 };
            return self.refuse6(platform, refused, problem);
        }
        if is_cut {
            let refused = Refused6 { buffer, origin, cause: &counters.drop_ip_header };
            return self.refuse6(platform, refused, Reason6::CutInHeaders);
        }
        let Ok(upper) = walked else {
            return self.discard(platform, buffer, origin, &counters.drop_ip_header);
        };
        if let Some(fault) = self.faulty_options(&mut buffer, header) {
            return self.refuse_option(platform, buffer, (header, nic), fault);
        }
        if let Some(at) = unfinished_route(&mut buffer, &upper) {
            let refused = Refused6 { buffer, origin, cause: &counters.drop_source_route };
            let problem = Reason6::Problem { code: icmpv6::problem::FIELD, at };
            return self.refuse6(platform, refused, problem);
        }
        if upper.fragment.is_some_and(|(fragment, _)| !fragment.is_whole()) {
            return self.collect6(platform, buffer, (header, nic), &upper);
        }
        let arrived = Arrived { header, nic, at: upper.at, is_fragment: upper.fragment.is_some() };
        self.deliver_upper(platform, buffer, &arrived, &upper);
    }

    /// Handles the transport message of a packet for the router itself.
    pub(crate) fn deliver_upper<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        arrived: &Arrived<'_>,
        upper: &Upper,
    ) {
        let (origin, counters) = (Origin::Received(arrived.nic), self.counters);
        if upper.protocol == next::ICMP {
            if !is_intact(&mut buffer, arrived.header, arrived.at) {
                return self.discard(platform, buffer, origin, &counters.drop_local);
            }
            return self.control6(platform, buffer, arrived);
        }
        self.refuse_upper(platform, Refused6 { buffer, origin, cause: &counters.drop_local }, upper);
    }

    /// Drops a packet for the router itself whose transport is not ICMPv6, and tells its sender that it is not spoken here.
    pub(crate) fn refuse_upper<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        refused: Refused6<'_, B>,
        upper: &Upper,
    ) {
        let code = icmpv6::problem::NEXT_HEADER;
        match upper.protocol {
            next::UDP | next::TCP => self.refuse6(platform, refused, Reason6::NoPort),
            next::NONE => self.discard(platform, refused.buffer, refused.origin, refused.cause),
            _ => self.refuse6(platform, refused, Reason6::Problem { code, at: upper.named_at as u32 }),
        }
    }

    /// Returns the first fault of the hop-by-hop and destination options before a fragment or transport header.
    fn faulty_options(&self, buffer: &mut B, header: &ipv6::Header) -> Option<OptionFault> {
        let (mut kind, mut at) = (header.next_header, ipv6::HEADER);
        for _ in 0..ipv6::MOST_HEADERS {
            if kind == next::HOP_BY_HOP || kind == next::DESTINATION {
                if let Err(fault) = self.look_at_options(buffer, at) {
                    return Some(fault);
                }
            } else if kind != next::ROUTING {
                return None;
            }
            let octets = buffer.octets().get(ethernet::HEADER + at..)?.first_chunk::<2>()?;
            (kind, at) = (octets[0], at + (usize::from(octets[1]) + 1) * 8);
        }
        None
    }

    /// Handles an intact ICMPv6 message for the router.
    fn control6<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, arrived: &Arrived<'_>) {
        let (origin, counters) = (Origin::Received(arrived.nic), self.counters);
        let message = buffer.octets().get(ethernet::HEADER + arrived.at..).map(icmpv6::Header::parse_quoted);
        let Some(Ok((message, _))) = message else {
            return self.discard(platform, buffer, origin, &counters.drop_local);
        };
        match (message.kind, message.code) {
            (icmpv6::ECHO_REQUEST, 0) => self.echo6(platform, buffer, arrived),
            (nd::SOLICIT | nd::ADVERT | nd::ROUTER_SOLICIT, 0) => self.discover(platform, buffer, arrived),
            (mld::QUERY, 0) => self.hear_query(platform, buffer, arrived),
            _ => self.discard(platform, buffer, origin, &counters.drop_local),
        }
    }

    /// Answers an echo request in its own buffer (RFC 4443, 4.2). Extension headers are not returned.
    fn echo6<P: Platform<Buffer = B>>(&mut self, platform: &mut P, mut buffer: B, arrived: &Arrived<'_>) {
        let (request, counters) = (arrived.header, self.counters);
        let to = request.source;
        // An anycast address is no source (RFC 4443, 4.2).
        let own = Some(request.destination).filter(|ip| !ipv6::is_multicast(*ip) && !self.is_anycast6(*ip));
        let from = own.or_else(|| self.source6(usize::from(arrived.nic), to));
        let message = request.total_len() - arrived.at;
        offload::make_plain(&mut buffer);
        let Some(from) = from.filter(|_| move_up(&mut buffer, arrived.at, message)) else {
            return self.discard(platform, buffer, Origin::Received(arrived.nic), &counters.drop_local);
        };
        counters.consumed.add(1);
        let packet = &mut buffer.octets()[ethernet::HEADER..];
        turn_echo(&mut packet[ipv6::HEADER..], (request, from));
        let header = ipv6::Header::new(next::ICMP, from, to, message as u16);
        let header = ipv6::Header { traffic_class: request.traffic_class, hop_limit: HOPS, ..header };
        let written = header.write(packet);
        let used = ethernet::HEADER + header.total_len();
        buffer.set_len(buffer.len().min(used.max(ethernet::SHORTEST)));
        match written {
            Ok(()) => self.route6(platform, buffer, Origin::Own, arrived.nic),
            Err(_) => self.discard(platform, buffer, Origin::Own, &counters.drop_local),
        }
    }
}

/// Moves a message of `len` octets at `at` of a packet behind the fixed header; returns false if it lies in several
/// buffers and would have to move, or has no header.
fn move_up<B: Buffer>(buffer: &mut B, at: usize, len: usize) -> bool {
    let Some(packet) = buffer.octets().get_mut(ethernet::HEADER..) else { return false };
    if at > ipv6::HEADER {
        if at + len > packet.len() {
            return false;
        }
        packet.copy_within(at..at + len, ipv6::HEADER);
    }
    len >= icmpv6::HEADER && packet.len() >= ipv6::HEADER + icmpv6::HEADER
}

/// Turns an echo request into its reply: the type changes, and the source if the request went to a group.
fn turn_echo(message: &mut [u8], (request, from): (&ipv6::Header, u128)) {
    let old = u16::from_be_bytes([message[2], message[3]]);
    let (asked, replied) = (u16::from(icmpv6::ECHO_REQUEST) << 8, u16::from(icmpv6::ECHO_REPLY) << 8);
    let mut sum = checksum::replace(old, asked, replied);
    // The pseudo header has the same two addresses, unless the request went to a group.
    if request.destination != from {
        for shift in [96, 64, 32, 0] {
            let word = |address: u128| (address >> shift) as u32;
            sum = checksum::replace32(sum, word(request.destination), word(from));
        }
    }
    message[0] = icmpv6::ECHO_REPLY;
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Returns the offset of the type of a routing header that has segments left: no type is supported (RFC 8200, 4.4;
/// RFC 5095).
fn unfinished_route<B: Buffer>(buffer: &mut B, upper: &Upper) -> Option<u32> {
    let at = upper.routing?;
    let left = *buffer.octets().get(ethernet::HEADER + at + 3)?;
    (left != 0).then_some(at as u32 + 2)
}
