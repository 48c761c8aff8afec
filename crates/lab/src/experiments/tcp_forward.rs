//! `tcp-forward`: one TCP stream of iperf3 between two namespaces, forwarded by a router between two TAPs, and in turn
//! with it by the kernel between two pairs of veth. Both with all offloads: 64 KiB cross as one frame.
//!
//! ```text
//!   client ns                          server ns
//!     TAP ------ router (ours) ------- TAP
//!     veth == veth  router ns  veth == veth
//! ```
//!
//! All is on the same CPUs. The router and its I/O thread are pinned to the first of the options, or the router to the second
//! where `--cpus` names two; iperf3 runs where the kernel puts it, and so does all that the kernel does.

mod ends;
mod paths;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::device::Seats;
use crate::experiment::{Experiment, Options, Sample};
use ends::Ends;
use paths::{ByKernel, ByRouter};

/// What forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// A router of ours.
    Router,
    /// The kernel.
    Kernel,
}

/// See the head of this file.
pub struct TcpForward {
    options: Options,
    forwarder: Forwarder,
    seats: Seats,
    /// Of both forwarders.
    ends: Rc<RefCell<Option<Rc<Ends>>>>,
    path: Option<(Rc<Ends>, Path)>,
}

enum Path {
    Router(Box<ByRouter>),
    Kernel { _path: ByKernel },
}

impl TcpForward {
    /// Both, between the same namespaces.
    ///
    /// # Errors
    /// There are not enough CPUs.
    pub fn pair(options: &Options) -> Result<[Self; 2]> {
        let (seats, ends) = (Seats::of(options)?, Rc::default());
        let new = |forwarder| Self {
            options: options.clone(),
            forwarder,
            seats: seats.clone(),
            ends: Rc::clone(&ends),
            path: None,
        };
        Ok([Forwarder::Router, Forwarder::Kernel].map(new))
    }

    /// The namespaces, made by who comes first.
    fn ends(&self) -> Result<Rc<Ends>> {
        let mut place = self.ends.borrow_mut();
        if let Some(ends) = &*place {
            return Ok(Rc::clone(ends));
        }
        Ok(Rc::clone(place.insert(Rc::new(Ends::open()?))))
    }
}

impl Experiment for TcpForward {
    fn id(&self) -> &'static str {
        "tcp-forward"
    }

    fn case(&self) -> String {
        match self.forwarder {
            Forwarder::Router => format!("{}/tap{}", self.options.device(), self.options.several_vcpus()),
            Forwarder::Kernel => "kernel/veth".to_owned(),
        }
    }

    fn unit(&self) -> &'static str {
        "gbps"
    }

    fn prepare(&mut self) -> Result<()> {
        let ends = self.ends()?;
        let path = match self.forwarder {
            Forwarder::Router => Path::Router(Box::new(ByRouter::open(&ends, &self.options, &self.seats)?)),
            Forwarder::Kernel => Path::Kernel { _path: ByKernel::open(&ends)? },
        };
        self.path = Some((ends, path));
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        let (ends, path) = self.path.as_ref().context("tcp-forward was not prepared")?;
        match path {
            Path::Kernel { .. } => {
                let value = ends.stream(ByKernel::SERVER, length)?;
                Ok(Sample { value, ..Sample::default() })
            }
            Path::Router(path) => {
                let before = path.ledger();
                let exits = path.exits();
                let value = ends.stream(ByRouter::SERVER, length)?;
                path.check()?;
                let ledger = path.ledger().since(&before);
                let packets = ledger.get("near.tap.frames").unwrap_or(0);
                let octets = ledger.get("near.tap.bytes").unwrap_or(0) as f64 / packets.max(1) as f64;
                Ok(Sample {
                    value,
                    packets,
                    lost: ledger.total("drop_"),
                    exits: Some(path.exits() - exits),
                    more: vec![("octets_per_frame", octets)],
                    ledger,
                })
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.path = None;
        self.ends.borrow_mut().take();
        Ok(())
    }
}
