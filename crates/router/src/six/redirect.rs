//! Redirects (RFC 4861, 8.2): a host is told that the next hop of its packet is on its own link.

use frame::nd::Redirect;
use frame::{Mac, ethernet, ipv6};

use crate::pending::Held;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::six::letter::Letter;
use crate::six::packet::header;
use crate::slow::Origin;

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Counts a packet that leaves by the NIC that it came from, and tells its sender if that is switched on. Only the slow path
    /// looks, as for IPv4. `target` is the address of the next hop.
    pub(crate) fn consider_redirect6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        packet: &mut Held<B>,
        ((nic, target), mac): ((u8, u128), Mac),
    ) {
        let Ok(header) = header(&mut packet.buffer) else { return };
        let near = self.nics.get(usize::from(nic)).is_some_and(|own| own.six.covers(header.source));
        // Hosts know a router by its link-local address.
        let can_be_named = target == header.destination || ipv6::is_link_local(target);
        if packet.origin != Origin::Received(nic) || !near || !can_be_named {
            return;
        }
        self.counters.redirects.add(1);
        if self.redirects && self.within_rate(nic) {
            let frame: &[u8] = packet.buffer.octets();
            self.redirect6(platform, (frame, nic), &header, (target, mac));
        }
    }

    /// Sends a redirect to the station from which a frame came.
    fn redirect6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        (frame, nic): (&[u8], u8),
        header: &ipv6::Header,
        (target, target_mac): (u128, Mac),
    ) {
        let nic = usize::from(nic);
        let Some(source) = self.link_local(nic) else { return };
        let Ok((link, rest)) = ethernet::Header::parse(frame) else { return };
        if !link.source.is_station() {
            return;
        }
        let packet = rest.get(..header.total_len()).unwrap_or(rest);
        let letter = Letter { nic, to: link.source, source, destination: header.source, is_report: false };
        let redirect = Redirect { target, target_mac, destination: header.destination, packet };
        self.originate6(platform, &letter, |payload| redirect.write(payload));
    }
}
