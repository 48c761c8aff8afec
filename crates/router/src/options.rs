//! IPv4 options (RFC 791, 3.1; RFC 1812, 5.2.4 and 5.3.13): checked, filled in on the way, and returned by an echo.

use frame::{ethernet, icmp, ipv4};

use crate::ip::Ip;
use crate::platform::{Buffer, Platform};
use crate::router::Router;
use crate::routes::Routes;
use crate::slow::Origin;

/// Kinds of options.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_ROUTE: u8 = 131;
const STRICT_ROUTE: u8 = 137;

/// Flags of a timestamp: what each entry has.
const ONLY_TIMES: u8 = 0;
const TIMES_AND_ADDRESSES: u8 = 1;
const GIVEN_ADDRESSES: u8 = 3;
/// Bit of a timestamp that is not in milliseconds since midnight UT (RFC 791): the router has no calendar.
const NOT_STANDARD: u32 = 1 << 31;

/// Reason why a packet's options are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// One of them is a source route.
    SourceRoute,
    /// One of them is malformed.
    Malformed {
        /// Offset of the wrong octet from the start of the packet.
        at: u8,
    },
}

/// One option.
#[derive(Clone, Copy, Debug)]
struct Opt {
    kind: u8,
    /// Offset in the list, and length, in octets.
    at: usize,
    len: usize,
}

/// Options of a list without padding; ends with the first error, which is the offset of the wrong octet, or of an option
/// whose length is wrong.
struct Walk<'a> {
    list: &'a [u8],
    at: usize,
}

impl Iterator for Walk<'_> {
    type Item = Result<Opt, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.list.get(self.at) == Some(&NO_OPERATION) {
            self.at += 1;
        }
        let at = self.at;
        let kind = *self.list.get(at).filter(|kind| **kind != END)?;
        let len = self.list.get(at + 1).map_or(0, |len| usize::from(*len));
        if len < 2 || at + len > self.list.len() {
            self.at = self.list.len();
            return Some(Err(at));
        }
        self.at = at + len;
        Some(Ok(Opt { kind, at, len }))
    }
}

/// Entry to be written into a record.
#[derive(Clone, Copy)]
struct Entry<'n> {
    /// The router's address.
    address: u32,
    /// Timestamp in milliseconds.
    time: u32,
    /// Returns true if an address is the router's own.
    is_own: &'n dyn Fn(u32) -> bool,
}

/// Returns the list of options of a packet.
fn list<'b, B: Buffer>(buffer: &'b mut B, header: &ipv4::Header) -> &'b mut [u8] {
    let range = ethernet::HEADER + ipv4::HEADER..ethernet::HEADER + usize::from(header.header_len);
    buffer.octets().get_mut(range).unwrap_or_default()
}

/// Checks the options of a packet, if it has any.
///
/// # Errors
/// A source route, or a malformed option.
pub(crate) fn check<B: Buffer>(buffer: &mut B, header: &ipv4::Header) -> Result<(), Fault> {
    if usize::from(header.header_len) == ipv4::HEADER {
        return Ok(());
    }
    let list = list(buffer, header);
    for option in (Walk { list, at: 0 }) {
        let faulty = option.and_then(|option| examine(list, &option).map(|()| option.kind));
        match faulty {
            Ok(LOOSE_ROUTE | STRICT_ROUTE) => return Err(Fault::SourceRoute),
            Ok(_) => {}
            Err(at) => return Err(Fault::Malformed { at: (ipv4::HEADER + at) as u8 }),
        }
    }
    Ok(())
}

/// Checks length and pointer of one option; returns the offset of the wrong octet.
fn examine(list: &[u8], option: &Opt) -> Result<(), usize> {
    let Opt { kind, at, len } = *option;
    let (least, first) = match kind {
        RECORD_ROUTE | LOOSE_ROUTE | STRICT_ROUTE => (3, 4),
        TIMESTAMP => (4, 5),
        _ => return Ok(()),
    };
    if len < least {
        return Err(at + 1);
    }
    let pointer = usize::from(list[at + 2]);
    if pointer < first {
        return Err(at + 2);
    }
    let room = len.saturating_sub(pointer - 1);
    match (kind, room) {
        // It is full, which a timestamp counts in four bits.
        (TIMESTAMP, 0) if list[at + 3] >> 4 == 15 => Err(at + 3),
        (_, 0) => Ok(()),
        (TIMESTAMP, _) => match list[at + 3] & 0xf {
            ONLY_TIMES if room >= 4 => Ok(()),
            TIMES_AND_ADDRESSES | GIVEN_ADDRESSES if room >= 8 => Ok(()),
            ONLY_TIMES | TIMES_AND_ADDRESSES | GIVEN_ADDRESSES => Err(at + 2),
            _ => Err(at + 3),
        },
        (_, 1..=3) => Err(at + 2),
        _ => Ok(()),
    }
}

