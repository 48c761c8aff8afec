//! Result of planning: a place and a policy for each thread, and what has to be made on the host for them.

use config::{CpuSet, Errors, Fault, Plan, Policy, Shares};

use crate::interrupts::Interrupt;
use crate::thread::Class;

/// Placement and scheduling of all threads of all routers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Threads, in the order of the file.
    pub slots: Vec<Slot>,
    /// CPUs taken out of the kernel's load balancing.
    pub islands: Vec<ExclusiveCpus>,
    /// Control groups with weights and quotas.
    pub groups: Vec<Group>,
    /// Interrupts to be moved.
    pub interrupts: Vec<Interrupt>,
    /// Remarks for the operator.
    pub notes: Vec<String>,
}

/// A thread with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Router that it belongs to.
    pub router: String,
    /// Class of thread.
    pub class: Class,
    /// Name of the thread.
    pub name: String,
    /// CPUs and policy.
    pub schedule: Schedule,
    /// Our other threads on its CPUs.
    pub neighbours: CpuNeighbours,
}

/// Kind of sharing of a thread's CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuNeighbours {
    /// It shares them with none of our threads.
    #[default]
    Nobody,
    /// It shares them with other threads.
    Others,
    /// For a vhost thread: it shares them with a vCPU of its router, which it wakes by interrupts, and maybe
    /// with others.
    Guest,
}

/// Placement and scheduling of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its CPUs; `None`: wherever the process may run.
    pub cpus: Option<CpuSet>,
    /// Origin of the choice of CPUs.
    pub placement: Placement,
    /// Scheduling policy.
    pub policy: Policy,
    /// Exclusive CPUs that it runs on, if any.
    pub island: Option<CpuSet>,
    /// Name of its control group, if it is in one.
    pub group: Option<String>,
}

/// Origin of the choice of a thread's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The file names this CPU.
    Pin,
    /// The file names these CPUs, among which the kernel chooses.
    Affinity,
    /// The kernel, as the file requests.
    Free,
    /// Automatic placement by this crate.
    Auto,
}

/// CPUs for reservations: an exclusive cpuset.
#[derive(Clone, Debug, PartialEq)]
pub struct ExclusiveCpus {
    /// The CPUs.
    pub cpus: CpuSet,
    /// Sum of its reservations, in CPUs.
    pub reserved: f64,
    /// Most that can be reserved on them, in CPUs.
    pub most: f64,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name: `edge`, `edge.vcpu`.
    pub name: String,
    /// Weight and quota.
    pub shares: Shares,
}

impl Slot {
    /// The CPU that it is confined to, if it is a single one.
    pub(crate) fn only_cpu(&self) -> Option<u32> {
        match self.schedule.cpus.as_ref()?.cpus() {
            [cpu] => Some(*cpu),
            _ => None,
        }
    }

    /// Returns true if the file lets it run on this CPU and on others.
    pub(crate) fn may_roam(&self, cpu: u32) -> bool {
        self.schedule.placement == Placement::Affinity
            && self.schedule.cpus.as_ref().is_some_and(|cpus| cpus.cpus().contains(&cpu))
    }

    /// Returns true if it moves frames between the host and the router.
    pub(crate) fn is_vhost(&self) -> bool {
        matches!(
            self.class,
            Class::Vhost { .. } | Class::KernelVhost { .. } | Class::Napi { .. } | Class::Balancer(_)
        )
    }

    /// Returns true if the file or this crate confines it to its CPUs, rather than leaving the choice to the
    /// kernel.
    pub(crate) fn is_confined(&self) -> bool {
        match self.schedule.placement {
            Placement::Pin | Placement::Affinity => true,
            Placement::Auto | Placement::Free => self.only_cpu().is_some(),
        }
    }
}

impl Outline {
    /// Finds the slot of a thread. All queues of a NIC share the slot of the first one.
    pub fn slot(&self, router: &str, class: &Class) -> Option<&Slot> {
        let first = class.of_queue(0);
        let class = first.as_ref().unwrap_or(class);
        self.slots.iter().find(|slot| slot.router == router && slot.class == *class)
    }

    /// Returns true if a thread shares its CPUs with none of our threads. A thread that does share should not
    /// poll while others wait.
    pub fn is_alone(&self, router: &str, class: &Class) -> bool {
        self.slot(router, class).is_none_or(|slot| slot.neighbours == CpuNeighbours::Nobody)
    }

    /// Returns true if there is nothing to do: every thread runs with the kernel's defaults.
    pub fn is_empty(&self) -> bool {
        let plain = |slot: &Slot| {
            let held = &slot.schedule;
            held.cpus.is_none() && held.policy == Policy::Other && held.group.is_none()
        };
        self.slots.iter().all(plain) && self.interrupts.is_empty()
    }

    /// Determines for each thread with which others it shares its CPUs: if more threads are confined to a set
    /// than it has CPUs, all of them share it.
    pub(crate) fn determine_neighbours(&mut self) {
        let sets: Vec<Option<CpuSet>> =
            self.slots.iter().map(|slot| slot.schedule.cpus.clone().filter(|_| slot.is_confined())).collect();
        let is_vcpu = |slot: &Slot| matches!(slot.class, Class::Vcpu(_)).then(|| slot.router.clone());
        let guests: Vec<Option<String>> = self.slots.iter().map(is_vcpu).collect();
        let is_inside = |inner: &Option<CpuSet>, outer: &CpuSet| {
            inner.as_ref().is_some_and(|inner| is_within(inner, outer))
        };
        let is_crowded =
            |set: &&CpuSet| sets.iter().filter(|inner| is_inside(inner, set)).count() > set.cpus().len();
        let crowded: Vec<&CpuSet> = sets.iter().flatten().filter(is_crowded).collect();
        for (slot, own) in self.slots.iter_mut().zip(&sets) {
            let Some(own) = own.as_ref().filter(|own| crowded.iter().any(|set| is_within(own, set))) else {
                continue;
            };
            let mut inside = sets.iter().zip(&guests).filter(|(set, _)| is_inside(set, own));
            let is_vhost = matches!(slot.class, Class::Vhost { .. });
            let wakes = is_vhost && inside.any(|(_, router)| router.as_ref() == Some(&slot.router));
            slot.neighbours = if wakes { CpuNeighbours::Guest } else { CpuNeighbours::Others };
        }
    }
}

/// Returns true if every CPU of `inner` is in `outer`.
pub(crate) fn is_within(inner: &CpuSet, outer: &CpuSet) -> bool {
    inner.cpus().iter().all(|cpu| outer.cpus().contains(cpu))
}

/// A request that the host cannot fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Index of the router.
    pub router: usize,
    /// Key in its table.
    pub key: &'static str,
    /// Reason, with numbers, and advice.
    pub what: String,
}

/// Converts refusals into errors of the file, each with line and key.
pub fn refused(plan: &Plan, refusals: Vec<Refusal>) -> Errors {
    plan.errors(refusals.into_iter().map(|refusal| Fault::new(refusal.router, refusal.key, refusal.what)))
}
