//! Neighbour discovery messages: parsed from frames and written into them.

use frame::nd::{self, Advert, Solicit};
use frame::{Error, Mac, ethernet, icmpv6, ipv6};

/// Length of the longest frame whose message is parsed, in octets.
pub(in crate::ensemble) const LONGEST: usize = ethernet::HEADER + ipv6::SMALLEST_MTU as usize;
/// Octets of a frame with a solicitation or an advertisement that names an Ethernet address.
const SPOKEN: usize = ethernet::HEADER + ipv6::HEADER + icmpv6::HEADER + Advert::LONGEST;
const _: () = assert!(Solicit::LONGEST == Advert::LONGEST);
/// Prefix of the solicited-node multicast addresses: all but the last 24 bits.
const SOLICITED_NODE: u128 = ipv6::solicited_node(0) >> 24;

/// A frame with a solicitation or an advertisement that names an Ethernet address.
pub(in crate::ensemble) type Spoken = [u8; SPOKEN];

/// A message of a station.
#[derive(Clone, Copy, Debug)]
pub(in crate::ensemble) struct Message {
    /// Ethernet address of the station.
    pub(in crate::ensemble) by: Mac,
    /// Source address; 0: the station has none yet.
    pub(in crate::ensemble) source: u128,
    /// Content.
    pub(in crate::ensemble) said: Said,
}

/// Content of a message.
#[derive(Clone, Copy, Debug)]
pub(in crate::ensemble) enum Said {
    /// Neighbour solicitation.
    Solicit(Solicit),
    /// Neighbour advertisement.
    Advert(Advert),
    /// Router solicitation.
    RouterSolicit,
    /// Router advertisement.
    RouterAdvert,
}

impl Message {
    /// Returns the address of the node that it is about.
    pub(in crate::ensemble) const fn about(&self) -> u128 {
        match &self.said {
            Said::Advert(advert) => advert.target,
            Said::Solicit(_) | Said::RouterSolicit | Said::RouterAdvert => self.source,
        }
    }

    /// Parses the message of a frame; `None`: there is no valid one (RFC 4861, 6.1, 7.1.1 and 7.1.2).
    pub(in crate::ensemble) fn read(frame: &[u8]) -> Option<Self> {
        let (ethernet, rest) = ethernet::Header::parse(frame).ok()?;
        let packet = ipv6::Packet::parse(rest).ok()?;
        let header = packet.header();
        let is_near = header.next_header == ipv6::next::ICMP && header.hop_limit == ipv6::LINK_HOPS;
        // No node has a multicast or martian address, to which a reply would go.
        let is_of_node =
            header.source == 0 || !ipv6::is_multicast(header.source) && !ipv6::is_martian(header.source);
        if ethernet.ethertype != ethernet::IPV6 || !is_near || !is_of_node {
            return None;
        }
        let ends = (header.source, header.destination);
        let (icmp, payload) = icmpv6::Header::parse(packet.payload(), ends).ok()?;
        let said = said(&icmp, payload, header)?;
        Some(Self { by: ethernet.source, source: header.source, said })
    }
}

fn said(icmp: &icmpv6::Header, payload: &[u8], header: &ipv6::Header) -> Option<Said> {
    if icmp.code != 0 {
        return None;
    }
    match icmp.kind {
        nd::SOLICIT => {
            let solicit = Solicit::parse(payload).ok()?;
            let is_for_its_group = header.destination >> 24 == SOLICITED_NODE;
            let is_named = header.source != 0 || solicit.source_mac.is_none() && is_for_its_group;
            (is_named && !ipv6::is_multicast(solicit.target)).then_some(Said::Solicit(solicit))
        }
        nd::ADVERT => {
            let advert = Advert::parse(icmp, payload).ok()?;
            let answers_all = ipv6::is_multicast(header.destination) && advert.solicited;
            (!answers_all && !ipv6::is_multicast(advert.target)).then_some(Said::Advert(advert))
        }
        nd::ROUTER_SOLICIT => Some(Said::RouterSolicit),
        nd::ROUTER_ADVERT => Some(Said::RouterAdvert),
        _ => None,
    }
}

/// Creates a frame from one station to another with the message that `write` writes, which names an Ethernet address.
pub(in crate::ensemble) fn spoken(
    stations: (Mac, Mac),
    ends: (u128, u128),
    write: impl FnOnce(&mut [u8]) -> Result<(usize, icmpv6::Header), Error>,
) -> Spoken {
    let mut octets = [0; SPOKEN];
    // It fits; a frame of zeros would have no receiver.
    if fill(&mut octets, stations, ends, write).is_err() {
        octets = [0; SPOKEN];
    }
    octets
}

fn fill(
    octets: &mut Spoken,
    (source, destination): (Mac, Mac),
    ends: (u128, u128),
    write: impl FnOnce(&mut [u8]) -> Result<(usize, icmpv6::Header), Error>,
) -> Result<(), Error> {
    ethernet::Header { destination, source, ethertype: ethernet::IPV6 }.write(octets)?;
    let packet = &mut octets[ethernet::HEADER..];
    let message = &mut packet[ipv6::HEADER..];
    let (len, icmp) = write(&mut message[icmpv6::HEADER..])?;
    let len = icmpv6::HEADER + len;
    icmp.write(message.get_mut(..len).ok_or(Error::Short)?, ends)?;
    let header = ipv6::Header::new(ipv6::next::ICMP, ends.0, ends.1, len as u16);
    ipv6::Header { hop_limit: ipv6::LINK_HOPS, ..header }.write(packet)
}

/// Rewrites the router advertisement in a frame as that of another station; `None`: there is no valid one.
pub(in crate::ensemble) fn advertise_as(frame: &mut [u8], by: Mac) -> Option<()> {
    /// Octets of an advertisement behind the ICMPv6 header before its options.
    const TIMERS: usize = 8;
    let (_, rest) = ethernet::Header::parse(frame).ok()?;
    let header = *ipv6::Packet::parse(rest).ok()?.header();
    frame.get_mut(6..12)?.copy_from_slice(&by.0);
    let message = frame.get_mut(ethernet::HEADER + ipv6::HEADER..ethernet::HEADER + header.total_len())?;
    let (icmp, _) = icmpv6::Header::parse_quoted(message).ok()?;
    let mut options = message.get_mut(icmpv6::HEADER + TIMERS..)?;
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * nd::MAC_OPTION;
        let (option, after) = std::mem::take(&mut options).split_at_mut_checked(len).filter(|_| len > 0)?;
        if kind == nd::option::SOURCE_MAC {
            option.get_mut(2..8)?.copy_from_slice(&by.0);
        }
        options = after;
    }
    icmp.write(message, (header.source, header.destination)).ok()
}
