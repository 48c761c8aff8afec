//! Lines of a pipe, read without waiting.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;

/// Most octets of a line; the rest of a longer one is left out.
const LONGEST: usize = 4096;
/// Most octets read at a time, so that a daemon that writes without end does not hold up the others.
const MOST: usize = 64 << 10;

/// Reader of lines.
#[derive(Debug)]
pub(crate) struct Lines<P> {
    pipe: P,
    line: Vec<u8>,
    is_ended: bool,
}

impl<P: Read + AsFd> Lines<P> {
    /// Reads from a pipe, which never blocks from now on.
    pub(crate) fn new(pipe: P) -> Self {
        let is_ended = rustix::io::ioctl_fionbio(&pipe, true).is_err();
        Self { pipe, line: Vec::new(), is_ended }
    }

    /// Reads what is there; passes on each whole line, and at the end of the pipe the last one.
    pub(crate) fn read(&mut self, tell: &mut dyn FnMut(&str)) {
        let (mut octets, mut count) = ([0; 4096], 0);
        while !self.is_ended && count < MOST {
            match self.pipe.read(&mut octets) {
                Ok(0) => self.end(tell),
                Ok(len) => {
                    count += len;
                    octets[..len].iter().for_each(|octet| self.take(*octet, tell));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.end(tell),
            }
        }
    }

    /// The pipe, to be waited for; `None` at its end.
    pub(crate) fn pipe(&self) -> Option<&P> {
        (!self.is_ended).then_some(&self.pipe)
    }

    fn take(&mut self, octet: u8, tell: &mut dyn FnMut(&str)) {
        if octet == b'\n' {
            tell(&String::from_utf8_lossy(&self.line));
            self.line.clear();
        } else if self.line.len() < LONGEST {
            self.line.push(octet);
        }
    }

    fn end(&mut self, tell: &mut dyn FnMut(&str)) {
        if !self.line.is_empty() {
            self.take(b'\n', tell);
        }
        self.is_ended = true;
    }
}

#[cfg(test)]
mod tests;
