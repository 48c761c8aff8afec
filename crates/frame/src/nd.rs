//! Neighbour discovery (RFC 4861): solicitations, advertisements, redirects and their options, after the ICMPv6 header.

use crate::{
    Error, Mac, icmpv6,
    octets::{Cursor, array, be16, be32},
};

/// Type of a router solicitation.
pub const ROUTER_SOLICIT: u8 = 133;
/// Type of a router advertisement.
pub const ROUTER_ADVERT: u8 = 134;
/// Type of a neighbour solicitation.
pub const SOLICIT: u8 = 135;
/// Type of a neighbour advertisement.
pub const ADVERT: u8 = 136;

/// Kinds of options.
pub mod option {
    /// Ethernet address of the sender.
    pub const SOURCE_MAC: u8 = 1;
    /// Ethernet address of the target.
    pub const TARGET_MAC: u8 = 2;
    /// A prefix of the link.
    pub const PREFIX: u8 = 3;
    /// The packet that a redirect is about.
    pub const REDIRECTED: u8 = 4;
    /// MTU of the link.
    pub const MTU: u8 = 5;
    /// Recursive DNS servers (RFC 8106).
    pub const DNS: u8 = 25;
}

/// Maximum number of options of one message that are read.
pub const MOST_OPTIONS: usize = 32;
/// Length of an option with an Ethernet address, in octets.
pub const MAC_OPTION: usize = 8;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Kind: a value of [`option`] or another one.
    pub kind: u8,
    /// All that follows kind and length.
    pub body: &'a [u8],
}

impl Opt<'_> {
    /// Returns the Ethernet address in the option, if it has this kind.
    pub fn mac(&self, kind: u8) -> Option<Mac> {
        (self.kind == kind).then(|| array(self.body, 0).ok().map(Mac))?
    }
}

/// Options of a message. Ends after the first error and after [`MOST_OPTIONS`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Options<'a> {
    /// Reads these octets as options.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets, left: MOST_OPTIONS }
    }

    fn read(&mut self) -> Result<Opt<'a>, Error> {
        let [kind, units] = array::<2>(self.rest, 0)?;
        let len = usize::from(units) * 8;
        if len == 0 || self.left == 0 {
            return Err(Error::Length);
        }
        let body = self.rest.get(2..len).ok_or(Error::Short)?;
        (self.rest, self.left) = (&self.rest[len..], self.left - 1);
        Ok(Opt { kind, body })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

/// Returns the first Ethernet address of this kind among the options.
///
/// # Errors
/// If an option is malformed: the whole message is to be ignored then (RFC 4861, 4.6).
pub fn mac_option(octets: &[u8], kind: u8) -> Result<Option<Mac>, Error> {
    let mut found = None;
    for option in Options::new(octets) {
        found = found.or(option?.mac(kind));
    }
    Ok(found)
}

/// A neighbour solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicit {
    /// The address that is asked for.
    pub target: u128,
    /// Ethernet address of the sender; `None` in duplicate address detection.
    pub source_mac: Option<Mac>,
}

impl Solicit {
    /// Length of the longest payload that [`Solicit::write`] writes, in octets.
    pub const LONGEST: usize = 16 + MAC_OPTION;

    /// Parses the payload of a message.
    pub fn parse(payload: &[u8]) -> Result<Self, Error> {
        let target = u128::from_be_bytes(array(payload, 0)?);
        Ok(Self { target, source_mac: mac_option(&payload[16..], option::SOURCE_MAC)? })
    }

    /// Writes the payload; returns its length and the ICMPv6 header for it.
    pub fn write(&self, payload: &mut [u8]) -> Result<(usize, icmpv6::Header), Error> {
        let mut cursor = Cursor::new(payload);
        cursor.put(&self.target.to_be_bytes())?;
        put_mac(&mut cursor, option::SOURCE_MAC, self.source_mac)?;
        Ok((cursor.len(), icmpv6::Header { kind: SOLICIT, code: 0, rest: 0 }))
    }
}

