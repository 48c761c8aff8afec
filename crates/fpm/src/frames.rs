//! Framing of FPM: a header of four octets (version, type, length of the whole frame in network order), then netlink messages.

/// Octets of a frame's header.
pub const HEADER: usize = 4;
/// Version of the protocol (`FPM_PROTO_VERSION`).
pub(crate) const VERSION: u8 = 1;
/// Type of a frame with netlink messages (`FPM_MSG_TYPE_NETLINK`).
pub(crate) const NETLINK: u8 = 1;
/// Octets of the longest frame.
const LONGEST: usize = u16::MAX as usize;
/// Octets of the buffer: several of the longest frames, so that one read(2) brings thousands of routes.
const BUFFER: usize = 256 << 10;

/// Reason why the stream cannot be read on. Where the next frame starts is unknown: the connection has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Another version of the protocol.
    #[error("expected FPM version {VERSION}, found {0}: start FRR's zebra with `-M dplane_fpm_nl`")]
    Version(u8),
    /// Another type of frame, such as protobuf (2).
    #[error("expected FPM frames with netlink messages, found type {0}: start zebra with `-M dplane_fpm_nl`")]
    Kind(u8),
    /// A length that does not even cover the header.
    #[error("expected an FPM frame of at least {HEADER} octets, found {0}: the connection is closed")]
    Length(u16),
}

/// Buffer that cuts a stream into frames, whatever pieces it arrives in.
pub struct Frames {
    octets: Box<[u8]>,
    /// Octets received and not yet taken: `start..end`.
    start: usize,
    end: usize,
}

impl Default for Frames {
    fn default() -> Self {
        Self { octets: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl Frames {
    /// Returns the room for octets of the stream. It is empty only if whole frames have to be taken first.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.octets.len() - self.end < LONGEST {
            // Less than a frame is left if the caller has taken the whole ones: little is moved.
            self.octets.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.octets[self.end..]
    }

    /// States that the first `count` octets of the room were filled.
    pub fn filled(&mut self, count: usize) {
        self.end = self.octets.len().min(self.end.saturating_add(count));
    }

    /// Copies octets into the room, as many as fit; returns their number.
    pub fn push(&mut self, octets: &[u8]) -> usize {
        let room = self.room();
        let count = room.len().min(octets.len());
        room[..count].copy_from_slice(&octets[..count]);
        self.filled(count);
        count
    }

    /// Takes the next whole frame; returns its netlink messages, or `None` if more octets have to arrive first.
    ///
    /// # Errors
    /// The stream is [`Broken`], and stays so.
    pub fn take(&mut self) -> Result<Option<&[u8]>, Broken> {
        let Some(len) = length(&self.octets[self.start..self.end])? else { return Ok(None) };
        let first = self.start + HEADER;
        self.start += len;
        Ok(Some(&self.octets[first..self.start]))
    }

    /// Forgets everything: a new stream begins.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Returns the number of octets that wait for the rest of their frame, or to be taken.
    pub const fn waiting(&self) -> usize {
        self.end - self.start
    }
}

/// Returns the length of the frame that begins here, its header included; `None` if more octets have to arrive first.
///
/// # Errors
/// No frame begins here.
#[inline]
pub fn length(octets: &[u8]) -> Result<Option<usize>, Broken> {
    let Some(&[version, kind, high, low]) = octets.first_chunk::<HEADER>() else { return Ok(None) };
    let len = u16::from_be_bytes([high, low]);
    match (version, kind) {
        (VERSION, NETLINK) if usize::from(len) >= HEADER => {}
        (VERSION, NETLINK) => return Err(Broken::Length(len)),
        (VERSION, other) => return Err(Broken::Kind(other)),
        (other, _) => return Err(Broken::Version(other)),
    }
    Ok((octets.len() >= usize::from(len)).then_some(usize::from(len)))
}

/// Appends a frame with this payload to `stream`; does nothing and returns false if it is too long for one.
pub fn append(stream: &mut Vec<u8>, payload: &[u8]) -> bool {
    let Ok(len) = u16::try_from(HEADER + payload.len()) else { return false };
    stream.extend_from_slice(&[VERSION, NETLINK]);
    stream.extend_from_slice(&len.to_be_bytes());
    stream.extend_from_slice(payload);
    true
}

#[cfg(test)]
mod tests;
