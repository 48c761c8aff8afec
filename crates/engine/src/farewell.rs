//! Farewell of a router that is stopped by order: hosts for which it is a default router, by its advertisements, are told that it is none
//! any more (RFC 4861, 6.2.5). It is said in the router's name, because the router itself may be busy or hang.

use std::sync::Arc;

use config::six::Six;
use config::{Nic, Router};
use frame::nd::{AdvertOptions, RouterAdvert};
use frame::vlan::{self, Tag};
use frame::{Mac, ethernet, icmpv6, ipv6};
use nic_port::NicQueues;
use port::{Frame, Sink};
use ring::Bytes;

/// Octets of the headers before an ICMPv6 message.
const HEADERS: usize = ethernet::HEADER + ipv6::HEADER;
/// Octets of an ICMPv6 message with a router's Ethernet address, and no less.
const MESSAGE: usize = icmpv6::HEADER + 8 + frame::nd::MAC_OPTION;

/// Last advertisements out of a NIC, one for each of its interfaces that advertises itself.
pub(crate) struct Farewell {
    frames: Vec<Vec<u8>>,
    sink: Arc<dyn Sink>,
    cable: Arc<NicQueues>,
}

impl Farewell {
    /// Returns that of a NIC, whose frames leave by `sink`; `None` if hosts there have no default router by it.
    pub(crate) fn of(
        (plan, nic): (&Router, &Nic),
        sink: Arc<dyn Sink>,
        cable: &Arc<NicQueues>,
    ) -> Option<Self> {
        let frames = last_adverts(plan, nic);
        (!frames.is_empty()).then(|| Self { frames, sink, cable: cable.clone() })
    }

    /// Sends it, unless the cable is unplugged.
    pub(crate) fn say(&self) {
        if self.cable.is_unplugged() {
            return;
        }
        for octets in &self.frames {
            let mut octets = octets.clone();
            self.sink.deliver(&[Frame::new(Bytes::from_slice(&mut octets))]);
        }
    }
}

/// Returns the last advertisements out of a NIC.
fn last_adverts(plan: &Router, nic: &Nic) -> Vec<Vec<u8>> {
    let number = plan.nics.iter().position(|known| known.name == nic.name);
    let vlans = plan.forwarding.interfaces.iter().filter(|own| Some(own.nic) == number);
    let tagged = vlans.map(|own| {
        let outer = own.tags.outer.map(|outer| Tag::new(vlan::SERVICE, outer));
        let tags = outer.into_iter().chain([Tag::new(vlan::CUSTOMER, own.tags.id)]);
        (&own.six, tags.collect::<Vec<_>>())
    });
    let all = [(&nic.six, Vec::new())].into_iter().chain(tagged);
    all.filter_map(|(six, tags)| last_advert(Mac(nic.mac.0), six, &tags)).collect()
}

/// Returns the last advertisement of an interface with these tags; `None` if it is no default router by one.
fn last_advert(mac: Mac, six: &Six, tags: &[Tag]) -> Option<Vec<u8>> {
    let said = six.advertise.as_ref().filter(|said| said.lifetime != 0)?;
    let given = six.addresses.iter().find(|own| own.ip.is_unicast_link_local());
    let source = given.map_or_else(|| ipv6::link_local(mac), |own| own.ip.to_bits());
    let advert = RouterAdvert {
        hop_limit: said.hop_limit as u8,
        managed: said.managed,
        other: said.other,
        ..RouterAdvert::default()
    };
    let mut octets = [0; HEADERS + MESSAGE];
    let (headers, message) = octets.split_at_mut_checked(HEADERS)?;
    let (link, packet) = headers.split_at_mut_checked(ethernet::HEADER)?;
    let options = AdvertOptions { mac, mtu: None, prefixes: &[], dns: (&[], 0) };
    let (_, header) = advert.write(&options, message.get_mut(icmpv6::HEADER..)?).ok()?;
    header.write(message, (source, ipv6::ALL_NODES)).ok()?;
    let outer = ipv6::Header::new(ipv6::next::ICMP, source, ipv6::ALL_NODES, MESSAGE as u16);
    ipv6::Header { hop_limit: 255, ..outer }.write(packet).ok()?;
    let destination = ipv6::group_mac(ipv6::ALL_NODES);
    ethernet::Header { destination, source: mac, ethertype: ethernet::IPV6 }.write(link).ok()?;
    let (addresses, rest) = octets.split_at_checked(vlan::AT)?;
    let tags: Vec<u8> = tags.iter().flat_map(|tag| tag.octets()).collect();
    Some([addresses, tags.as_slice(), rest].concat())
}

#[cfg(test)]
mod tests;
