//! `container-by-hand`: engine `kernel`, alternating with the same forwarding set up by hand with ip(8), on veth pairs and on
//! macvlans. Both rooms exist all the time, and each slice floods one of them. A sample is the forwarded rate.

use anyhow::Result;

use super::Stand;
use super::flooded::Flooded;
use crate::experiment::{Experiment, Options};
use crate::experiments::Case;

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
        let build = move || Flooded::open(stand, &options, cpus, 1);
        Experiment::new(("container-by-hand", "kpps"), name, build).between(cpus)
    };
    Ok(PAIRS.map(|(ours, by_hand)| Case::Alternating(case(ours), case(by_hand))).into())
}
