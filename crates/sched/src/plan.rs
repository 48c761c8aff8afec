//! Planning: from a file and a host to an outline.

use config::{Allowed, CpuSet, Group as RouterGroup, Plan, Policy, Router, Shares, VhostThreads};

use crate::admission;
use crate::automatic;
use crate::interrupts;
use crate::outline::{CpuNeighbours, Group, Outline, Placement, Refusal, Schedule, Slot};
use crate::sched_facts::SchedFacts;
use crate::thread::{self, Class};

/// First kernel that enforces a quota when a thread returns to user space, which a kernel thread never does.
const QUOTA_ON_RETURN: (u32, u32) = (6, 18);

/// Places every thread. Pure and deterministic.
///
/// # Errors
/// Everything that this host cannot provide, by router and key.
pub fn outline(plan: &Plan, known: &SchedFacts) -> Result<Outline, Vec<Refusal>> {
    let mut refusals = Vec::new();
    let mut outline = Outline::default();
    for (index, router) in plan.routers.iter().enumerate() {
        refusals.extend(missing_cpus(index, router, known));
        refusals.extend(rights(index, router, known));
        refusals.extend(hidden(index, router, known));
        outline.slots.extend(slots(router));
    }
    outline.slots.extend(plan.groups.iter().flat_map(|group| balancers(group, known)));
    if refusals.is_empty() {
        outline.islands = admission::islands(plan, known, &outline, &mut refusals);
        admission::global(plan, known, &outline, &mut refusals);
        admission::enter_islands(plan, known, &mut outline, &mut refusals);
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    automatic::place(plan, known, &mut outline);
    groups(plan, known, &mut outline);
    admission::real_time(plan, known, &mut outline, &mut refusals);
    outline.determine_neighbours();
    interrupts::place(plan, known, &mut outline);
    if refusals.is_empty() { Ok(outline) } else { Err(refusals) }
}

/// Threads of a router, with what the file says of them.
fn slots(router: &Router) -> Vec<Slot> {
    let mut dealt = (0, 0);
    let mut slot = |(class, name): (Class, String)| {
        let (pin, allowed, policy, number) = match class {
            Class::Vcpu(_) => (&router.pin.vcpu, &router.affinity.vcpu, router.sched.of_vcpu(), &mut dealt.0),
            _ => (&router.pin.vhost, &router.affinity.vhost, router.sched.of_vhost(), &mut dealt.1),
        };
        let (cpus, placement) = match (pin, allowed) {
            (Some(set), _) => (CpuSet::from_cpus([set.deal(*number)]), Placement::Pin),
            (None, Allowed::Within(set)) => (Some(set.clone()), Placement::Affinity),
            (None, Allowed::Free) => (None, Placement::Free),
            (None, Allowed::Auto) => (None, Placement::Auto),
        };
        *number += 1;
        let schedule = Schedule { cpus, placement, policy, island: None, group: None };
        Slot { router: router.name.clone(), class, name, schedule, neighbours: CpuNeighbours::default() }
    };
    thread::of_router(router).into_iter().map(&mut slot).collect()
}

/// The balancers of a group, where the file says something of its I/O threads; all else is left to the kernel. They are given CPUs from the
/// end of a set, as members have those from its beginning, and come and go.
fn balancers(group: &RouterGroup, known: &SchedFacts) -> Vec<Slot> {
    let Router { pin, affinity, .. } = &group.pattern;
    let slot = |(number, (class, name)): (usize, (Class, String))| {
        let (cpus, placement) = match (&pin.vhost, &affinity.vhost) {
            (Some(set), _) => {
                let usable = set.cpus().iter().rev().filter(|cpu| known.topology.allowed.contains(cpu));
                (CpuSet::from_cpus(usable.copied().cycle().nth(number)), Placement::Pin)
            }
            (None, Allowed::Within(set)) => (Some(set.clone()), Placement::Affinity),
            (None, Allowed::Auto | Allowed::Free) => (None, Placement::Free),
        };
        let schedule = Schedule { cpus, placement, policy: Policy::Other, island: None, group: None };
        Slot { router: group.name.clone(), class, name, schedule, neighbours: CpuNeighbours::default() }
    };
    thread::of_group(group).into_iter().enumerate().map(slot).collect()
}

/// Policies of a router, with their keys.
pub(crate) fn policies(router: &Router) -> Vec<(&'static str, Policy)> {
    let classes = [("sched.vcpu", router.sched.vcpu), ("sched.vhost", router.sched.vhost)];
    let classes = classes.into_iter().filter_map(|(key, policy)| Some((key, policy?)));
    router.sched.all.map(|policy| ("sched", policy)).into_iter().chain(classes).collect()
}

/// Key that sets a thread's policy.
pub(crate) fn policy_key(router: &Router, class: &Class) -> &'static str {
    match class {
        _ if router.sched.all.is_some() => "sched",
        Class::Vcpu(_) => "sched.vcpu",
        _ => "sched.vhost",
    }
}

