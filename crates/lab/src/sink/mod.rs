//! Sink for the generator's frames that detects every lost, late, repeated or damaged frame.

mod flow;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use frame::{Mac, ethernet, ipv4, ipv6};
use port::Frame;

use crate::tag;
use flow::{Flow, SequenceCheck};

ledger::counters! {
    /// Counters of a sink.
    pub struct SinkCounters {
        /// Frames delivered, of any kind.
        frames,
        /// Octets of those frames, without FCS.
        bytes,
        /// Sequence numbers that were skipped within a flow.
        missed,
        /// Skipped sequence numbers that arrived later.
        late,
        /// Sequence numbers that arrived twice.
        repeated,
        /// Sequence numbers too old to tell whether they are late or repeated.
        stale,
        /// Frames that do not come from the generator: ARP, other lengths, unknown flows.
        foreign,
        /// Frames whose headers were checked in full.
        checked,
        /// Checked frames that were not as expected.
        bad,
    }
}

impl SinkCounters {
    /// Frames that were skipped and have not arrived since.
    pub fn lost(&self) -> u64 {
        self.missed.get().saturating_sub(self.late.get())
    }
}

/// Interval of the full checks, in frames. It is a prime, so that all positions in a burst and all flows are
/// checked.
const CHECK_EVERY: u32 = 61;

/// Expected frames.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Flows of the generator ([`crate::generator::Settings::flow_count`]).
    pub flows: u32,
    /// Octets of each frame, without FCS.
    pub frame: usize,
    /// True if the frames are IPv6.
    pub six: bool,
    /// Time to live, or hop limit: 64 less the routers on the way.
    pub ttl: u8,
    /// Ethernet destination address; none: any.
    pub destination_mac: Option<Mac>,
}

/// The sink. Several threads may deliver; each burst is counted atomically.
#[derive(Debug)]
pub struct Sink {
    expected: Expected,
    /// UDP length and checksum, which also identify the generator's frames.
    mark: [u8; 4],
    state: Mutex<State>,
    counters: SinkCounters,
}

#[derive(Debug)]
struct State {
    flows: Vec<Flow>,
    until_check: u32,
}

/// Counts of one burst other than frames and octets.
#[derive(Default)]
struct Tally {
    missed: u64,
    late: u64,
    repeated: u64,
    stale: u64,
    foreign: u64,
}

/// Offset of the mark, which lies before the tag.
const fn mark_at(six: bool) -> usize {
    tag::FLOW - 4 + if six { tag::LONGER } else { 0 }
}

impl Sink {
    /// Creates a sink without history: all flows start at number 0.
    pub fn new(expected: Expected) -> Self {
        let shift = if expected.six { tag::LONGER } else { 0 };
        let udp_len = (expected.frame.saturating_sub(tag::UDP + shift) as u16).to_be_bytes();
        Self {
            mark: [udp_len[0], udp_len[1], 0, 0],
            state: Mutex::new(State {
                flows: vec![Flow::default(); expected.flows as usize],
                until_check: 0,
            }),
            counters: SinkCounters::default(),
            expected,
        }
    }

    /// Counters, which may be read at any time.
    pub fn counters(&self) -> &SinkCounters {
        &self.counters
    }

