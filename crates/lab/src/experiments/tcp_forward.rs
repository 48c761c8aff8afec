//! `tcp-forward`: one TCP stream of iperf3 between two namespaces, forwarded by a router between two TAPs, and, alternately,
//! by the kernel between two veth pairs. Both use all offloads: 64 KiB cross as one frame.
//!
//! ```text
//!   client ns                          server ns
//!     TAP ------ router (ours) ------- TAP
//!     veth == veth  router ns  veth == veth
//! ```
//!
//! Everything runs on the same CPUs. The router and its I/O thread are pinned to the first CPU of the options, or the router
//! to the second where `--cpus` names two; iperf3 runs where the kernel schedules it, and so does the kernel's own work.

mod ends;
mod paths;

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::time::Duration;

use anyhow::Result;

use super::Case;
use crate::device::CpuAssignment;
use crate::experiment::{Experiment, Options, Sample};
use crate::metric::Reading;
use ends::Ends;
use paths::{KernelPath, RouterPath};

/// Cases with ringroad's router and with the kernel, measured alternately between the same namespaces.
///
/// # Errors
/// There are not enough CPUs.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    let (seats, ends) = (CpuAssignment::of(options)?, Shared::default());
    let case = |name: String, build: fn(Rc<Ends>, &Options, &CpuAssignment) -> Result<Slice>| {
        let (options, seats, ends) = (options.clone(), seats.clone(), ends.clone());
        Experiment::new(("tcp-forward", "gbps"), name, move || build(shared(&ends)?, &options, &seats))
    };
    let router = case(format!("{}/tap{}", options.device(), options.several_vcpus()), by_router);
    Ok(vec![Case::Alternating(router, case("kernel/veth".to_owned(), by_kernel))])
}

/// The namespaces, kept as long as either of the paths exists.
type Shared = Rc<RefCell<Weak<Ends>>>;

/// Returns the namespaces; the first caller creates them.
fn shared(place: &Shared) -> Result<Rc<Ends>> {
    if let Some(ends) = place.borrow().upgrade() {
        return Ok(ends);
    }
    let ends = Rc::new(Ends::open()?);
    *place.borrow_mut() = Rc::downgrade(&ends);
    Ok(ends)
}

/// Function that measures one slice.
type Slice = Box<dyn FnMut(Duration) -> Result<Sample>>;

fn by_kernel(ends: Rc<Ends>, _: &Options, _: &CpuAssignment) -> Result<Slice> {
    let path = KernelPath::open(&ends)?;
    Ok(Box::new(move |length| Ok(Sample { value: path.stream(&ends, length)?, ..Sample::default() })))
}

fn by_router(ends: Rc<Ends>, options: &Options, seats: &CpuAssignment) -> Result<Slice> {
    let path = RouterPath::open(&ends, options, seats)?;
    Ok(Box::new(move |length| {
        let before = Reading::of(&path);
        let value = ends.stream(RouterPath::SERVER, length)?;
        let (ledger, exits) = before.since(&path)?;
        let packets = ledger.count("near.tap.frames");
        let octets = ledger.count("near.tap.bytes") as f64 / packets.max(1) as f64;
        let (lost, more) = (ledger.total("drop_"), [("octets_per_frame", octets)].into());
        Ok(Sample { value, packets, lost, exits: Some(exits), more, ledger })
    }))
}
