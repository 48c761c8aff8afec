//! `trace` of kernel routers: BPF programs trace the packets (`hooks::PacketTracer`) and write records, which the supervisor reads
//! ten times a second.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::{Answer, Fate, Filter, Hop, Packet, Ticket, TraceEnd};
use config::{Mac, Router};
use hooks::{PacketFate, PacketTracer, Reasons, TraceSpec, TracedPacket};

use super::KernelRouters;
use super::work::Task;
use crate::Supervisor;

/// Maximum duration of a trace.
const LONGEST: Duration = Duration::from_secs(600);
/// Interval between two reads of the records.
const TURN: Duration = Duration::from_millis(100);
/// Maximum number of concurrent traces. Each costs every packet of the host a hash table look-up when it is freed.
const MOST: usize = 4;

/// A client's validated request for a trace.
#[derive(Clone, Debug)]
pub(super) struct TraceRequest {
    pub(super) router: String,
    /// Names of the router's NICs; the order and the programs refer to them by position.
    nics: Vec<String>,
    pub(super) order: TraceSpec,
    timeout: Duration,
}

impl TraceRequest {
    /// Validates a client's request against the router.
    ///
    /// # Errors
    /// One line: the router has no such NIC, or a number is out of range.
    pub(super) fn of(
        router: &Router,
        nic: &str,
        (count, timeout_ms): (u32, u64),
        filter: Option<Filter>,
    ) -> Result<Self> {
        let nics: Vec<String> = router.nics.iter().map(|nic| nic.name.clone()).collect();
        let place = nics.iter().position(|known| known == nic);
        let unknown = || format!("router {} has no NIC {nic:?}; NICs: {}", router.name, nics.join(", "));
        let place = place.with_context(unknown)?;
        let (timeout, longest) = (Duration::from_millis(timeout_ms), LONGEST.as_millis());
        ensure!(
            !timeout.is_zero() && timeout <= LONGEST,
            "a trace runs for 1 to {longest} ms, not {timeout_ms}"
        );
        let Filter { source, destination, protocol, port } = filter.unwrap_or_default();
        let filter = hooks::Filter { source, destination, protocol, port };
        let order = TraceSpec { nic: place as u32, count, filter };
        Ok(Self { router: router.name.clone(), nics, order, timeout })
    }

    /// Returns the full name of a NIC: `edge.wan`.
    fn name(&self, nic: u32) -> String {
        let name = self.nics.get(nic as usize).map_or("?", String::as_str);
        format!("{}.{name}", self.router)
    }
}

/// A running trace.
pub(super) struct RunningTrace {
    /// Identifies the client's request.
    pub(super) ticket: Ticket,
    wish: TraceRequest,
    follower: PacketTracer,
    reasons: Reasons,
    began: Instant,
    /// Start time, by the clock of the programs.
    began_ns: u64,
    told: u32,
    /// Time of the next read.
    next: Instant,
}

/// News of a trace since the last read.
pub(super) struct TraceNews {
    pub(super) packets: Vec<Packet>,
    /// Set if the trace has ended.
    pub(super) end: Option<TraceEnd>,
}

impl RunningTrace {
    pub(super) fn new(ticket: Ticket, wish: TraceRequest, follower: PacketTracer, now: Instant) -> Self {
        // Without the kernel's names, drop reasons are reported by number.
        let reasons = Reasons::of_kernel().unwrap_or_default();
        let began_ns = follower.began_ns();
        Self { ticket, wish, follower, reasons, began: now, began_ns, told: 0, next: now + TURN }
    }

    /// Returns the time of the next read.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// Reads the packets whose fate is known by now.
    ///
    /// # Errors
    /// A map cannot be read.
    pub(super) fn look(&mut self, now: Instant) -> Result<TraceNews> {
        self.next = now + TURN;
        let ran = now.saturating_duration_since(self.began);
        let is_over = ran >= self.wish.timeout;
        let found = self.follower.harvest(is_over)?;
        let tell = |followed| packet(&self.wish, &self.reasons, self.began_ns, &followed);
        let packets: Vec<Packet> = found.into_iter().map(tell).collect();
        self.told += packets.len() as u32;
        let end = (is_over || self.follower.is_done()).then(|| self.end(ran)).transpose()?;
        Ok(TraceNews { packets, end })
    }

    fn end(&self, ran: Duration) -> Result<TraceEnd> {
        let tally = self.follower.tally()?;
        let ran_ns = u64::try_from(ran.as_nanos()).unwrap_or(u64::MAX);
        Ok(TraceEnd {
            traced: self.told,
            not_looked_at: tally.not_examined,
            filtered: tally.not_matched,
            ran_ns,
        })
    }
}

