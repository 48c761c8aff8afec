//! Requests and answers in octets, for objects that `netlink-packet-route` does not know (RFC 3549, section 2.2). Pure.

use std::io;

use netlink_packet_core::NLM_F_DUMP_INTR;

/// Octets of `struct nlmsghdr`.
const HEADER: usize = 16;
/// Types of messages about a request, and the first type of an object.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FIRST_OBJECT: u16 = 16;

/// Encodes a request.
pub(crate) fn request(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let len = (HEADER + body.len()) as u32;
    let mut octets = len.to_ne_bytes().to_vec();
    octets.extend(kind.to_ne_bytes());
    octets.extend(flags.to_ne_bytes());
    octets.extend(sequence.to_ne_bytes());
    octets.extend([0; 4]);
    octets.extend(body);
    octets
}

/// The answer to a request, as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Octets of each object.
    pub(crate) bodies: Vec<Vec<u8>>,
    is_interrupted: bool,
}

impl Answer {
    /// Takes a datagram, whose messages about other requests than number `sequence` are ignored; returns true if the answer is
    /// complete.
    ///
    /// # Errors
    /// The kernel's error. `ResourceBusy`: the table changed meanwhile. `InvalidData`: a message has an invalid length.
    pub(crate) fn take(&mut self, datagram: &[u8], sequence: u32) -> io::Result<bool> {
        let mut rest = datagram;
        while let Some(head) = rest.first_chunk::<HEADER>() {
            let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
            let (len, kind, flags) = (word(0) as usize, half(4), half(6));
            let body = rest.get(HEADER..len).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("the kernel's answer has {len} octets"))
            })?;
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            if word(8) != sequence {
                continue;
            }
            self.is_interrupted |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                ERROR | DONE => return self.end(body).map(|()| true),
                FIRST_OBJECT.. => self.bodies.push(body.to_vec()),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads the message that ends the answer.
    fn end(&self, body: &[u8]) -> io::Result<()> {
        let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code.saturating_abs()));
        }
        if self.is_interrupted {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the table changed while it was dumped"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(messages: &[Vec<u8>]) -> (io::Result<bool>, Vec<Vec<u8>>) {
        let mut answer = Answer::default();
        let outcome = answer.take(&messages.concat(), 5);
        (outcome, answer.bodies)
    }

    #[test]
    fn an_answer_ends_with_its_last_message() {
        let object = |sequence, body: &[u8]| request(104, 0, sequence, body);
        let (outcome, bodies) = taken(&[object(5, &[1; 8]), object(4, &[2; 8]), object(5, &[3; 4])]);
        assert!(!outcome.expect("it goes on"));
        assert_eq!(bodies, [vec![1; 8], vec![3; 4]]);
        let (outcome, bodies) = taken(&[object(5, &[1; 8]), request(DONE, 0, 5, &[0; 4])]);
        assert_eq!((outcome.expect("it ends"), bodies.len()), (true, 1));
    }

    #[test]
    fn errors_are_those_of_the_kernel() {
        let refused = request(ERROR, 0, 5, &(-libc::EOPNOTSUPP).to_ne_bytes());
        assert_eq!(taken(&[refused]).0.expect_err("refused").raw_os_error(), Some(libc::EOPNOTSUPP));
        assert!(taken(&[request(ERROR, 0, 5, &[0; 4])]).0.expect("an acknowledgement"));
        let interrupted = request(DONE, NLM_F_DUMP_INTR, 5, &[0; 4]);
        assert_eq!(taken(&[interrupted]).0.expect_err("again").kind(), io::ErrorKind::ResourceBusy);
        let mut short = request(104, 0, 5, &[0; 4]);
        short[0] = 60;
        assert_eq!(taken(&[short]).0.expect_err("damaged").kind(), io::ErrorKind::InvalidData);
        let mut short = request(104, 0, 5, &[]);
        short[0] = 4;
        assert_eq!(taken(&[short]).0.expect_err("damaged").kind(), io::ErrorKind::InvalidData);
    }
}
