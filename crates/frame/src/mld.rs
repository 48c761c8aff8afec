//! Multicast listener discovery (RFC 3810; of RFC 2710 queries and reports), after the ICMPv6 header.

use crate::{
    Error, icmpv6,
    octets::{Cursor, array, be16},
};

/// Type of a query.
pub const QUERY: u8 = 130;
/// Type of a report of version 1.
pub const REPORT_V1: u8 = 131;
/// Type of a report of version 2.
pub const REPORT_V2: u8 = 143;
/// Hop-by-hop header of each message: padding and a router alert for MLD (RFC 3810, 5; RFC 2711), before ICMPv6.
pub const HOP_BY_HOP: [u8; 8] = [crate::ipv6::next::ICMP, 0, 5, 2, 0, 0, 1, 0];
/// Maximum number of groups in one report that are written or read.
pub const MOST_RECORDS: usize = 64;
/// Length of a record without sources, in octets.
pub const RECORD: usize = 20;

/// Kinds of records without sources: any source is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Record {
    /// The answer to a query: the sender listens.
    Listens = 2,
    /// The sender begins to listen.
    Joins = 4,
    /// The sender stops listening.
    Leaves = 3,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Milliseconds within which listeners answer.
    pub within: u32,
    /// The group that is asked for; 0: all.
    pub group: u128,
    /// True if it is of version 1: the querier understands no other reports.
    pub is_v1: bool,
}

impl Query {
    /// Parses the payload of a message with this header.
    pub fn parse(header: &icmpv6::Header, payload: &[u8]) -> Result<Self, Error> {
        let code = header.rest >> 16;
        // A floating point number from 32768 on (RFC 3810, 5.1.3). A query of version 1 is shorter and has none.
        let is_v1 = payload.len() <= 16;
        let within = match (is_v1, code >> 15) {
            (false, 1) => (code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
            _ => code,
        };
        Ok(Self { within, group: u128::from_be_bytes(array(payload, 0)?), is_v1 })
    }
}

/// Writes the payload of a report about these groups; returns its length and the ICMPv6 header for it.
///
/// # Errors
/// [`Error::Short`] if there is no room, [`Error::Length`] if there are more than [`MOST_RECORDS`] groups.
pub fn write_report(
    record: Record,
    groups: impl Iterator<Item = u128>,
    payload: &mut [u8],
) -> Result<(usize, icmpv6::Header), Error> {
    let mut cursor = Cursor::new(payload);
    let mut count = 0;
    for group in groups {
        if count == MOST_RECORDS {
            return Err(Error::Length);
        }
        cursor.put(&[record as u8, 0, 0, 0])?;
        cursor.put(&group.to_be_bytes())?;
        count += 1;
    }
    Ok((cursor.len(), icmpv6::Header { kind: REPORT_V2, code: 0, rest: count as u32 }))
}

/// Writes the payload of a report of version 1, that a group has a listener; returns its length and the ICMPv6 header for it.
///
/// # Errors
/// [`Error::Short`] if there is no room.
pub fn write_report_v1(group: u128, payload: &mut [u8]) -> Result<(usize, icmpv6::Header), Error> {
    let mut cursor = Cursor::new(payload);
    cursor.put(&group.to_be_bytes())?;
    Ok((cursor.len(), icmpv6::Header { kind: REPORT_V1, code: 0, rest: 0 }))
}

/// Groups of a report, each with the kind of its record as a number. Ends after the first error.
pub fn records(header: &icmpv6::Header, payload: &[u8]) -> impl Iterator<Item = Result<(u8, u128), Error>> {
    let count = usize::from(header.rest as u16).min(MOST_RECORDS);
    let mut at = Some(0);
    (0..count).map_while(move |_| {
        let read = record(payload, at?);
        at = read.as_ref().ok().map(|(_, next)| *next);
        Some(read.map(|(record, _)| record))
    })
}

/// Reads the record at `at`; returns it with the place of the next one.
fn record(payload: &[u8], at: usize) -> Result<((u8, u128), usize), Error> {
    let head: [u8; RECORD] = array(payload, at)?;
    let after = at + RECORD + 16 * usize::from(be16(&head, 2)) + 4 * usize::from(head[1]);
    if after > payload.len() {
        return Err(Error::Short);
    }
    Ok(((head[0], u128::from_be_bytes(array(&head, 4)?)), after))
}
