//! Extension headers (RFC 8200, 4): a bounded walk to the transport header, and the options inside.

use super::{HEADER, next};
use crate::{
    Error, icmpv6,
    octets::{array, be16, be32},
    tcp, udp,
};

/// Maximum number of extension headers of one packet that are walked. A chain that is longer is refused: no sender needs
/// it, and each one costs time.
pub const MOST_HEADERS: usize = 8;
/// Maximum number of options of one header that are read, padding included.
pub const MOST_OPTIONS: usize = 16;

/// Fields of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of the fragment in the fragmentable part, in units of 8 octets; 13 bits.
    pub offset: u16,
    /// True if this is not the last fragment.
    pub more: bool,
    /// Identification, which is equal in the fragments of one packet.
    pub identification: u32,
}

impl Fragment {
    /// Length of the header in octets.
    pub const LEN: usize = 8;

    fn parse(header: &[u8; 8]) -> Self {
        let word = be16(header, 2);
        Self { offset: word >> 3, more: word & 1 != 0, identification: be32(header, 4) }
    }

    /// Encodes the header, with the kind of the header that follows it.
    pub fn octets(&self, next_header: u8) -> [u8; Self::LEN] {
        let [a, b] = (self.offset << 3 | u16::from(self.more)).to_be_bytes();
        let [c, d, e, f] = self.identification.to_be_bytes();
        [next_header, 0, a, b, c, d, e, f]
    }

    /// Returns true if the header divides nothing (an atomic fragment, RFC 6946).
    pub const fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// Place of a packet's transport header. All offsets are from the start of the packet, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// Kind of the header at `at`.
    pub protocol: u8,
    /// Offset of the transport header; in a later fragment, of its data.
    pub at: usize,
    /// Offset of the next header field that names `protocol`.
    pub named_at: usize,
    /// The fragment header, if there is one, and its offset.
    pub fragment: Option<(Fragment, usize)>,
    /// Offset of the hop-by-hop options, if there are any.
    pub hop_by_hop: Option<usize>,
    /// Offset of the first routing header, if there is one.
    pub routing: Option<usize>,
}

impl Upper {
    /// Returns true if no transport header follows, because the packet is a later fragment.
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|(fragment, _)| fragment.offset != 0)
    }
}

/// Walks the extension headers of a packet, which starts with its fixed header and may be truncated after its headers.
///
/// # Errors
/// [`Error::Short`] if a header is not complete, [`Error::Kind`] if there are more than [`MOST_HEADERS`],
/// [`Error::Length`] if hop-by-hop options are not the first ones.
pub fn walk(packet: &[u8]) -> Result<Upper, Error> {
    let mut upper = Upper::begin(packet)?;
    for _ in 0..MOST_HEADERS {
        if !upper.step(packet)? {
            return Ok(upper);
        }
    }
    if is_extension(upper.protocol) { Err(Error::Kind) } else { Ok(upper) }
}

/// Returns the offset of the next header field that names hop-by-hop options that are not the first header, if a packet has
/// such.
pub fn misplaced(packet: &[u8]) -> Option<usize> {
    let mut upper = Upper::begin(packet).ok()?;
    for _ in 0..MOST_HEADERS {
        match upper.step(packet) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return (error == Error::Length).then_some(upper.named_at),
        }
    }
    None
}

/// Returns true if a complete packet is a first fragment that does not contain all headers, the transport header included
/// (RFC 7112, 5; RFC 8200, 4.5).
pub fn is_cut_in_headers(packet: &[u8]) -> bool {
    let Ok(mut upper) = Upper::begin(packet) else { return false };
    for _ in 0..MOST_HEADERS {
        match upper.step(packet) {
            Ok(true) => {}
            Ok(false) => {
                return upper.is_first_fragment() && packet.len() < upper.at + shortest(upper.protocol);
            }
            Err(error) => return error == Error::Short && upper.is_first_fragment(),
        }
    }
    false
}

/// Returns the length of a transport header without options, in octets; at least 1 if it is not known.
const fn shortest(protocol: u8) -> usize {
    match protocol {
        next::TCP => tcp::HEADER,
        next::UDP => udp::HEADER,
        next::ICMP => icmpv6::HEADER,
        next::NONE => 0,
        _ => 1,
    }
}

