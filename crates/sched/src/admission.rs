//! Admission control of reservations and real-time threads, with the arithmetic in the error messages.

use std::fmt::Write;

use config::{CpuSet, Plan, Policy, Reservation, Router, Spin};

use crate::cgroup::Version;
use crate::host::Host;
use crate::outline::{ExclusiveCpus, Outline, Placement, Refusal, Slot, is_within};
use crate::plan::policy_key;
use crate::sched_facts::SchedFacts;
use crate::thread::Class;

/// Error that rounding may add to a sum of shares.
const ROUNDING: f64 = 1e-9;

/// Error for a reservation whose period the kernel refuses.
pub(crate) fn period(held: &Reservation, host: &Host) -> Option<String> {
    let (least, most) = host.periods_us;
    let us = held.period.as_micros();
    (us < u128::from(least) || us > u128::from(most)).then(|| {
        format!(
            "a period of {us} µs is beyond what this kernel takes, {least} to {most} µs (sched_deadline_period_min_us, \
             sched_deadline_period_max_us)"
        )
    })
}

/// Most that the kernel lets be reserved on these CPUs together (in CPUs), and how that is computed.
pub(crate) fn most(host: &Host, cpus: impl IntoIterator<Item = u32>) -> (f64, String) {
    let real_time = host.real_time;
    let cpus: Vec<u32> = cpus.into_iter().collect();
    let count = cpus.len() as f64;
    let Some(runtime) = real_time.runtime_us else {
        return (count, format!("{count} CPU (sched_rt_runtime_us is -1)"));
    };
    let part = runtime as f64 / real_time.period_us as f64;
    let kept = cpus.iter().filter_map(|cpu| host.fair_server.get(cpu));
    let kept: f64 = kept.map(|(runtime, period)| *runtime as f64 / (*period).max(1) as f64).sum();
    let most = part * count - kept;
    let times = if cpus.len() == 1 { String::new() } else { format!("{count} x ") };
    let mut how = format!(
        "{most:.3}: {times}sched_rt_runtime_us {runtime} / sched_rt_period_us {}",
        real_time.period_us
    );
    if kept > 0.0 {
        // Writing to a string cannot fail.
        let _ = write!(how, " less {kept:.3} of the kernel's own fair_server");
    }
    (most, how)
}

/// Reservation of a slot, if it has one.
fn reservation(slot: &Slot) -> Option<Reservation> {
    match slot.schedule.policy {
        Policy::Deadline(held) => Some(held),
        _ => None,
    }
}

/// Router of a slot, with its number.
fn router_of<'p>(plan: &'p Plan, slot: &Slot) -> Option<(usize, &'p Router)> {
    plan.routers.iter().enumerate().find(|(_, router)| router.name == slot.router)
}

fn refuse(plan: &Plan, slot: &Slot, what: String, refusals: &mut Vec<Refusal>) {
    let Some((index, router)) = router_of(plan, slot) else { return };
    refusals.push(Refusal { router: index, key: policy_key(router, &slot.class), what });
}

/// CPU sets that reservations are confined to; each must be exclusive.
pub(crate) fn islands(
    plan: &Plan,
    known: &SchedFacts,
    outline: &Outline,
    refusals: &mut Vec<Refusal>,
) -> Vec<ExclusiveCpus> {
    let mut islands: Vec<ExclusiveCpus> = Vec::new();
    let reserving = outline.slots.iter().filter_map(|slot| Some((slot, reservation(slot)?)));
    for (slot, held) in reserving {
        let Some(cpus) = slot.schedule.cpus.as_ref().filter(|cpus| !known.topology.is_all(cpus)) else {
            continue;
        };
        if let Some(island) = islands.iter_mut().find(|island| island.cpus == *cpus) {
            island.reserved += held.share();
            continue;
        }
        match can_be(cpus, &islands, known) {
            Ok(()) => {
                let (most, _) = most(&known.host, cpus.cpus().iter().copied());
                islands.push(ExclusiveCpus { cpus: cpus.clone(), reserved: held.share(), most });
            }
            Err(what) => refuse(plan, slot, format!("{}: {what}", slot.name), refusals),
        }
    }
    for island in islands.iter().filter(|island| island.reserved > island.most + ROUNDING) {
        let on_it = |slot: &&Slot| slot.schedule.cpus.as_ref() == Some(&island.cpus);
        let slots: Vec<&Slot> = outline.slots.iter().filter(on_it).collect();
        too_much(plan, known, &slots, island.cpus.cpus(), refusals);
    }
    islands
}

