//! Encoding and decoding of netlink attributes: length, type and value of each (`struct nlattr` of `linux/netlink.h`).
//! Pure.

/// Octets of an attribute's header: length and type.
const HEADER: usize = 4;
/// Flag of an attribute whose value consists of attributes; families with strict checking require it.
const NESTED: u16 = 0x8000;
/// Bits of the type without such flags.
const KIND: u16 = 0x3fff;

/// A sequence of attributes under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attributes {
    octets: Vec<u8>,
}

impl Attributes {
    /// Appends an attribute. A value longer than the maximum of 65,531 octets is silently left out.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        let Ok(len) = u16::try_from(HEADER + value.len()) else { return self };
        self.octets.extend(len.to_ne_bytes());
        self.octets.extend(kind.to_ne_bytes());
        self.octets.extend(value);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
        self
    }

    /// Appends a 32-bit number.
    pub(crate) fn number(self, kind: u16, value: u32) -> Self {
        self.with(kind, &value.to_ne_bytes())
    }

    /// Appends a string with its terminating NUL.
    pub(crate) fn text(self, kind: u16, value: &str) -> Self {
        self.with(kind, &[value.as_bytes(), &[0]].concat())
    }

    /// Appends an attribute that contains attributes.
    pub(crate) fn nest(self, kind: u16, value: &Self) -> Self {
        self.with(kind | NESTED, &value.octets)
    }

    /// Returns the encoded attributes.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }
}

/// Decodes attributes: type and value of each. Stops at a malformed one.
pub(crate) fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = octets;
    std::iter::from_fn(move || {
        let header = rest.first_chunk::<HEADER>()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & KIND;
        let value = rest.get(HEADER..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Decodes a 32-bit number; `None` if the value has another length.
pub(crate) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Decodes a string, without its terminating NUL.
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    let end = value.iter().position(|octet| *octet == 0).unwrap_or(value.len());
    std::str::from_utf8(&value[..end]).ok()
}

#[cfg(test)]
mod tests;
