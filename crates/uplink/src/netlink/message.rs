//! Messages about links (`struct nlmsghdr` with `struct ifinfomsg`, `linux/netlink.h`, `linux/rtnetlink.h`), and the
//! acknowledgements.

use std::io;

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Octets of `struct nlattr` before what it holds.
const ATTRIBUTE: usize = 4;

/// A request in the making.
#[derive(Debug)]
pub(crate) struct Message {
    octets: Vec<u8>,
}

impl Message {
    /// `kind` (RTM_NEWLINK, …) for the interface with this index; 0: one that is named, or that is made. `flags`
    /// (IFF_UP, …) are set on it, others stay.
    pub(crate) fn link(kind: u16, extra: i32, index: u32, flags: u32) -> Self {
        let mut octets = vec![0; HEADER];
        let request = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | extra) as u16;
        octets[4..6].copy_from_slice(&kind.to_ne_bytes());
        octets[6..8].copy_from_slice(&request.to_ne_bytes());
        octets.extend([0; 4]);
        octets.extend(index.to_ne_bytes());
        // What to set, and which of it is meant.
        octets.extend(flags.to_ne_bytes());
        octets.extend(flags.to_ne_bytes());
        Self { octets }.measured()
    }

    /// A message with one more attribute.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        append(&mut self.octets, kind, value);
        self.measured()
    }

    /// With its own length in its head.
    fn measured(mut self) -> Self {
        let len = self.octets.len() as u32;
        self.octets[..4].copy_from_slice(&len.to_ne_bytes());
        self
    }

    /// What is sent.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }
}

/// Attributes that are the value of another one.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Attributes with one more.
    pub(crate) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        append(&mut self.0, kind, value);
        self
    }

    /// The value that they are.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.0
    }
}

fn append(octets: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = (ATTRIBUTE + value.len()) as u16;
    octets.extend(len.to_ne_bytes());
    octets.extend(kind.to_ne_bytes());
    octets.extend(value);
    // Each begins at a multiple of 4.
    octets.resize(octets.len().next_multiple_of(4), 0);
}

/// What a datagram of the kernel says to a request; none if it is about something else.
pub(super) fn answer(octets: &[u8]) -> Option<io::Result<()>> {
    let kind = octets.get(4..6)?.try_into().ok().map(u16::from_ne_bytes)?;
    if i32::from(kind) != libc::NLMSG_ERROR {
        return None;
    }
    let error = octets.get(HEADER..HEADER + 4)?.try_into().ok().map(i32::from_ne_bytes)?;
    Some(if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error.saturating_neg())) })
}

/// The attribute of this kind in a message about a link.
pub(super) fn attribute(octets: &[u8], kind: u16) -> Option<&[u8]> {
    let mut rest = octets.get(2 * HEADER..)?;
    loop {
        let [a, b, c, d, ..] = *rest else { return None };
        let (len, found) = (usize::from(u16::from_ne_bytes([a, b])), u16::from_ne_bytes([c, d]));
        let value = rest.get(ATTRIBUTE..len)?;
        if found == kind {
            return Some(value);
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests;
