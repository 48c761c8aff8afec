//! Answers to zebra: each route that the data path uses is sent back with RTM_F_OFFLOAD, upon which newer FRR (`bgp
//! suppress-fib-pending`, `fpm` notifications) tells its neighbours of the route: from 8.5 on. FRR 8.4.4 reads answers and ignores them.

use crate::decode::{Message, types};
use crate::frames;

/// The data path forwards by this route (`RTM_F_OFFLOAD` of `linux/rtnetlink.h`).
const OFFLOAD: u32 = 0x4000;
/// Octet of `rtm_flags` in a message: behind `struct nlmsghdr` and 8 octets of `struct rtmsg`.
const FLAGS: usize = 24;
/// Most octets that wait to be sent. Beyond, answers are left out: zebra reads too slowly, or not at all.
const MOST: usize = 8 << 20;

/// Answers, held until the batch that they belong to is published, and sent as zebra reads them.
#[derive(Debug, Default)]
pub struct Answers {
    octets: Vec<u8>,
    /// Octets that were sent, and octets that may be sent.
    sent: usize,
    published: usize,
    frame: Vec<u8>,
}

impl Answers {
    /// Prepares the answer to a message, given with its octets, if it adds a route.
    pub fn prepare(&mut self, message: &Message<'_>, octets: &[u8]) {
        let is_route = matches!(message, Message::Route(_));
        if !is_route || octets.len() < FLAGS + 4 || self.octets.len() - self.sent + octets.len() > MOST {
            return;
        }
        debug_assert_eq!(octets[4..6], types::NEW_ROUTE.to_ne_bytes());
        self.frame.clear();
        self.frame.extend_from_slice(octets);
        for (octet, flag) in self.frame[FLAGS..].iter_mut().zip(OFFLOAD.to_ne_bytes()) {
            *octet |= flag;
        }
        frames::append(&mut self.octets, &self.frame);
    }

    /// States that the data path uses all routes prepared so far.
    pub fn published(&mut self) {
        self.published = self.octets.len();
    }

    /// Octets to be sent.
    pub fn waiting(&self) -> &[u8] {
        &self.octets[self.sent..self.published]
    }

    /// States that the first `count` of them were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = self.published.min(self.sent + count);
        if self.sent == self.octets.len() {
            self.clear();
        } else if self.sent > MOST / 8 {
            self.octets.drain(..self.sent);
            self.published -= self.sent;
            self.sent = 0;
        }
    }

    /// Forgets everything: a new connection begins.
    pub fn clear(&mut self) {
        self.octets.clear();
        (self.sent, self.published) = (0, 0);
    }
}

#[cfg(test)]
mod tests;
