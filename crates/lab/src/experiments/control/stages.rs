//! `multistage`: one balancer and one back end, of which the paper's are virtual machines, with their threads placed as in figure 19
//! of seed paper 000.

use anyhow::Result;

use super::cases::{Case, free_on, list, stand};
use super::sweep::RouterPlacement;
use crate::experiment::Options;
use crate::metric::usage::{Class, Stage};
use crate::rig::router_run::{Balancer, GroupShape, Interconnect, Stages};

/// CPUs of the threads of a group's two stages. No key of a file places balancers and back ends apart, so the lab pins them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) struct StageSeats {
    /// CPU of the vCPUs, and of all other threads.
    pub(super) balancer: (usize, usize),
    pub(super) back_end: (usize, usize),
}

impl StageSeats {
    /// Returns the CPU of a thread; `None` if it belongs to no stage.
    pub(super) fn cpu(&self, thread: &str) -> Option<usize> {
        let (stage, class) = crate::metric::usage::stage(thread)?;
        let (vcpu, other) = match stage {
            Stage::Balancer => self.balancer,
            Stage::BackEnd => self.back_end,
        };
        Some(if class == Class::Vcpu { vcpu } else { other })
    }
}

/// Cases of `multistage`. On two cores the load has the first one as well; on four it has one of its own, and interrupts have the
/// first of the four.
pub(in crate::experiments) fn multistage(options: &Options) -> Vec<Case> {
    let (machine, switch) = (
        Stages::pair(Balancer::Vm, Interconnect::Bridge),
        Stages::pair(Balancer::Switch, Interconnect::Switch),
    );
    let by_ovs = Stages { interconnect: Interconnect::Ovs, ..machine };
    let cases: [(&str, Result<RouterPlacement>); 8] = [
        ("2-cores/no-bind", two_cores(options, machine, None)),
        ("2-cores/case-A", two_cores(options, machine, Some(case_a))),
        ("2-cores/case-B", two_cores(options, machine, Some(case_b))),
        ("2-cores/case-A-ovs", two_cores(options, by_ovs, Some(case_a))),
        ("2-cores/no-bind-switch", two_cores(options, switch, None)),
        ("2-cores/case-A-switch", two_cores(options, switch, Some(case_a))),
        ("4-cores/no-bind", four_cores(options, machine, false)),
        ("4-cores/bind", four_cores(options, machine, true)),
    ];
    cases.into_iter().map(|(name, stand)| (name.to_owned(), stand)).collect()
}

/// Both vCPUs on the first core, all vhost threads on the second.
const fn case_a(first: usize, second: usize) -> StageSeats {
    StageSeats { balancer: (first, second), back_end: (first, second) }
}

/// The balancer's vhost threads and the back end's vCPU on the first core, all others on the second.
const fn case_b(first: usize, second: usize) -> StageSeats {
    StageSeats { balancer: (second, first), back_end: (first, second) }
}

/// Placement on both CPUs, of which the second is watched: in case A it has the vhost threads.
fn two_cores(
    options: &Options,
    stages: Stages,
    seats: Option<fn(usize, usize) -> StageSeats>,
) -> Result<RouterPlacement> {
    let (first, second) = (options.cpu(0)?, options.cpu(1)?);
    let lines = if seats.is_some() { String::new() } else { free_on(&list(options, &[0, 1])?) };
    let seats = seats.map(|seats| seats(first, second));
    let group = Some(GroupShape::Multistage(stages));
    Ok(RouterPlacement { beside_load: true, group, seats, ..stand(lines, second) })
}

/// Placement on four CPUs, bound or free. Bound, the balancer's vCPU has the second, its other threads the third, the back end's
/// vCPU the fourth, and its other threads the one of the interrupts. The CPU of the balancer's vCPU is watched.
fn four_cores(options: &Options, stages: Stages, is_bound: bool) -> Result<RouterPlacement> {
    let [interrupts, vcpu, other, back_end] =
        [options.cpu(1)?, options.cpu(2)?, options.cpu(3)?, options.cpu(4)?];
    let seats = StageSeats { balancer: (vcpu, other), back_end: (back_end, interrupts) };
    let lines = if is_bound { String::new() } else { free_on(&list(options, &[1, 2, 3, 4])?) };
    let group = Some(GroupShape::Multistage(stages));
    let seats = is_bound.then_some(seats);
    Ok(RouterPlacement { arrive_at: Some(interrupts), group, seats, ..stand(lines, vcpu) })
}

#[cfg(test)]
mod tests;
