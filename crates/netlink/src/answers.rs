//! Parser of the kernel's datagrams, which hold several messages each (RFC 3549, section 2.2). Pure: octets
//! in, messages out.

use std::io;

use netlink_packet_core::{NLM_F_DUMP_INTR, NLM_F_REPLACE, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Smallest message type that does not concern netlink itself (`NLMSG_MIN_TYPE`).
const FIRST_OBJECT: u16 = 16;
/// Largest message type parsed here: RTM_GETRULE.
const LAST_OBJECT: u16 = 34;
/// Message type of a queueing discipline (RTM_NEWQDISC), which `queue` reads: the library's parsers of traffic control are not for
/// octets of all kinds.
const QUEUE: u16 = 36;

/// A message of the kernel.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Number of the request that it answers; 0: a notification.
    pub(crate) sequence: u32,
    /// True if the table changed during the dump, which may lack rows.
    pub(crate) interrupted: bool,
    /// True if the object replaces another one (a route with this destination and metric).
    pub(crate) replaces: bool,
    pub(crate) content: Content,
}

/// Content of a message.
#[derive(Debug)]
pub(crate) enum Content {
    /// An object of a table exists, or was deleted.
    Object(RouteNetlinkMessage),
    /// A queueing discipline exists: the message without its header.
    Queue(Vec<u8>),
    /// End of the answer.
    End(io::Result<()>),
    /// A message about something else.
    Other,
}

/// Messages of a datagram.
///
/// # Errors
/// `InvalidData`: a message has an invalid length, or does not match its type. An invalid length ends the
/// iteration.
pub(crate) fn answers(datagram: &[u8]) -> impl Iterator<Item = io::Result<Answer>> + '_ {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let len = rest.first_chunk().map(|octets| u32::from_ne_bytes(*octets) as usize)?;
        if len < HEADER || len > rest.len() {
            rest = &[];
            return Some(Err(damaged(format!("a message of {len} octets"))));
        }
        let message = &rest[..len];
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(read(message))
    })
}

fn read(octets: &[u8]) -> io::Result<Answer> {
    let kind = u16::from_ne_bytes([octets[4], octets[5]]);
    if kind == QUEUE {
        let sequence = u32::from_ne_bytes([octets[8], octets[9], octets[10], octets[11]]);
        let content = Content::Queue(octets[HEADER..].to_vec());
        return Ok(Answer { sequence, interrupted: false, replaces: false, content });
    }
    if kind > LAST_OBJECT {
        return Ok(Answer { sequence: 0, interrupted: false, replaces: false, content: Content::Other });
    }
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(octets);
    let (header, payload) = message.map_err(|e| damaged(e.to_string()))?.into_parts();
    Ok(Answer {
        sequence: header.sequence_number,
        interrupted: header.flags & NLM_F_DUMP_INTR != 0,
        replaces: is_replace(&header),
        content: content(payload),
    })
}

/// Returns true if a notification says that its object replaced another one. Below the object types the flag
/// has another meaning.
fn is_replace(header: &NetlinkHeader) -> bool {
    header.message_type >= FIRST_OBJECT && header.flags & NLM_F_REPLACE != 0
}

fn content(payload: NetlinkPayload<RouteNetlinkMessage>) -> Content {
    match payload {
        NetlinkPayload::InnerMessage(message) => Content::Object(message),
        NetlinkPayload::Error(error) if error.code.is_none() => Content::End(Ok(())),
        NetlinkPayload::Error(error) => Content::End(Err(error.to_io())),
        NetlinkPayload::Done(done) if done.code == 0 => Content::End(Ok(())),
        NetlinkPayload::Done(done) => {
            Content::End(Err(io::Error::from_raw_os_error(done.code.saturating_abs())))
        }
        NetlinkPayload::Overrun(_) => Content::End(Err(io::Error::from_raw_os_error(libc::ENOBUFS))),
        _ => Content::Other,
    }
}

fn damaged(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel's answer cannot be read: {what}"))
}

#[cfg(test)]
mod tests;