/// Checks whether these CPUs can be made exclusive beside the other islands.
fn can_be(cpus: &CpuSet, islands: &[ExclusiveCpus], known: &SchedFacts) -> Result<(), String> {
    let hierarchy = known.host.cpuset.as_ref().map_err(|reason| {
        format!(
            "a reservation on CPU {cpus} alone needs an exclusive cpuset, and there is none to be had: {reason}; remove pin \
             and affinity, and the kernel places it"
        )
    })?;
    let overlaps = |island: &&ExclusiveCpus| island.cpus.cpus().iter().any(|cpu| cpus.cpus().contains(cpu));
    if let Some(other) = islands.iter().find(overlaps) {
        return Err(format!(
            "reservations on CPU {cpus} and on CPU {} are neither on the same CPUs nor on different ones; make it one of the \
             two",
            other.cpus
        ));
    }
    let exclusive = islands.iter().map(|island| island.cpus.cpus().len()).sum::<usize>() + cpus.cpus().len();
    if hierarchy.version == Version::V2 && exclusive >= known.topology.cpus.len() {
        return Err(format!(
            "with CPU {cpus} no CPU would be left outside cpuset partitions, and all else must run somewhere; leave one free"
        ));
    }
    Ok(())
}

/// Marks the threads on exclusive CPUs. cgroup v1: only those with a reservation, since other threads may run
/// there from outside the cpuset. v2: all, since a partition takes its CPUs away from all other threads.
pub(crate) fn enter_islands(
    plan: &Plan,
    known: &SchedFacts,
    outline: &mut Outline,
    refusals: &mut Vec<Refusal>,
) {
    let version = known.host.cpuset.as_ref().map_or(Version::V1, |hierarchy| hierarchy.version);
    let islands: Vec<CpuSet> = outline.islands.iter().map(|island| island.cpus.clone()).collect();
    for slot in &mut outline.slots {
        let Some(cpus) = &slot.schedule.cpus else { continue };
        if version == Version::V1 && reservation(slot).is_none() {
            continue;
        }
        let overlaps = |island: &&CpuSet| island.cpus().iter().any(|cpu| cpus.cpus().contains(cpu));
        let Some(island) = islands.iter().find(overlaps) else { continue };
        let key = match (slot.schedule.placement, &slot.class) {
            (Placement::Pin, Class::Vcpu(_)) => "pin.vcpu",
            (Placement::Pin, _) => "pin.vhost",
            (_, Class::Vcpu(_)) => "affinity.vcpu",
            _ => "affinity.vhost",
        };
        let shares = matches!(slot.schedule.policy, Policy::Shares(_));
        let mut refuse = |key, what| {
            let index = router_of(plan, slot).map(|(index, _)| index);
            refusals.extend(index.map(|router| Refusal { router, key, what }));
        };
        if !is_within(cpus, island) {
            refuse(
                key,
                format!(
                    "{}: CPU {island} is exclusive to reservations, and of CPU {cpus} not all are; choose one side",
                    slot.name
                ),
            );
        } else if shares {
            refuse(
                key,
                format!(
                    "{}: CPU {island} is exclusive to reservations (cgroup v2), where no shares are; choose another CPU",
                    slot.name
                ),
            );
        }
        slot.schedule.island = Some(island.clone());
    }
}

