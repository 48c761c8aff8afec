//! Trace requested by a client.

use std::time::Duration;

use anyhow::{Context, Result};
use api::{Answer, Outcome, Request};
use engine::{Trace, TraceOrder};
use link::ToSupervisor;

use super::DataPlane;

/// A trace, and the request that it answers.
pub(super) struct Tracing {
    id: u64,
    trace: Trace,
}

impl DataPlane {
    /// Begins a trace, or replies why it is impossible.
    pub(super) fn begin_trace(&mut self, id: u64, request: Request) -> Result<()> {
        match self.try_trace(request) {
            Ok(trace) => {
                self.tracing.push(Tracing { id, trace });
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
        for mut tracing in std::mem::take(&mut self.tracing) {
            let round = tracing.trace.look_after(&self.instance);
            for packet in round.packets {
                self.tell(tracing.id, Ok(Answer::Packet(Box::new(packet))))?;
            }
            match round.end {
                Some(end) => self.tell(tracing.id, Ok(Answer::Traced(end)))?,
                None => self.tracing.push(tracing),
            }
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