fn missing_cpus(index: usize, router: &Router, known: &SchedFacts) -> Vec<Refusal> {
    let allowed = |allowed: &Allowed| match allowed {
        Allowed::Within(set) => Some(set.clone()),
        Allowed::Auto | Allowed::Free => None,
    };
    let sets = [
        ("pin.vcpu", router.pin.vcpu.clone()),
        ("pin.vhost", router.pin.vhost.clone()),
        ("affinity.vcpu", allowed(&router.affinity.vcpu)),
        ("affinity.vhost", allowed(&router.affinity.vhost)),
    ];
    let missing = sets.into_iter().filter_map(|(key, set)| {
        let usable = &known.topology.allowed;
        let cpu = set?.cpus().iter().copied().find(|cpu| !usable.contains(cpu))?;
        let what = format!("CPU {cpu} cannot be used on this host; CPUs: {}", known.topology.listed());
        Some(Refusal { router: index, key, what })
    });
    missing.collect()
}

/// Refuses keys about kernel threads if this process cannot see them.
fn hidden(index: usize, router: &Router, known: &SchedFacts) -> Option<Refusal> {
    if known.host.sees_kernel || !router.is_in_kernel() {
        return None;
    }
    let said = [
        ("guarantee", router.guarantee.is_some()),
        ("pin.vhost", router.pin.vhost.is_some()),
        ("affinity.vhost", matches!(router.affinity.vhost, Allowed::Within(_))),
        ("sched", !router.sched.is_empty()),
    ];
    let key = said.into_iter().find_map(|(key, is_said)| is_said.then_some(key))?;
    let what = "it applies to kernel threads, which the PID namespace of this process hides; start outside of it, or \
                remove this key";
    Some(Refusal { router: index, key, what: what.to_owned() })
}

/// Policies of a router that exceed this process's privileges or this kernel's features.
fn rights(index: usize, router: &Router, known: &SchedFacts) -> Vec<Refusal> {
    let lacking = policies(router).into_iter().filter_map(|(key, policy)| {
        let what = match policy {
            Policy::Other => None,
            Policy::Fifo { priority } | Policy::Rr { priority } => real_time_right(priority, known),
            Policy::Deadline(_) if !known.host.may_reserve => Some(
                "a reservation needs CAP_SYS_NICE, which this process has not; run as root, or remove it"
                    .to_owned(),
            ),
            Policy::Deadline(held) => admission::period(&held, &known.host),
            Policy::Shares(shares) => shares_right(key, router, shares, known),
        };
        Some(Refusal { router: index, key, what: what? })
    });
    lacking.collect()
}