/// A neighbour advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advert {
    /// The address whose owner is told.
    pub target: u128,
    /// Ethernet address of the target.
    pub target_mac: Option<Mac>,
    /// True if the sender is a router.
    pub router: bool,
    /// True if it answers a solicitation.
    pub solicited: bool,
    /// True if it replaces an Ethernet address that is known already.
    pub overrides: bool,
}

impl Advert {
    /// Length of the longest payload that [`Advert::write`] writes, in octets.
    pub const LONGEST: usize = 16 + MAC_OPTION;

    /// Parses the payload of a message with this header.
    pub fn parse(header: &icmpv6::Header, payload: &[u8]) -> Result<Self, Error> {
        let target = u128::from_be_bytes(array(payload, 0)?);
        let bit = |bit: u32| header.rest >> bit & 1 != 0;
        Ok(Self {
            target,
            target_mac: mac_option(&payload[16..], option::TARGET_MAC)?,
            router: bit(31),
            solicited: bit(30),
            overrides: bit(29),
        })
    }

    /// Writes the payload; returns its length and the ICMPv6 header for it.
    pub fn write(&self, payload: &mut [u8]) -> Result<(usize, icmpv6::Header), Error> {
        let mut cursor = Cursor::new(payload);
        cursor.put(&self.target.to_be_bytes())?;
        put_mac(&mut cursor, option::TARGET_MAC, self.target_mac)?;
        let rest =
            u32::from(self.router) << 31 | u32::from(self.solicited) << 30 | u32::from(self.overrides) << 29;
        Ok((cursor.len(), icmpv6::Header { kind: ADVERT, code: 0, rest }))
    }
}

/// A redirect: it tells a host a better next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'a> {
    /// The better next hop: the destination itself, or the link-local address of a router.
    pub target: u128,
    /// Ethernet address of the target.
    pub target_mac: Mac,
    /// Destination of the packet.
    pub destination: u128,
    /// The packet, or the beginning of it; it is quoted in units of eight octets.
    pub packet: &'a [u8],
}

impl Redirect<'_> {
    /// Most octets of a packet that are quoted.
    pub const QUOTED: usize = 512;

    /// Writes the payload; returns its length and the ICMPv6 header for it.
    pub fn write(&self, payload: &mut [u8]) -> Result<(usize, icmpv6::Header), Error> {
        // The first unit of the option has its kind and its length.
        let (units, _) = self.packet[..self.packet.len().min(Self::QUOTED)].as_chunks::<8>();
        let mut cursor = Cursor::new(payload);
        cursor.put(&self.target.to_be_bytes())?;
        cursor.put(&self.destination.to_be_bytes())?;
        put_mac(&mut cursor, option::TARGET_MAC, Some(self.target_mac))?;
        cursor.put(&[option::REDIRECTED, units.len() as u8 + 1, 0, 0, 0, 0, 0, 0])?;
        cursor.put(units.as_flattened())?;
        Ok((cursor.len(), icmpv6::Header { kind: icmpv6::REDIRECT, code: 0, rest: 0 }))
    }
}

fn put_mac(cursor: &mut Cursor<'_>, kind: u8, mac: Option<Mac>) -> Result<(), Error> {
    let Some(mac) = mac else { return Ok(()) };
    cursor.put(&[kind, 1])?;
    cursor.put(&mac.0)
}

/// A prefix in a router advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// The prefix; bits after its length are zero.
    pub prefix: u128,
    /// Length of the prefix in bits.
    pub len: u8,
    /// True if its addresses are on the link.
    pub on_link: bool,
    /// True if hosts may form addresses in it.
    pub autonomous: bool,
    /// Seconds for which it is on the link; `u32::MAX`: forever.
    pub valid: u32,
    /// Seconds for which addresses in it are preferred.
    pub preferred: u32,
}

impl PrefixInfo {
    /// Length of the option in octets.
    pub const LEN: usize = 32;

