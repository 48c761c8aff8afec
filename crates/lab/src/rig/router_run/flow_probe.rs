//! Probes of many flows: frames in turn of each flow, which carry the time at which they were sent and the number of their flow. A UDP socket
//! behind the router receives them, so it is known since when each flow passes.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::RouterRun;
use super::probe::{self, MOST, TIME, listener, stamp};
use super::text::{ENDS, mac};
use crate::tag;

/// First source port; flows count up from here.
const FIRST_PORT: u16 = 3000;
/// Octets of the flow's number behind the time in a probe, which is that since the prober was made.
const FLOW: usize = 2;

/// Sender and receiver of probes through the first router of a room.
pub(crate) struct FlowProbe<'r> {
    room: &'r RouterRun,
    socket: UdpSocket,
    /// Probe of each flow.
    octets: Vec<Vec<u8>>,
    began: Instant,
    every: Duration,
    next: Duration,
    passed: Passed,
}

/// Flows that have passed since a moment. All times are since the prober was made.
#[derive(Debug)]
struct Passed {
    /// Moment from which times are measured.
    since: Duration,
    /// Probes that were sent earlier do not count.
    counts_from: Duration,
    /// When the first probe of each flow arrived that counts.
    arrived: Vec<Option<Duration>>,
}

impl Passed {
    fn new(flows: u16) -> Self {
        let (since, counts_from) = (Duration::ZERO, Duration::ZERO);
        Self { since, counts_from, arrived: vec![None; usize::from(flows)] }
    }

    /// Forgets all arrivals, and measures from now on.
    fn begin(&mut self, now: Duration) {
        (self.since, self.counts_from) = (now, now);
        self.arrived.fill(None);
    }

    /// Forgets all arrivals, and counts only probes that are sent at this moment or later.
    fn count_from(&mut self, moment: Duration) {
        self.counts_from = moment;
        self.arrived.fill(None);
    }

    /// Notes a probe of a flow that was sent at one moment and arrived at another.
    fn note(&mut self, flow: u16, (sent, now): (Duration, Duration)) {
        let counts = sent >= self.counts_from;
        if let Some(arrived) = self.arrived.get_mut(usize::from(flow)).filter(|_| counts) {
            arrived.get_or_insert(now);
        }
    }

    /// Returns how long after the beginning the last flow passed; `None`: one does not yet.
    fn all_after(&self) -> Option<Duration> {
        last(&self.arrived).map(|last| last.saturating_sub(self.since))
    }
}

impl<'r> FlowProbe<'r> {
    /// Creates a sender and receiver that sends a probe of each of so many flows in each interval.
    ///
    /// # Errors
    /// The station's addresses cannot be set on the interface behind the router, or its port is in use.
    pub(crate) fn new(room: &'r RouterRun, flows: u16, every: Duration) -> Result<Self> {
        let socket = listener(room, 0)?;
        let octets = (0..flows).map(|flow| written(mac(ENDS[0].1, 0), flow)).collect::<Result<_>>()?;
        let (began, next, passed) = (Instant::now(), Duration::ZERO, Passed::new(flows));
        Ok(Self { room, socket, octets, began, every, next, passed })
    }

    /// Measures from now on, and counts only probes that are sent from now on.
    pub(crate) fn begin(&mut self) {
        self.passed.begin(self.began.elapsed());
    }

    /// Counts only probes that are sent so long after now, or later; times are still measured from [`FlowProbe::begin`].
    pub(crate) fn count_after(&mut self, delay: Duration) {
        self.passed.count_from(self.began.elapsed() + delay);
    }

    /// Sends a probe of each flow if they are due, and receives those that have arrived.
    pub(crate) fn turn(&mut self) {
        let now = self.began.elapsed();
        if now >= self.next {
            self.next = now + self.every;
            self.send();
        }
        self.receive();
    }

    fn send(&mut self) {
        let Some(lane) = self.room.lanes.first() else { return };
        for octets in &mut self.octets {
            stamp(octets, self.began.elapsed());
            lane.wire.repeat(octets, 1);
        }
    }

    fn receive(&mut self) {
        let mut datagram = [0; MOST];
        while let Ok(len) = self.socket.recv(&mut datagram) {
            let now = self.began.elapsed();
            let Some((sent, flow)) = taken(datagram.get(..len).unwrap_or_default()) else { continue };
            self.passed.note(flow, (sent, now));
        }
    }

    /// Returns how long after [`FlowProbe::begin`] the last flow passed; `None`: one does not yet.
    pub(crate) fn all_passed_after(&self) -> Option<Duration> {
        self.passed.all_after()
    }
}

/// Returns the last of these arrivals; `None` if one is missing.
fn last(arrived: &[Option<Duration>]) -> Option<Duration> {
    arrived.iter().try_fold(Duration::ZERO, |last, arrived| Some(last.max((*arrived)?)))
}

/// Builds a probe of a flow to the station behind a router whose first NIC has this Ethernet address.
fn written(near: [u8; 6], flow: u16) -> Result<Vec<u8>> {
    let mut octets = probe::written(near, FIRST_PORT.wrapping_add(flow))?;
    octets[tag::FLOW + TIME..tag::FLOW + TIME + FLOW].copy_from_slice(&flow.to_be_bytes());
    Ok(octets)
}

/// Returns when a probe was sent, and the number of its flow.
fn taken(datagram: &[u8]) -> Option<(Duration, u16)> {
    let sent = Duration::from_nanos(u64::from_be_bytes(*datagram.first_chunk::<TIME>()?));
    Some((sent, u16::from_be_bytes(*datagram.get(TIME..)?.first_chunk::<FLOW>()?)))
}

#[cfg(test)]
mod tests;
