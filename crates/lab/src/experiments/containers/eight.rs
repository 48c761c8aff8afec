//! `container-eight`: eight routers on one core, alternating with one router on it, by the same attachment (seed paper 003, figure 7:
//! 0.95 of one for containers and 0.76 for virtual machines). A sample is the rate of all routers of a room, which are flooded in
//! equal parts.

use anyhow::Result;

use super::Stand;
use super::flooded::Flooded;
use crate::experiment::{Experiment, Options};
use crate::experiments::Case;

/// Numbers of routers to compare.
const EIGHT: usize = 8;
const ONE: usize = 1;

/// Set-ups of the engines `kernel` and `kvm`.
const STANDS: [Stand; 4] = [Stand::KERNEL_VETH, Stand::KERNEL_MACVLAN, Stand::KVM_TAP, Stand::MACVTAP_FOR_VF];

/// Returns a case for each set-up.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let cpus = (options.cpu(0)?, options.cpu(1)?);
    let case = |stand: Stand, routers: usize| {
        let name = format!("{}/{}/{routers}-on-a-core", options.frame, stand.name);
        let options = options.clone();
        let build = move || Flooded::open(stand, &options, cpus, routers);
        Experiment::new(("container-eight", "kpps"), name, build).between(cpus)
    };
    Ok(STANDS.map(|stand| Case::Alternating(case(stand, EIGHT), case(stand, ONE))).into())
}