/// Admits reservations that the kernel places itself, on all CPUs that are not exclusive.
pub(crate) fn global(plan: &Plan, known: &SchedFacts, outline: &Outline, refusals: &mut Vec<Refusal>) {
    let is_global = |slot: &&Slot| {
        let cpus = slot.schedule.cpus.as_ref();
        reservation(slot).is_some() && cpus.is_none_or(|cpus| known.topology.is_all(cpus))
    };
    let slots: Vec<&Slot> = outline.slots.iter().filter(is_global).collect();
    let Some(first) = slots.first() else { return };
    let all: Vec<u32> = known.topology.cpus.iter().map(|cpu| cpu.number).collect();
    if all.iter().any(|cpu| !known.topology.allowed.contains(cpu)) {
        let what = format!(
            "{}: a reservation that is not pinned may move to every CPU, and this process may only use {} of {}; pin it",
            first.name,
            known.topology.listed(),
            CpuSet::from_cpus(all).map_or_else(String::new, |all| all.to_string())
        );
        return refuse(plan, first, what, refusals);
    }
    let exclusive = |cpu: &u32| outline.islands.iter().any(|island| island.cpus.cpus().contains(cpu));
    let rest: Vec<u32> = all.into_iter().filter(|cpu| !exclusive(cpu)).collect();
    let sum: f64 = slots.iter().filter_map(|slot| reservation(slot)).map(|held| held.share()).sum();
    let (most, _) = most(&known.host, rest.iter().copied());
    if sum > most + ROUNDING {
        too_much(plan, known, &slots, &rest, refusals);
    }
}

/// Refuses reservations whose sum is too large, in the name of the last one's router.
fn too_much(plan: &Plan, known: &SchedFacts, slots: &[&Slot], cpus: &[u32], refusals: &mut Vec<Refusal>) {
    let held: Vec<(&Slot, Reservation)> =
        slots.iter().filter_map(|slot| Some((*slot, reservation(slot)?))).collect();
    let Some((last, _)) = held.last() else { return };
    let sum: f64 = held.iter().map(|(_, held)| held.share()).sum();
    let terms: Vec<String> = held
        .iter()
        .map(|(slot, held)| {
            format!("{} {:?}/{:?} = {:.3}", slot.name, held.runtime, held.period, held.share())
        })
        .collect();
    let (_, how) = most(&known.host, cpus.iter().copied());
    let place = CpuSet::from_cpus(cpus.iter().copied());
    let place = place.map_or_else(|| "no CPU that is left".to_owned(), |cpus| format!("CPU {cpus}"));
    let what =
        format!("reserved on {place}: {}; together {sum:.3}, and the kernel admits {how}", terms.join(", "));
    refuse(plan, last, what, refusals);
}

/// Notes what real-time threads leave to other threads, and refuses those that would leave nothing.
pub(crate) fn real_time(plan: &Plan, known: &SchedFacts, outline: &mut Outline, refusals: &mut Vec<Refusal>) {
    let is_real_time = |slot: &&Slot| matches!(slot.schedule.policy, Policy::Fifo { .. } | Policy::Rr { .. });
    let Some(first) = outline.slots.iter().find(is_real_time) else { return };
    let left = match known.host.real_time.runtime_us {
        Some(runtime) => format!(
            "the kernel leaves others {} of each {} µs (sched_rt_runtime_us {runtime})",
            known.host.real_time.period_us.saturating_sub(runtime),
            known.host.real_time.period_us
        ),
        None => "the kernel leaves others nothing (sched_rt_runtime_us -1)".to_owned(),
    };
    if known.topology.allowed.len() == 1 {
        let what = format!(
            "{}: real time on the only CPU that there is would stop everything else on this host while frames come; {left}; \
             write policy = \"shares\"",
            first.name
        );
        return refuse(plan, first, what, refusals);
    }
    for slot in outline.slots.iter().filter(is_real_time) {
        let polls = router_of(plan, slot).is_some_and(|(_, router)| router.spin == Spin::Always);
        let Some(own) = slot.schedule.cpus.as_ref().filter(|_| polls) else { continue };
        let beside = |other: &&Slot| {
            other.name != slot.name && other.schedule.cpus.as_ref().is_some_and(|cpus| is_within(cpus, own))
        };
        if let Some(other) = outline.slots.iter().find(beside) {
            let what = format!(
                "{} never sleeps (spin = \"always\"), and {} on CPU {own} would never run; give each a CPU, or write another \
                 spin",
                slot.name, other.name
            );
            refuse(plan, slot, what, refusals);
        }
    }
    outline.notes.push(format!("of a CPU that real-time threads want wholly {left}"));
}
