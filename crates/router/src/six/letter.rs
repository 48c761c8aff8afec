//! ICMPv6 messages that the router creates, in frames of their own.

use frame::{Error, Mac, ethernet, icmpv6, ipv6, mld};

use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::Origin;

/// Length of the longest frame with such a message, in octets.
const LONGEST: usize = 768;

/// Where a message goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    /// Number of the NIC.
    pub(crate) nic: usize,
    /// Ethernet address of the receiver, or of the group.
    pub(crate) to: Mac,
    pub(crate) source: u128,
    pub(crate) destination: u128,
    /// True if it is a report of listeners: it has a router alert and one hop (RFC 3810, 5).
    pub(crate) is_report: bool,
}

impl Letter {
    /// Creates a letter to a group.
    pub(crate) const fn to_group(nic: usize, source: u128, group: u128) -> Self {
        Self { nic, to: ipv6::group_mac(group), source, destination: group, is_report: false }
    }

    /// Creates a letter with a report to a group.
    pub(crate) const fn report(nic: usize, source: u128, group: u128) -> Self {
        Self { is_report: true, ..Self::to_group(nic, source, group) }
    }

    /// Writes a frame with the message that `write` writes; returns its length.
    fn compose(
        &self,
        frame: &mut [u8],
        own: Mac,
        write: impl FnOnce(&mut [u8]) -> Result<(usize, icmpv6::Header), Error>,
    ) -> Result<usize, Error> {
        frame.fill(0);
        let header = ethernet::Header { destination: self.to, source: own, ethertype: ethernet::IPV6 };
        header.write(frame)?;
        let packet = frame.get_mut(ethernet::HEADER..).ok_or(Error::Short)?;
        let options = if self.is_report { mld::HOP_BY_HOP.len() } else { 0 };
        let rest = packet.get_mut(ipv6::HEADER + options..).ok_or(Error::Short)?;
        let (len, header) = write(rest.get_mut(icmpv6::HEADER..).ok_or(Error::Short)?)?;
        let message = rest.get_mut(..icmpv6::HEADER + len).ok_or(Error::Short)?;
        header.write(message, (self.source, self.destination))?;
        let payload = options + message.len();
        let (first, hop_limit) = match self.is_report {
            true => (ipv6::next::HOP_BY_HOP, 1),
            false => (ipv6::next::ICMP, ipv6::LINK_HOPS),
        };
        if self.is_report {
            packet[ipv6::HEADER..ipv6::HEADER + options].copy_from_slice(&mld::HOP_BY_HOP);
        }
        let header = ipv6::Header::new(first, self.source, self.destination, payload as u16);
        ipv6::Header { hop_limit, ..header }.write(packet)?;
        Ok(ethernet::HEADER + ipv6::HEADER + payload)
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Sends a message in a new frame. `write` writes what follows the ICMPv6 header, and returns its length with that
    /// header.
    pub(crate) fn originate6<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        letter: &Letter,
        write: impl FnOnce(&mut [u8]) -> Result<(usize, icmpv6::Header), Error>,
    ) {
        let Some(own) = self.nics.get(letter.nic).map(|nic| nic.mac) else { return };
        let Some(mut buffer) = platform.allocate() else { return self.counters.originated_lost.add(1) };
        buffer.set_len(LONGEST);
        buffer.clear_offload();
        match letter.compose(buffer.octets(), own, write) {
            Ok(len) => {
                buffer.set_len(len.max(ethernet::SHORTEST));
                self.send(platform, letter.nic, buffer, Origin::Own);
            }
            // The message is longer than the longest, or the platform's buffers are shorter.
            Err(_) => self.discard(platform, buffer, Origin::Own, &self.counters.drop_protocol),
        }
    }
}