/// Returns true if a packet has a record of the route or timestamps.
pub(crate) fn records<B: Buffer>(buffer: &mut B, header: &ipv4::Header) -> bool {
    let list = list(buffer, header);
    let mut options = Walk { list, at: 0 }.map_while(Result::ok);
    options.any(|option| matches!(option.kind, RECORD_ROUTE | TIMESTAMP))
}

/// Writes an entry into each record of a list that was checked; returns true if the list has changed.
fn fill(list: &mut [u8], entry: &Entry<'_>) -> bool {
    let (mut at, mut changed) = (0, false);
    while let Some(Ok(option)) = (Walk { list, at }).next() {
        at = option.at + option.len;
        let Some(octets) = list.get_mut(option.at..at) else { break };
        changed |= match option.kind {
            RECORD_ROUTE => put(octets, &entry.address.to_be_bytes()),
            TIMESTAMP => stamp(octets, entry),
            _ => false,
        };
    }
    changed
}

/// Writes the next entry of an option behind its pointer, and moves the pointer.
fn put(option: &mut [u8], entry: &[u8]) -> bool {
    let start = usize::from(option[2]).wrapping_sub(1);
    let Some(place) = option.get_mut(start..start.wrapping_add(entry.len())) else { return false };
    place.copy_from_slice(entry);
    option[2] = (start + entry.len() + 1) as u8;
    true
}

/// Writes the next timestamp, or counts it if the option is full.
fn stamp(option: &mut [u8], entry: &Entry<'_>) -> bool {
    let start = usize::from(option[2]).wrapping_sub(1);
    let time = entry.time.to_be_bytes();
    if start >= option.len() {
        option[3] = option[3].saturating_add(0x10);
        return true;
    }
    let [a, b, c, d] = entry.address.to_be_bytes();
    let [e, f, g, h] = time;
    match option[3] & 0xf {
        ONLY_TIMES => put(option, &time),
        TIMES_AND_ADDRESSES => put(option, &[a, b, c, d, e, f, g, h]),
        GIVEN_ADDRESSES => {
            let Some(given) = option.get(start..).and_then(<[u8]>::first_chunk).copied() else {
                return false;
            };
            let [a, b, c, d] = given;
            (entry.is_own)(u32::from_be_bytes(given)) && put(option, &[a, b, c, d, e, f, g, h])
        }
        _ => false,
    }
}

impl<B: Buffer, R: Routes> Router<'_, B, R> {
    /// Fills in the records of a forwarded packet, with the address of the NIC by which it leaves towards `ip`; of another NIC if
    /// that has none.
    pub(crate) fn record(
        &self,
        buffer: &mut B,
        (header, origin): (&ipv4::Header, Origin),
        (nic, ip): (u8, Ip),
    ) {
        if usize::from(header.header_len) == ipv4::HEADER || !matches!(origin, Origin::Received(_)) {
            return;
        }
        let peer = ip.as_v4().unwrap_or(header.destination);
        if let Some(address) = self.address_at(nic, peer) {
            self.fill_records(buffer, header, address);
        }
    }

    /// Writes an entry with this address into the records of a packet, and renews its checksum.
    fn fill_records(&self, buffer: &mut B, header: &ipv4::Header, address: u32) {
        let is_own = |ip| self.is_own(ip);
        let entry = Entry { address, time: self.now as u32 | NOT_STANDARD, is_own: &is_own };
        if fill(list(buffer, header), &entry)
            && let Some(octets) = buffer.octets().get_mut(ethernet::HEADER..)
        {
            // It cannot fail: the header was read from these octets.
            let _ = header.write(octets);
        }
    }

    /// Answers an echo request with its options, which have the router's own entry then.
    pub(crate) fn echo_with_records<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        mut buffer: B,
        (request, nic): (&ipv4::Header, u8),
    ) {
        let counters = self.counters;
        let start = ethernet::HEADER + usize::from(request.header_len);
        let message = buffer.octets().get_mut(start..).and_then(<[u8]>::first_chunk_mut::<4>);
        let Some([kind, _, high, low]) = message else {
            return self.discard(platform, buffer, Origin::Received(nic), &counters.drop_local);
        };
        counters.consumed.add(1);
        let asked = u16::from(core::mem::replace(kind, icmp::ECHO_REPLY)) << 8;
        [*high, *low] = frame::checksum::replace(u16::from_be_bytes([*high, *low]), asked, 0).to_be_bytes();
        let own = self.own_header(request.destination, request.source, 0);
        let reply = ipv4::Header {
            header_len: request.header_len,
            total_len: request.total_len,
            tos: request.tos,
            dont_fragment: request.dont_fragment,
            ..own
        };
        let written = buffer.octets().get_mut(ethernet::HEADER..).map(|octets| reply.write(octets));
        self.fill_records(&mut buffer, &reply, request.destination);
        match written {
            Some(Ok(())) => self.route(platform, buffer, Origin::Own),
            _ => self.discard(platform, buffer, Origin::Own, &counters.drop_local),
        }
    }
}

#[cfg(test)]
mod tests;