    /// Parses the body of an option.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let body: [u8; Self::LEN - 2] = array(body, 0)?;
        Ok(Self {
            len: body[0],
            on_link: body[1] & 0x80 != 0,
            autonomous: body[1] & 0x40 != 0,
            valid: be32(&body, 2),
            preferred: be32(&body, 6),
            prefix: u128::from_be_bytes(array(&body, 14)?),
        })
    }

    fn write(&self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let flags = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        cursor.put(&[option::PREFIX, 4, self.len, flags])?;
        cursor.put(&self.valid.to_be_bytes())?;
        cursor.put(&self.preferred.to_be_bytes())?;
        cursor.put(&[0; 4])?;
        cursor.put(&self.prefix.to_be_bytes())
    }
}

/// A router advertisement without its options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterAdvert {
    /// Hop limit that hosts should use; 0: not specified.
    pub hop_limit: u8,
    /// True if addresses come from DHCPv6.
    pub managed: bool,
    /// True if other settings come from DHCPv6.
    pub other: bool,
    /// Seconds for which the sender is a default router; 0: it is none.
    pub lifetime: u16,
    /// Milliseconds for which a confirmed neighbour counts as reachable; 0: not specified.
    pub reachable: u32,
    /// Milliseconds between solicitations; 0: not specified.
    pub retransmit: u32,
}

/// Options of a router advertisement.
#[derive(Clone, Copy, Debug)]
pub struct AdvertOptions<'a> {
    /// Ethernet address of the router.
    pub mac: Mac,
    /// MTU of the link in octets; `None`: not told.
    pub mtu: Option<u32>,
    /// Prefixes of the link.
    pub prefixes: &'a [PrefixInfo],
    /// DNS servers, and the seconds for which they may be used.
    pub dns: (&'a [u128], u32),
}

impl RouterAdvert {
    /// Parses a message; returns it with its options.
    pub fn parse<'a>(header: &icmpv6::Header, payload: &'a [u8]) -> Result<(Self, Options<'a>), Error> {
        let [hop_limit, flags, a, b] = header.rest.to_be_bytes();
        let timers: [u8; 8] = array(payload, 0)?;
        let advert = Self {
            hop_limit,
            managed: flags & 0x80 != 0,
            other: flags & 0x40 != 0,
            lifetime: be16(&[a, b], 0),
            reachable: be32(&timers, 0),
            retransmit: be32(&timers, 4),
        };
        Ok((advert, Options::new(&payload[8..])))
    }

    /// Writes the payload with its options; returns its length and the ICMPv6 header for it.
    pub fn write(
        &self,
        options: &AdvertOptions<'_>,
        payload: &mut [u8],
    ) -> Result<(usize, icmpv6::Header), Error> {
        let mut cursor = Cursor::new(payload);
        cursor.put(&self.reachable.to_be_bytes())?;
        cursor.put(&self.retransmit.to_be_bytes())?;
        put_mac(&mut cursor, option::SOURCE_MAC, Some(options.mac))?;
        if let Some(mtu) = options.mtu {
            cursor.put(&[option::MTU, 1, 0, 0])?;
            cursor.put(&mtu.to_be_bytes())?;
        }
        for prefix in options.prefixes {
            prefix.write(&mut cursor)?;
        }
        put_dns(&mut cursor, options.dns)?;
        let [a, b] = self.lifetime.to_be_bytes();
        let flags = u8::from(self.managed) << 7 | u8::from(self.other) << 6;
        let rest = u32::from_be_bytes([self.hop_limit, flags, a, b]);
        Ok((cursor.len(), icmpv6::Header { kind: ROUTER_ADVERT, code: 0, rest }))
    }
}

fn put_dns(cursor: &mut Cursor<'_>, (servers, lifetime): (&[u128], u32)) -> Result<(), Error> {
    if servers.is_empty() {
        return Ok(());
    }
    let units = u8::try_from(1 + 2 * servers.len()).map_err(|_| Error::Length)?;
    cursor.put(&[option::DNS, units, 0, 0])?;
    cursor.put(&lifetime.to_be_bytes())?;
    servers.iter().try_for_each(|server| cursor.put(&server.to_be_bytes()))
}
