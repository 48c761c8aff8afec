//! Interface that advertises its router: what it says, what it hears, and what is counted. Without a clock, and with any socket.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};

use config::six::Advertise;
use frame::nd::{self, PrefixInfo, RouterAdvert};
use frame::{Mac, icmpv6, ipv6};
use router::advertising::Advertising;
use uplink::datagrams::Origin;
use uplink::solicitations::RouterSolicitations;

/// Room for the longest message in octets: an advertisement with all options has fewer than 400.
const LONGEST: usize = 512;
/// Most solicitations that are heard at once.
const MOST: usize = 64;
/// Hop limit of a message that no router has forwarded.
const HOPS: u8 = 255;
/// Milliseconds until the first advertisement, and until one is tried again: about as long as duplicate address detection takes.
const AGAIN: u64 = 1000;
/// Milliseconds between two advertisements to all nodes at least (RFC 4861, 10: MIN_DELAY_BETWEEN_RAS).
const PAUSE: u64 = 3000;

/// Socket of an interface, or what stands for it in a test.
pub(super) trait Socket {
    /// Receives an ICMPv6 message of type router solicitation.
    ///
    /// # Errors
    /// `WouldBlock`: there is none.
    fn receive(&self, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)>;
    /// Sends an ICMPv6 message from one address to another.
    ///
    /// # Errors
    /// The link is down, for example, or the first address is not confirmed.
    fn send(&self, ends: (Ipv6Addr, Ipv6Addr), message: &[u8]) -> io::Result<()>;
}

impl Socket for RouterSolicitations {
    fn receive(&self, octets: &mut [u8]) -> io::Result<(usize, Option<Origin>)> {
        Self::receive(self, octets)
    }

    fn send(&self, ends: (Ipv6Addr, Ipv6Addr), message: &[u8]) -> io::Result<()> {
        Self::send(self, ends, message)
    }
}

/// Settings of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) name: String,
    /// Index in its namespace.
    pub(super) index: u32,
    pub(super) mac: Mac,
    pub(super) mtu: u32,
    /// Its link-local address, from which it advertises itself (RFC 4861, 4.2).
    pub(super) source: Ipv6Addr,
    pub(super) wanted: Advertise,
}

/// Interface that advertises its router.
pub(super) struct Interface<S> {
    socket: S,
    settings: Settings,
    advertising: Advertising,
    /// Advertisements sent, solicitations heard, and messages that were not valid.
    sent: u64,
    heard: u64,
    invalid: u64,
}

impl<S: Socket> Interface<S> {
    /// Begins to advertise a second from `now` on, when the interface's address is confirmed in most cases.
    pub(super) fn new(socket: S, settings: Settings, now: u64) -> Self {
        let mut advertising = advertising(&settings.wanted);
        advertising.begin(now + AGAIN);
        Self { socket, settings, advertising, sent: 0, heard: 0, invalid: 0 }
    }

    /// Name of the interface.
    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns true if these are settings of this interface.
    pub(super) fn is_at(&self, settings: &Settings) -> bool {
        self.settings.index == settings.index && self.settings.name == settings.name
    }

    /// Advertises these settings from now on, and soon if they are others.
    pub(super) fn set(&mut self, settings: Settings, now: u64) {
        if self.settings == settings {
            return;
        }
        self.advertising = advertising(&settings.wanted);
        self.advertising.begin(now + PAUSE);
        self.settings = settings;
    }

