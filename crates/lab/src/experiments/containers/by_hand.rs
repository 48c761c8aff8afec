//! `container-by-hand`: engine `kernel`, alternating with the same forwarding set up by hand with ip(8), on veth pairs and on
//! macvlans. Both rooms exist all the time, and each slice floods one of them. A sample is the forwarded rate.

use std::time::Duration;

use anyhow::Result;
use host::cores;

use super::Stand;
use crate::experiment::{Experiment, Options, Rig, Sample};
use crate::experiments::Case;
use crate::rig::router_run::RouterRun;
use crate::scenario::load::{SendMode, step};

/// Duration of the flood before the measurement of a slice begins.
const LEAD: Duration = Duration::from_millis(30);

/// Pairs to compare: engine `kernel`, and by hand.
const PAIRS: [(Stand, Stand); 2] =
    [(Stand::KERNEL_VETH, Stand::BY_HAND), (Stand::KERNEL_MACVLAN, Stand::BY_HAND_MACVLAN)];

/// Returns a case for each pair.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let case = |stand: Stand| {
        let name = format!("{}/{}", options.frame, stand.name);
        let options = options.clone();
        let build = move || {
            cores::pin(cpus.0)?;
            anyhow::Ok(Flooded { room: stand.open(&options, &[cpus.1])?, cpu: cpus.0 })
        };
        Experiment::new(("container-by-hand", "kpps"), name, build).between(cpus)
    };
    Ok(PAIRS.map(|(ours, by_hand)| Case::Alternating(case(ours), case(by_hand))).into())
}

struct Flooded {
    room: RouterRun,
    /// CPU of the load.
    cpu: usize,
}

impl Rig for Flooded {
    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        cores::pin(self.cpu)?;
        let step = step(&self.room, &[f64::INFINITY], (LEAD, length), SendMode::PLAIN)?;
        let more = [("offered_kpps", step.offered_kpps(0))].into();
        Ok(Sample { value: step.forwarded_kpps(0), packets: step.packets(), more, ..Sample::default() })
    }

    fn take_down(self: Box<Self>) -> Result<()> {
        self.room.close()
    }
}
