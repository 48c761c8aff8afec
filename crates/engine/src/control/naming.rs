//! Frames that tell the network the Ethernet address of an IP address. For an address of a virtual router (VRRP) of which this one is the
//! master that is the address of the virtual router, not that of the NIC (RFC 5798, 8.1.2 and 8.2.2), though the sender has put that in:
//! the router, if it owns the address, or the kernel of the control plane, when it asks for a neighbour.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use frame::vlan::Tags;
use frame::{Mac, arp, checksum, ethernet, ipv6, nd};
use port::{Frame, Offload, Sink, SinkWrapper};
use ring::Bytes;

use super::Learned;

/// Most octets of a frame that tells an address.
const LONGEST: usize = 128;

/// Addresses of virtual routers at a NIC, as last looked at.
pub(crate) struct Names {
    learned: Arc<Learned>,
    nic: u8,
    /// [`Learned::version`] at the last look.
    seen: AtomicU32,
    has_some: AtomicBool,
    known: RwLock<Vec<(IpAddr, [u8; 6])>>,
}

impl Names {
    /// Those at the NIC with this number.
    pub(crate) fn new(learned: Arc<Learned>, nic: u8) -> Self {
        let (seen, has_some) = (AtomicU32::new(learned.version()), AtomicBool::new(false));
        let names = Self { learned, nic, seen, has_some, known: RwLock::default() };
        names.follow();
        names
    }

    /// Returns true if there are any.
    #[inline]
    fn has_some(&self) -> bool {
        let version = self.learned.version();
        if self.seen.load(Ordering::Relaxed) != version {
            // Noted before it is looked at: a change in between is noticed the next time.
            self.seen.store(version, Ordering::Relaxed);
            self.follow();
        }
        self.has_some.load(Ordering::Relaxed)
    }

    #[cold]
    fn follow(&self) {
        // Read while it is locked, so that a thread that was interrupted here does not write what another one has replaced.
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = self.learned.names(self.nic);
        self.has_some.store(!known.is_empty(), Ordering::Relaxed);
    }

    fn of(&self, ip: IpAddr) -> Option<[u8; 6]> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(own, _)| *own == ip).map(|(_, mac)| *mac)
    }
}

/// Sender of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The router.
    Router,
    /// The control plane. It is told of its neighbours' answers by the Ethernet addresses of its interfaces, so in neighbour discovery these stay.
    Control,
}

/// The way out of a NIC, on which such frames tell the addresses of virtual routers.
struct Naming {
    sink: Arc<dyn Sink>,
    names: Arc<Names>,
    speaker: Speaker,
}

/// Has the frames of a speaker tell the addresses of virtual routers, if its NIC may have any.
pub(crate) fn naming(sink: Arc<dyn Sink>, names: Option<&Arc<Names>>, speaker: Speaker) -> Arc<dyn Sink> {
    match names {
        Some(names) => Arc::new(Naming { sink, names: names.clone(), speaker }),
        None => sink,
    }
}

impl Naming {
    /// Delivers frames in order, those that tell an address as changed copies.
    #[cold]
    fn deliver_named(&self, frames: &[Frame<'_>]) -> usize {
        let (mut taken, mut rest) = (0, 0);
        for (at, frame) in frames.iter().enumerate() {
            let mut copy = [0; LONGEST];
            if let Some(len) = self.name(frame, &mut copy) {
                taken += self.pass(&frames[rest..at]);
                taken += self.pass(&[Frame::new(Bytes::from_slice(&mut copy[..len]))]);
                rest = at + 1;
            }
        }
        taken + self.pass(&frames[rest..])
    }

    fn pass(&self, frames: &[Frame<'_>]) -> usize {
        if frames.is_empty() { 0 } else { self.sink.deliver(frames) }
    }

    /// Makes a changed copy of a frame if it tells an address; returns its length.
    fn name(&self, frame: &Frame<'_>, copy: &mut [u8; LONGEST]) -> Option<usize> {
        if frame.len() > LONGEST || frame.offload() != Offload::NONE {
            return None;
        }
        let len = frame.octets().copy_to_slice(copy);
        name(copy.get_mut(..len)?, self.speaker, |ip| self.names.of(ip))?;
        Some(len)
    }
}

impl SinkWrapper for Naming {
    fn inner(&self) -> &dyn Sink {
        &*self.sink
    }

    fn deliver_on(&self, frames: &[Frame<'_>]) -> usize {
        if self.names.has_some() { self.deliver_named(frames) } else { self.sink.deliver(frames) }
    }
}

/// Has a frame tell the Ethernet address that `of` knows for the IP address that the frame is about. `None`: it is about no such address,
/// and has not changed.
fn name(frame: &mut [u8], speaker: Speaker, of: impl Fn(IpAddr) -> Option<[u8; 6]>) -> Option<()> {
    let tags = Tags::parse(frame).ok()?;
    let (header, packet) = frame.split_at_mut_checked(tags.header())?;
    let mac = match tags.ethertype {
        ethernet::ARP => name_in_arp(packet, of)?,
        ethernet::IPV6 if speaker == Speaker::Router => name_in_discovery(packet, of)?,
        _ => return None,
    };
    header.get_mut(6..12)?.copy_from_slice(&mac);
    Some(())
}

/// ARP: about its sender.
fn name_in_arp(packet: &mut [u8], of: impl Fn(IpAddr) -> Option<[u8; 6]>) -> Option<[u8; 6]> {
    let said = arp::Packet::parse(packet).ok()?;
    let mac = of(Ipv4Addr::from(said.sender_ip).into())?;
    arp::Packet { sender_mac: Mac(mac), ..said }.write(packet).ok()?;
    Some(mac)
}

/// Neighbour discovery: a solicitation is about its sender, an advertisement about its target.
fn name_in_discovery(packet: &mut [u8], of: impl Fn(IpAddr) -> Option<[u8; 6]>) -> Option<[u8; 6]> {
    let (header, message) = packet.split_at_mut_checked(ipv6::HEADER)?;
    if *header.get(6)? != ipv6::next::ICMP {
        return None;
    }
    let (about, kind) = match *message.first()? {
        nd::SOLICIT => (address(header, 8)?, nd::option::SOURCE_MAC),
        nd::ADVERT => (address(message, 8)?, nd::option::TARGET_MAC),
        _ => return None,
    };
    let mac = of(about.into())?;
    let at = option(message, kind)?;
    let mut sum = word(message, 2)?;
    for (n, new) in mac.as_chunks::<2>().0.iter().enumerate() {
        sum = checksum::replace(sum, word(message, at + 2 * n)?, u16::from_be_bytes(*new));
    }
    *message.get_mut(at..)?.first_chunk_mut()? = mac;
    *message.get_mut(2..)?.first_chunk_mut()? = sum.to_be_bytes();
    Some(mac)
}

/// Returns where in a message the Ethernet address of an option of this kind is.
fn option(message: &[u8], kind: u8) -> Option<usize> {
    const HEADERS: usize = 24;
    let mut at = HEADERS;
    loop {
        let [found, eights] = *message.get(at..)?.first_chunk()?;
        match (found == kind, eights) {
            (_, 0) => return None,
            (true, 1) => return Some(at + 2),
            _ => at += 8 * usize::from(eights),
        }
    }
}

fn address(octets: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*octets.get(at..)?.first_chunk::<16>()?))
}

fn word(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod tests;
