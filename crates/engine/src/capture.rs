//! A capture file as what a NIC is plugged into: everything that it sends is written down.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use switch::pcap::{Limits, Pcap};
use switch::tap_point::TapPoint;
use switch::{Null, Sink};

/// A capture that the clock writes out.
pub(crate) type Capture = Arc<Pcap<File>>;

/// A new capture file, and the port that fills it.
pub(crate) fn create(path: &Path) -> Result<(Arc<dyn Sink>, Capture)> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let capture = Pcap::new(file, Limits::default());
    let port = TapPoint::new(Arc::new(Null::new()));
    port.enable(Box::new(capture.clone()));
    Ok((Arc::new(port), capture))
}
