//! A sink for the generator's frames that notices every frame that is lost, late, repeated or damaged.

mod flow;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use frame::{Mac, ethernet, ipv4};
use port::Frame;

use crate::tag;
use flow::{Flow, Seen};

ledger::counters! {
    /// What a sink saw.
    pub struct SinkCounters {
        /// Frames delivered, whatever they were.
        frames,
        /// Octets of those frames, without FCS.
        bytes,
        /// Numbers that were skipped within a flow.
        missed,
        /// Skipped numbers that came later after all.
        late,
        /// Numbers that came twice.
        repeated,
        /// Numbers so old that nobody knows whether they are late or repeated.
        stale,
        /// Frames that are not the generator's: ARP, other lengths, unknown flows.
        foreign,
        /// Frames whose headers were checked in full.
        checked,
        /// Checked frames that were not what they should be.
        bad,
    }
}

impl SinkCounters {
    /// Frames that were skipped and have not come since.
    pub fn lost(&self) -> u64 {
        self.missed.get().saturating_sub(self.late.get())
    }
}

/// One frame in so many is checked in full. A prime, so that all places of a burst and all flows get their turn.
const CHECK_EVERY: u32 = 61;

/// What is to arrive.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Flows of the generator ([`crate::generator::Settings::flow_count`]).
    pub flows: u32,
    /// Octets of each frame, without FCS.
    pub frame: usize,
    /// Time to live: 64 less the routers on the way.
    pub ttl: u8,
    /// Ethernet destination address; none: any.
    pub destination_mac: Option<Mac>,
}

/// The sink. Several threads may deliver; each burst is counted as a whole.
#[derive(Debug)]
pub struct Sink {
    expected: Expected,
    /// UDP length and checksum, and so a mark of the generator's frames.
    mark: [u8; 4],
    state: Mutex<State>,
    counters: SinkCounters,
}

#[derive(Debug)]
struct State {
    flows: Vec<Flow>,
    until_check: u32,
}

/// What one burst adds to the counters besides frames and octets.
#[derive(Default)]
struct Tally {
    missed: u64,
    late: u64,
    repeated: u64,
    stale: u64,
    foreign: u64,
}

impl Sink {
    /// A sink that has seen nothing yet: all flows start at number 0.
    pub fn new(expected: Expected) -> Self {
        let udp_len = (expected.frame.saturating_sub(tag::UDP) as u16).to_be_bytes();
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

    /// Its counters, to be read at any time.
    pub fn counters(&self) -> &SinkCounters {
        &self.counters
    }

    /// Reads a frame's tag: length and mark, flow, number.
    #[inline(always)]
    fn note(&self, frame: &Frame<'_>, flows: &mut [Flow], tally: &mut Tally) {
        let octets: Option<[u8; 12]> = frame.octets().read(tag::FLOW - 4);
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
            Seen::InOrder => {}
            Seen::Missed(n) => tally.missed += u64::from(n),
            Seen::Late => tally.late += 1,
            Seen::Again => tally.repeated += 1,
            Seen::Stale => tally.stale += 1,
        }
    }

    /// Checks one frame's headers in full.
    #[cold]
    fn check(&self, frame: &Frame<'_>) {
        self.counters.checked.add(1);
        if !self.is_as_expected(frame) {
            self.counters.bad.add(1);
        }
    }

    fn is_as_expected(&self, frame: &Frame<'_>) -> bool {
        let Some(head) = frame.octets().read::<{ tag::FLOW }>(0) else {
            return false;
        };
        let Ok((ethernet, ip)) = ethernet::Header::parse(&head) else {
            return false;
        };
        // The packet's payload is not read: `head` ends with the UDP header.
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
        // A thread that died while it held the lock left whole numbers behind: go on with them.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tally = Tally::default();
        let mut bytes = 0;
        for frame in frames {
            bytes += frame.len() as u64;
            self.note(frame, &mut state.flows, &mut tally);
        }
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