impl KernelRouters {
    /// Queues the start of a trace for a client.
    ///
    /// # Errors
    /// One line: the request is invalid, the router does not run, or too many traces are running.
    pub(super) fn trace(
        &mut self,
        ticket: Ticket,
        router: &Router,
        (nic, count, timeout_ms): (&str, u32, u64),
        filter: Option<Filter>,
    ) -> Result<()> {
        let wish = TraceRequest::of(router, nic, (count, timeout_ms), filter)?;
        let runs = self.forwarders.get(&router.name).is_some_and(|known| !known.has_failed);
        ensure!(runs, "nothing arrives at {}.{nic}: it does not run", router.name);
        let waiting = self.waiting.iter().filter(|task| matches!(task, Task::Follow(..))).count();
        may_begin(self.traces.len() + waiting)?;
        self.add(Task::Follow(ticket, Box::new(wish)));
        Ok(())
    }
}

impl Supervisor {
    /// Returns true if all tasks of kernel routers are done.
    #[cfg(test)]
    pub(crate) fn kernels_rest(&self) -> bool {
        self.kernels.backend.is_some() && self.kernels.waiting.is_empty()
    }

    /// Sends clients the news of their traces.
    pub(super) fn tell_kernel_traces(&mut self, now: Instant) {
        for mut trace in std::mem::take(&mut self.kernels.traces) {
            if now < trace.next {
                self.kernels.traces.push(trace);
                continue;
            }
            match trace.look(now) {
                Ok(TraceNews { packets, end }) => {
                    for packet in packets {
                        let answer = Answer::Packet(Box::new(packet));
                        self.request_router.server.answer_part(trace.ticket, answer, now);
                    }
                    match end {
                        Some(end) => self.reply(trace.ticket, Ok(Answer::Traced(end)), now),
                        None => self.kernels.traces.push(trace),
                    }
                }
                Err(error) => self.reply(trace.ticket, Err(api::Error::new(format!("{error:#}"))), now),
            }
        }
    }
}

/// Checks the limit on concurrent traces.
fn may_begin(running: usize) -> Result<()> {
    ensure!(running < MOST, "{MOST} traces of kernel routers are running: wait until one ends");
    Ok(())
}

/// Converts a traced packet for the client.
fn packet(wish: &TraceRequest, reasons: &Reasons, began_ns: u64, followed: &TracedPacket) -> Packet {
    let arrival =
        Hop { place: format!("{}.rx", wish.name(followed.nic)), after_ns: 0, seen: to(&followed.head) };
    let mut hops = vec![arrival];
    if let PacketFate::Left { nic, head, after_ns } = &followed.end {
        let seen = match time_to_live(head) {
            Some(ttl) => format!("ttl {ttl} {}", to(head)),
            None => to(head),
        };
        hops.push(Hop { place: format!("{}.tx", wish.name(*nic)), after_ns: *after_ns, seen });
    }
    Packet {
        number: u32::try_from(followed.number).unwrap_or(u32::MAX),
        at_ns: followed.at_ns.saturating_sub(began_ns),
        len: followed.len,
        headers: engine::tracing::headers(&followed.head, followed.len),
        fate: fate(wish, reasons, followed),
        hops,
    }
}

fn fate(wish: &TraceRequest, reasons: &Reasons, followed: &TracedPacket) -> Fate {
    match &followed.end {
        PacketFate::Left { nic, head, after_ns } => Fate::Left {
            nic: wish.name(*nic),
            next_hop: destination(head),
            route: None,
            via: None,
            after_ns: *after_ns,
        },
        PacketFate::Dropped { reason, after_ns } => {
            Fate::Dropped { reason: reasons.name(*reason), after_ns: *after_ns }
        }
        PacketFate::Consumed { after_ns } => Fate::Kept { after_ns: *after_ns },
        PacketFate::Unseen => {
            let last = format!("{}.rx", wish.name(followed.nic));
            Fate::NotSeen { last, counters: std::collections::BTreeMap::new() }
        }
    }
}

/// Destination address of a frame.
fn destination(frame: &[u8]) -> String {
    Mac(frame.first_chunk().copied().unwrap_or_default()).to_string()
}

fn to(frame: &[u8]) -> String {
    format!("to {}", destination(frame))
}

/// Remaining hops (TTL, hop limit) of an IP packet; `None` for other frames.
fn time_to_live(frame: &[u8]) -> Option<u8> {
    let at = match frame.get(12..14)? {
        [8, 0] => 22,
        [0x86, 0xdd] => 21,
        _ => return None,
    };
    frame.get(at).copied()
}

#[cfg(test)]
mod tests;
