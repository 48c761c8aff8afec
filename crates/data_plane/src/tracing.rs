//! Trace requested by a client.

mod held;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::{Answer, Outcome, Request, TraceEnd};
use config::way::{Way, WayQuestion};
use engine::{Trace, TraceOrder};
use link::{ToSupervisor, TracedPacket};

use super::DataPlane;
use held::HeldPackets;

/// A trace, and the request that it answers.
pub(super) struct Tracing {
    id: u64,
    trace: Trace,
    /// Packets of which others are asked for the way.
    held: HeldPackets,
    /// The end of the trace, once it has ended: the last answer.
    end: Option<TraceEnd>,
}

impl DataPlane {
    /// Begins a trace, or replies why it is impossible.
    pub(super) fn begin_trace(&mut self, id: u64, request: Request) -> Result<()> {
        match self.try_trace(request) {
            Ok(trace) => {
                self.tracing.push(Tracing { id, trace, held: HeldPackets::default(), end: None });
                self.go_on_tracing()
            }
            Err(error) => self.tell(id, Err(api::Error::new(format!("{error:#}")))),
        }
    }

    fn try_trace(&self, request: Request) -> Result<Trace> {
        let Request::Trace { router, nic, count, timeout_ms, filter } = request else {
            anyhow::bail!("this is no request to trace");
        };
        self.planned_nic(&router, &nic)?;
        let timeout = Duration::from_millis(timeout_ms);
        let order = TraceOrder { router, nic, count, timeout, filter: filter.unwrap_or_default() };
        Trace::start(self.instance.board(), order)
    }

    /// Checks that the plan has this NIC, of a router or of a group.
    pub(super) fn planned_nic(&self, router: &str, nic: &str) -> Result<()> {
        let group = self.instance.plan().group(router);
        let planned = group.map_or_else(|| self.planned(router), |group| Ok(&group.pattern))?;
        let names = || planned.nics.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(", ");
        let known = planned.nics.iter().any(|known| known.name == nic);
        known.then_some(()).with_context(|| format!("router {router} has no NIC {nic:?}; NICs: {}", names()))
    }

    /// Reports what traces have seen since the last call, and ends those that are done.
    pub(super) fn go_on_tracing(&mut self) -> Result<()> {
        let now = Instant::now();
        for mut tracing in std::mem::take(&mut self.tracing) {
            if tracing.end.is_none() {
                self.look_at(&mut tracing, now)?;
            }
            for packet in tracing.held.overdue(now) {
                self.tell(tracing.id, Ok(Answer::Packet(Box::new(packet))))?;
            }
            self.go_on_with(tracing)?;
        }
        Ok(())
    }

    /// Reports packets whose fate is known, and asks others for the way of those whose routes are there.
    fn look_at(&self, tracing: &mut Tracing, now: Instant) -> Result<()> {
        let round = tracing.trace.look_after(&self.instance);
        let mut asked = round.asked.into_iter().peekable();
        for packet in round.packets {
            // Both are in the order of the packets.
            let Some(asked) = asked.next_if(|asked| asked.number == packet.number) else {
                self.tell(tracing.id, Ok(Answer::Packet(Box::new(packet))))?;
                continue;
            };
            let of = TracedPacket { trace: tracing.id, number: asked.number, router: asked.router.clone() };
            tracing.held.hold(packet, asked.router, now);
            self.wire.say(&ToSupervisor::FindWay { of, question: asked.question })?;
        }
        tracing.end = round.end;
        Ok(())
    }

    /// Keeps a trace, or reports its end if all of its packets were reported.
    fn go_on_with(&mut self, mut tracing: Tracing) -> Result<()> {
        match tracing.end.take_if(|_| tracing.held.is_empty()) {
            Some(end) => self.tell(tracing.id, Ok(Answer::Traced(end))),
            None => {
                self.tracing.push(tracing);
                Ok(())
            }
        }
    }

    /// Finds the way of a packet that a router of this process has sent on, for another process.
    pub(super) fn find_way(&self, of: TracedPacket, question: &WayQuestion) -> Result<()> {
        let way = self.instance.find_way(&of.router, question);
        self.wire.say(&ToSupervisor::FoundWay { of, way })
    }

    /// Reports a packet whose way was found elsewhere.
    pub(super) fn found_way(&mut self, of: &TracedPacket, way: Option<Way>) -> Result<()> {
        for mut tracing in std::mem::take(&mut self.tracing) {
            if tracing.id == of.trace
                && let Some(packet) = tracing.held.release(of, way)
            {
                self.tell(tracing.id, Ok(Answer::Packet(Box::new(packet))))?;
            }
            self.go_on_with(tracing)?;
        }
        Ok(())
    }

    /// Drops a trace whose client has left.
    pub(super) fn forget_trace(&mut self, id: u64) {
        self.tracing.retain(|tracing| tracing.id != id);
    }

    pub(super) fn tell(&self, id: u64, outcome: Outcome) -> Result<()> {
        self.wire.say(&ToSupervisor::Answer { id, outcome })
    }
}