/// Returns true if this is the kind of a header that a walk passes.
const fn is_extension(kind: u8) -> bool {
    matches!(
        kind,
        next::HOP_BY_HOP | next::ROUTING | next::FRAGMENT | next::AUTHENTICATION | next::DESTINATION
    )
}

impl Upper {
    /// Returns true if the packet is the first of several fragments.
    fn is_first_fragment(&self) -> bool {
        self.fragment.is_some_and(|(fragment, _)| fragment.offset == 0 && fragment.more)
    }

    /// Begins behind the fixed header.
    fn begin(packet: &[u8]) -> Result<Self, Error> {
        let protocol = *packet.get(6).ok_or(Error::Short)?;
        Ok(Self { protocol, at: HEADER, named_at: 6, fragment: None, hop_by_hop: None, routing: None })
    }

    /// Passes one extension header; returns false if there is none.
    fn step(&mut self, packet: &[u8]) -> Result<bool, Error> {
        if !is_extension(self.protocol) || self.is_later_fragment() {
            return Ok(false);
        }
        let at = self.at;
        let [next_header, units] = array::<2>(packet, at)?;
        let len = match self.protocol {
            next::FRAGMENT => {
                let fragment = Fragment::parse(&array(packet, at)?);
                self.fragment = self.fragment.or(Some((fragment, at)));
                Fragment::LEN
            }
            next::AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        match self.protocol {
            next::HOP_BY_HOP if at != HEADER => return Err(Error::Length),
            next::HOP_BY_HOP => self.hop_by_hop = Some(at),
            next::ROUTING => self.routing = self.routing.or(Some(at)),
            _ => {}
        }
        if packet.len() < at + len {
            return Err(Error::Short);
        }
        (self.protocol, self.named_at, self.at) = (next_header, at, at + len);
        Ok(true)
    }
}

/// Action that the sender of an option wants from a node that does not know it (RFC 8200, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Skip it.
    Skip,
    /// Drop the packet.
    Drop,
    /// Drop the packet, and report it.
    Report,
    /// Drop the packet, and report it unless the packet was sent to a group.
    ReportUnicast,
}

/// One option of a hop-by-hop or destination options header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Kind: action, change on the way, number.
    pub kind: u8,
    /// Offset of the option from the start of its header, in octets.
    pub at: usize,
    /// Data.
    pub data: &'a [u8],
}

impl Opt<'_> {
    /// Kind of the router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// Kind of the jumbo payload (RFC 2675).
    pub const JUMBO: u8 = 0xc2;

    /// Returns what to do if the option is not known.
    pub const fn action(&self) -> Action {
        match self.kind >> 6 {
            0 => Action::Skip,
            1 => Action::Drop,
            2 => Action::Report,
            _ => Action::ReportUnicast,
        }
    }
}

/// Options of a header, without padding. Ends after the first error and after [`MOST_OPTIONS`].
#[derive(Clone, Debug)]
pub struct Options<'a> {
    header: &'a [u8],
    at: usize,
    left: usize,
}

impl<'a> Options<'a> {
    /// Reads the options header at `at` of a packet.
    ///
    /// # Errors
    /// [`Error::Short`] if the header is not complete.
    pub fn new(packet: &'a [u8], at: usize) -> Result<Self, Error> {
        let [_, units] = array::<2>(packet, at)?;
        let header = packet.get(at..at + (usize::from(units) + 1) * 8).ok_or(Error::Short)?;
        Ok(Self { header, at: 2, left: MOST_OPTIONS })
    }

    /// Reads the option at the present place: `None` for one octet of padding.
    fn read(&mut self) -> Result<Option<Opt<'a>>, Error> {
        let at = self.at;
        let kind = self.header[at];
        if kind == 0 {
            self.at += 1;
            return Ok(None);
        }
        let len = usize::from(*self.header.get(at + 1).ok_or(Error::Short)?);
        let data = self.header.get(at + 2..at + 2 + len).ok_or(Error::Length)?;
        self.at = at + 2 + len;
        Ok((kind != 1).then_some(Opt { kind, at, data }))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Opt<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.header.len() {
            let Some(left) = self.left.checked_sub(1) else {
                self.at = self.header.len();
                return Some(Err(Error::Kind));
            };
            self.left = left;
            match self.read() {
                Ok(None) => {}
                Ok(Some(option)) => return Some(Ok(option)),
                Err(error) => {
                    self.at = self.header.len();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