    /// Reads the tags of a burst; returns the octets of its frames.
    #[inline(always)]
    fn note_all<const SIX: bool>(&self, frames: &[Frame<'_>], flows: &mut [Flow], tally: &mut Tally) -> u64 {
        let mut bytes = 0;
        for frame in frames {
            bytes += frame.len() as u64;
            self.note::<SIX>(frame, flows, tally);
        }
        bytes
    }

    /// Reads a frame's tag: length and mark, flow, sequence number.
    #[inline(always)]
    fn note<const SIX: bool>(&self, frame: &Frame<'_>, flows: &mut [Flow], tally: &mut Tally) {
        let octets: Option<[u8; 12]> = frame.octets().read(mark_at(SIX));
        let Some([a, b, c, d, f0, f1, f2, f3, s0, s1, s2, s3]) = octets else {
            tally.foreign += 1;
            return;
        };
        let flow = flows.get_mut(u32::from_be_bytes([f0, f1, f2, f3]) as usize);
        let ours = [a, b, c, d] == self.mark && frame.len() == self.expected.frame;
        let Some(flow) = flow.filter(|_| ours) else {
            tally.foreign += 1;
            return;
        };
        match flow.see(u32::from_be_bytes([s0, s1, s2, s3])) {
            SequenceCheck::InOrder => {}
            SequenceCheck::Missed(n) => tally.missed += u64::from(n),
            SequenceCheck::Late => tally.late += 1,
            SequenceCheck::Repeated => tally.repeated += 1,
            SequenceCheck::Stale => tally.stale += 1,
        }
    }

    /// Checks one frame's headers in full.
    #[cold]
    fn check(&self, frame: &Frame<'_>) {
        // An announcement of a router, for example, is foreign, and was counted as that.
        if frame.len() != self.expected.frame
            || frame.octets().read(mark_at(self.expected.six)) != Some(self.mark)
        {
            return;
        }
        self.counters.checked.add(1);
        if !self.is_as_expected(frame) {
            self.counters.bad.add(1);
        }
    }

    fn is_as_expected(&self, frame: &Frame<'_>) -> bool {
        if self.expected.six { self.is_as_expected6(frame) } else { self.is_as_expected4(frame) }
    }

    fn is_as_expected6(&self, frame: &Frame<'_>) -> bool {
        let Some(head) = frame.octets().read::<{ tag::FLOW + tag::LONGER }>(0) else {
            return false;
        };
        let Ok((ethernet, ip)) = ethernet::Header::parse(&head) else {
            return false;
        };
        let Ok(packet) = ipv6::Packet::parse_quoted(ip) else {
            return false;
        };
        let (header, expected) = (packet.header(), &self.expected);
        ethernet.ethertype == ethernet::IPV6
            && expected.destination_mac.is_none_or(|mac| mac == ethernet.destination)
            && frame.len() == expected.frame
            && header.total_len() + tag::IP == expected.frame
            && header.next_header == ipv6::next::UDP
            && header.hop_limit == expected.ttl
    }

    fn is_as_expected4(&self, frame: &Frame<'_>) -> bool {
        let Some(head) = frame.octets().read::<{ tag::FLOW }>(0) else {
            return false;
        };
        let Ok((ethernet, ip)) = ethernet::Header::parse(&head) else {
            return false;
        };
        // The packet's payload is not available: `head` ends with the UDP header.
        let Ok(packet) = ipv4::Packet::parse_quoted(ip) else {
            return false;
        };
        let (header, expected) = (packet.header(), &self.expected);
        ethernet.ethertype == ethernet::IPV4
            && expected.destination_mac.is_none_or(|mac| mac == ethernet.destination)
            && frame.len() == expected.frame
            && usize::from(header.total_len) + tag::IP == expected.frame
            && header.protocol == ipv4::UDP
            && header.ttl == expected.ttl
            && frame::checksum::holds(&ip[..ipv4::HEADER])
    }

    fn count(&self, tally: &Tally) {
        let counters = &self.counters;
        counters.missed.add(tally.missed);
        counters.late.add(tally.late);
        counters.repeated.add(tally.repeated);
        counters.stale.add(tally.stale);
        counters.foreign.add(tally.foreign);
    }
}

impl port::Sink for Sink {
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        for frame in frames {
            frame.octets().prefetch();
        }
        // A thread that panicked with the lock held left consistent numbers behind: continue with them.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tally = Tally::default();
        // The offset of what is noted is a constant of each family.
        let bytes = if self.expected.six {
            self.note_all::<true>(frames, &mut state.flows, &mut tally)
        } else {
            self.note_all::<false>(frames, &mut state.flows, &mut tally)
        };
        while let Some(frame) = frames.get(state.until_check as usize) {
            self.check(frame);
            state.until_check += CHECK_EVERY;
        }
        state.until_check -= frames.len() as u32;
        self.count(&tally);
        self.counters.frames.add(frames.len() as u64);
        self.counters.bytes.add(bytes);
        frames.len()
    }
}