    /// Returns when the next advertisement is due.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.advertising.deadline()
    }

    /// Counters by name.
    pub(super) const fn counts(&self) -> [(&'static str, u64); 3] {
        [("sent", self.sent), ("solicitations", self.heard), ("drop_invalid", self.invalid)]
    }

    /// Hears solicitations and sends what is due; returns true if there may be further solicitations.
    pub(super) fn turn(&mut self, now: u64) -> bool {
        let is_busy = self.hear(now);
        if let Some((to, _)) = self.advertising.take_answer(now) {
            // A node that is not reached asks again.
            let _ = self.say(to);
        }
        if self.advertising.is_due(now) {
            match self.say(ipv6::ALL_NODES) {
                Ok(()) => self.advertising.sent_to_all(now, random),
                Err(_) => self.advertising.begin(now + AGAIN),
            }
        }
        is_busy
    }

    /// Sends the last advertisement, if hosts have a default router by this interface.
    pub(super) fn say_farewell(&self) {
        let write = |payload: &mut [u8]| self.advertising.write_farewell(self.settings.mac, payload);
        let to = Ipv6Addr::from_bits(ipv6::ALL_NODES);
        if let Some(message) = message((self.settings.source, to), write) {
            // Without it, they use the router until its lifetime is over.
            let _ = self.socket.send((self.settings.source, to), &message);
        }
    }

    fn hear(&mut self, now: u64) -> bool {
        let mut octets = [0; LONGEST];
        for _ in 0..MOST {
            match self.socket.receive(&mut octets) {
                Ok((len, origin)) => self.take(&octets[..len], origin, now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes a message in.
    fn take(&mut self, message: &[u8], origin: Option<Origin>, now: u64) {
        let Some(solicitation) = origin.and_then(|origin| solicitation(message, &origin)) else {
            self.invalid += 1;
            return;
        };
        self.heard += 1;
        let Solicitation { source, mac } = solicitation;
        let to = mac.filter(|_| ipv6::is_link_local(source)).map(|mac| (source, mac));
        self.advertising.hear(to, now, random);
    }

    fn say(&mut self, to: u128) -> io::Result<()> {
        let Settings { mac, mtu, source, .. } = self.settings;
        let ends = (source, Ipv6Addr::from_bits(to));
        let written = message(ends, |payload| self.advertising.write(mac, mtu, payload).ok());
        self.socket.send(ends, &written.ok_or(ErrorKind::InvalidData)?)?;
        self.sent += 1;
        Ok(())
    }
}

/// A valid router solicitation.
struct Solicitation {
    source: u128,
    mac: Option<Mac>,
}

/// Parses a message and checks it (RFC 4861, 6.1.1); the kernel has verified its checksum.
fn solicitation(message: &[u8], origin: &Origin) -> Option<Solicitation> {
    let IpAddr::V6(source) = origin.source else { return None };
    let (header, options) = icmpv6::Header::parse_quoted(message).ok()?;
    let mac = nd::mac_option(options, nd::option::SOURCE_MAC).ok()?;
    let is_valid = header.kind == nd::ROUTER_SOLICIT && header.code == 0 && origin.ttl == HOPS;
    let is_named = !source.is_unspecified() || mac.is_none();
    (is_valid && is_named).then_some(Solicitation { source: source.to_bits(), mac })
}

/// Composes a message whose payload and header `write` returns.
fn message(
    (from, to): (Ipv6Addr, Ipv6Addr),
    write: impl FnOnce(&mut [u8]) -> Option<(usize, icmpv6::Header)>,
) -> Option<Vec<u8>> {
    let mut octets = [0; LONGEST];
    let (len, header) = write(&mut octets[icmpv6::HEADER..])?;
    let message = octets.get_mut(..icmpv6::HEADER + len)?;
    header.write(message, (from.to_bits(), to.to_bits())).ok()?;
    Some(message.to_vec())
}

/// Returns what a file wants to be advertised; none is due yet.
fn advertising(wanted: &Advertise) -> Advertising {
    let prefix = |prefix: &config::six::Prefix6| PrefixInfo {
        prefix: prefix.network.to_bits(),
        len: prefix.len,
        on_link: true,
        autonomous: true,
        valid: wanted.valid,
        preferred: wanted.preferred,
    };
    let prefixes: Vec<PrefixInfo> = wanted.prefixes.iter().map(prefix).collect();
    let dns: Vec<u128> = wanted.dns.iter().map(|server| server.to_bits()).collect();
    let advert = RouterAdvert {
        hop_limit: wanted.hop_limit as u8,
        managed: wanted.managed,
        other: wanted.other,
        lifetime: wanted.lifetime as u16,
        ..RouterAdvert::default()
    };
    Advertising::new(&router::Advertise {
        advert,
        interval: (wanted.least_interval() as u16, wanted.interval as u16),
        tells_mtu: wanted.mtu,
        prefixes: &prefixes,
        dns: &dns,
    })
}

/// Returns a random number below `most`. Each state of a hash table has other keys.
fn random(most: u64) -> u64 {
    RandomState::new().build_hasher().finish() % most.max(1)
}
