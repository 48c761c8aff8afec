//! Path between a source and a sink: direct, or through a switch.

use std::sync::Arc;

use anyhow::Result;
use frame::{Mac, ethernet};
use port::{Frame, Null, Sink};
use ring::Bytes;
use switch::{Config, Switch};

use crate::ledger_snapshot::Snapshot;

/// Kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    /// Direct, from the source to the sink.
    Wire,
    /// A learning switch with two ports that has learned the receiver's address.
    Switch,
}

/// Path to a sink.
pub(crate) struct Way {
    /// Sink at the beginning of the path.
    pub(crate) entry: Arc<dyn Sink>,
    switch: Option<Switch>,
}

impl Way {
    /// Creates a path to `sink`, behind which is `station`.
    pub(crate) fn new(through: Through, sink: Arc<dyn Sink>, station: Mac) -> Result<Self> {
        if through == Through::Wire {
            return Ok(Self { entry: sink, switch: None });
        }
        let switch = Switch::new("lab", Config::default());
        let entry = switch.add_port("in", Arc::new(Null::default()))?;
        let exit = switch.add_port("out", sink)?;
        hello(&exit, station)?;
        Ok(Self { entry: Arc::new(entry), switch: Some(switch) })
    }

    /// Appends the counters of the path.
    pub(crate) fn take(&self, ledger: &mut Snapshot) {
        if let Some(switch) = &self.switch {
            switch.counters(&mut |port, counters| ledger.take(port, counters));
        }
    }
}

/// Sends a frame from a station, from which a switch learns the station's port.
pub(crate) fn hello(port: &dyn Sink, station: Mac) -> Result<()> {
    let header = ethernet::Header { destination: Mac::BROADCAST, source: station, ethertype: ethernet::ARP };
    let mut hello = [0; ethernet::SHORTEST];
    header.write(&mut hello)?;
    port.deliver(&[Frame::new(Bytes::from_slice(&mut hello))]);
    Ok(())
}
