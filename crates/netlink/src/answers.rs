//! What the kernel sends: datagrams of several messages each (RFC 3549, section 2.2). Pure: octets in, answers out.

use std::io;

use netlink_packet_core::{NLM_F_DUMP_INTR, NLM_F_REPLACE, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Smallest number of a message that is not about netlink itself (`NLMSG_MIN_TYPE`).
const FIRST_OBJECT: u16 = 16;
/// Largest number of a message that is read here: RTM_GETRULE.
const LAST_OBJECT: u16 = 34;

/// A message of the kernel.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Number of the request that it answers; 0: nobody has asked.
    pub(crate) sequence: u32,
    /// The table has changed while it was dumped, and the dump may lack rows.
    pub(crate) interrupted: bool,
    /// The object takes the place of another one (of a route with this destination and metric).
    pub(crate) replaces: bool,
    pub(crate) content: Content,
}

/// What a message of the kernel says.
#[derive(Debug)]
pub(crate) enum Content {
    /// An object of a table is there, or is gone.
    Object(RouteNetlinkMessage),
    /// The request is answered.
    End(io::Result<()>),
    /// A message about something else.
    Other,
}

/// The messages of a datagram.
///
/// # Errors
/// `InvalidData`: a message has a wrong length, or is not what its number says. After a wrong length there is no other message.
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

/// Whether a notification says that its object has taken the place of another one: the flag has another meaning below the objects.
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
