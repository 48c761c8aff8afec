//! A capture file as what a NIC is plugged into: everything that it sends is written down.

use std::fs::File;
use std::sync::Arc;

use port::pcap::{Limits, Pcap};
use port::tap_point::TapPoint;
use port::{Null, Sink};

/// A capture that the clock writes out.
pub(crate) type Capture = Arc<Pcap<File>>;

/// A capture into this file, and the port that fills it.
pub(crate) fn into(file: File) -> (Arc<dyn Sink>, Capture) {
    within(file, Limits::default())
}

/// A capture within these limits, and the port that fills it.
fn within(file: File, limits: Limits) -> (Arc<dyn Sink>, Capture) {
    let capture = Pcap::new(file, limits);
    let port = TapPoint::new(Arc::new(Null::new()));
    port.enable(Box::new(capture.clone()));
    (Arc::new(port), capture)
}

#[cfg(test)]
mod tests;
