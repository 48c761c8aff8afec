//! Redirects (RFC 792; RFC 1812, 5.2.7.2): a host is told that the next hop of its packet is on its own network.

use frame::{ethernet, icmp, ipv4};

use crate::ip::Ip;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::Origin;

/// Octets of the packet that a redirect quotes: the longest header and 8 octets (RFC 792).
const QUOTED: usize = ipv4::LONGEST_HEADER + 8;
/// Code: redirect for the host.
const FOR_HOST: u8 = 1;
/// Internetwork control, the precedence of errors.
const CONTROL: u8 = 0xc0;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Counts a packet that leaves by the NIC and network that it came from, and tells its sender if that is switched on.
    /// Only the slow path looks: packets whose header is prepared are neither counted nor answered, which limits the rate.
    pub(crate) fn consider_redirect<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        buffer: &mut B,
        (header, origin): (&ipv4::Header, Origin),
        (nic, ip): (u8, Ip),
    ) {
        let Some(gateway) = ip.as_v4() else { return };
        let near = self.nics.get(usize::from(nic)).is_some_and(|own| {
            own.addresses.iter().any(|address| address.covers(gateway) && address.covers(header.source))
        });
        if origin != Origin::Received(nic) || !near {
            return;
        }
        self.counters.redirects.add(1);
        if self.redirects && !header.is_fragment() && self.within_rate(nic) {
            self.redirect(platform, buffer, (header, nic), gateway);
        }
    }

    /// Sends a redirect in a new frame.
    fn redirect<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        packet: &mut B,
        (header, nic): (&ipv4::Header, u8),
        gateway: u32,
    ) {
        let octets = packet.octets();
        let whole =
            octets.get(ethernet::HEADER..ethernet::HEADER + usize::from(header.total_len).min(QUOTED));
        let mut quoted = [0; QUOTED];
        let Some(whole) = whole.or_else(|| octets.get(ethernet::HEADER..)) else { return };
        let len = whole.len().min(QUOTED).min(usize::from(header.header_len) + 8);
        quoted[..len].copy_from_slice(&whole[..len]);
        let Some(from) = self.nics[usize::from(nic)].address_towards(header.source) else { return };
        let Some(mut buffer) = platform.allocate() else { return self.counters.originated_lost.add(1) };
        let message = icmp::Header { kind: icmp::REDIRECT, code: FOR_HOST, rest: gateway };
        let payload = (icmp::HEADER + len) as u16;
        let own = ipv4::Header { tos: CONTROL, ..self.own_header(from, header.source, payload) };
        match compose(&mut buffer, (&own, &message), &quoted[..len]) {
            Ok(()) => self.route(platform, buffer, Origin::Own),
            Err(_) => self.discard(platform, buffer, Origin::Own, &self.counters.drop_protocol),
        }
    }
}

/// Fills a buffer with an ICMP message.
fn compose<B: Buffer>(
    buffer: &mut B,
    (header, message): (&ipv4::Header, &icmp::Header),
    quoted: &[u8],
) -> Result<(), frame::Error> {
    let len = ethernet::HEADER + usize::from(header.total_len);
    buffer.set_len(len.max(ethernet::SHORTEST));
    buffer.clear_offload();
    let octets = buffer.octets();
    octets.fill(0);
    octets.get_mut(12..14).ok_or(frame::Error::Short)?.copy_from_slice(&ethernet::IPV4.to_be_bytes());
    let packet = octets.get_mut(ethernet::HEADER..len).ok_or(frame::Error::Short)?;
    let (ip, rest) = packet.split_at_mut_checked(ipv4::HEADER).ok_or(frame::Error::Short)?;
    rest.get_mut(icmp::HEADER..).ok_or(frame::Error::Short)?.copy_from_slice(quoted);
    message.write(rest)?;
    header.write(ip)
}