fn real_time_right(priority: u32, known: &SchedFacts) -> Option<String> {
    let host = &known.host;
    if priority > host.priority {
        return Some(format!(
            "priority {priority} needs CAP_SYS_NICE, or a limit RLIMIT_RTPRIO of at least {priority}, and this process's is {}; \
             run as root, or write policy = \"shares\"",
            host.priority
        ));
    }
    (host.group_rt_us == Some(0)).then(|| {
        "cpu.rt_runtime_us of the control group that this process is in is 0 µs, so that the kernel refuses real-time \
         threads there; write some time into it, or start from the root group"
            .to_owned()
    })
}

fn shares_right(key: &str, router: &Router, shares: Shares, known: &SchedFacts) -> Option<String> {
    if let Err(reason) = &known.host.cpu {
        return Some(format!("there is no group to be had: {reason}"));
    }
    if let Some(why) = known.host.not_for_kernel.as_ref().filter(|_| router.is_in_kernel()) {
        return Some(format!("{why}; start from the root group, or remove this key"));
    }
    if let Some(what) = shares.quota.and_then(|quota| quota_right(quota, known)) {
        return Some(what);
    }
    let (by, other) = match router.vhost {
        _ if router.is_in_kernel() => ("a kernel router", "engine"),
        VhostThreads::Kernel => ("vhost = \"kernel\"", "vhost"),
        _ => return None,
    };
    (key != "sched.vcpu" && shares.quota.is_some() && known.host.kernel >= QUOTA_ON_RETURN).then(|| {
        format!(
            "Linux {}.{} does not hold threads of the kernel to a quota (they never return to user space), and {by} forwards by \
             such; remove quota, or write another {other}",
            known.host.kernel.0, known.host.kernel.1
        )
    })
}

/// Refuses a quota, in thousandths of a CPU, that exceeds that of the groups around ours.
fn quota_right(quota: u32, known: &SchedFacts) -> Option<String> {
    let (most, period) = known.host.quota_us?;
    let exceeds = u128::from(quota) * u128::from(period) > u128::from(most) * 1000;
    exceeds.then(|| {
        format!(
            "a quota of {} CPUs is more than the control group that this process is in has, {most} µs of each {period} µs \
             (cpu.cfs_quota_us, cpu.cfs_period_us), and the kernel refuses that; write less, or start from another group",
            f64::from(quota) / 1000.0
        )
    })
}

/// Makes a group for each policy with shares. If some threads have shares, an ordinary thread gets a group as
/// well, which counts as one thread: outside, sched_autogroup would weigh it together with whatever runs in
/// the same session.
fn groups(plan: &Plan, known: &SchedFacts, outline: &mut Outline) {
    let is_shares = |policy: &(&str, Policy)| matches!(policy.1, Policy::Shares(_));
    if !plan.routers.iter().flat_map(policies).any(|policy| is_shares(&policy)) {
        return;
    }
    for router in plan.routers.iter().chain(plan.groups.iter().map(|group| &group.pattern)) {
        let slots = outline.slots.iter_mut().filter(|slot| slot.router == router.name);
        // Entering a group would take a thread off exclusive CPUs of v2.
        for slot in slots.filter(|slot| slot.schedule.island.is_none() && may_enter(slot, known)) {
            let (part, shares) = match (slot.schedule.policy, &slot.class) {
                (Policy::Other, _) => ("", Shares::ORDINARY),
                (Policy::Shares(shares), _) if router.sched.all.is_some() => ("", shares),
                (Policy::Shares(shares), Class::Vcpu(_)) => (".vcpu", shares),
                (Policy::Shares(shares), _) => (".vhost", shares),
                _ => continue,
            };
            let name = format!("{}{part}", router.name);
            slot.schedule.group = Some(name.clone());
            if !outline.groups.iter().any(|group| group.name == name) {
                outline.groups.push(Group { name, shares });
            }
        }
    }
}

/// Returns true if a thread can be moved into a control group.
fn may_enter(slot: &Slot, known: &SchedFacts) -> bool {
    known.host.not_for_kernel.is_none() || !matches!(slot.class, Class::Napi { .. })
}
