//! The outcome of planning: a place and a policy for each thread, and what has to be made on the host for them.

use config::{CpuSet, Errors, Fault, Plan, Policy, Shares};

use crate::interrupts::Interrupt;
use crate::thread::Class;

/// Where every thread of every router runs, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// The threads, in the order of the file.
    pub slots: Vec<Slot>,
    /// CPUs that are taken out of the kernel's load balancing.
    pub islands: Vec<Island>,
    /// Control groups for weights and quotas.
    pub groups: Vec<Group>,
    /// Interrupts that are moved.
    pub interrupts: Vec<Interrupt>,
    /// What an operator should know of it.
    pub notes: Vec<String>,
}

/// A thread with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Its router.
    pub router: String,
    /// Which thread of it.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Where and how it runs.
    pub schedule: Schedule,
    /// Other threads on its CPUs, as far as they are ours.
    pub company: Company,
}

/// The threads that are on the CPUs of one beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Company {
    /// Nobody: it has them for itself.
    #[default]
    Nobody,
    /// Other threads.
    Others,
    /// Of a vhost thread: other threads, and a vCPU of its router among them, which it wakes by interrupts.
    Guest,
}

/// Where and how a thread runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its CPUs; none: wherever the process may run.
    pub cpus: Option<CpuSet>,
    /// What chose them.
    pub placement: Placement,
    /// How the kernel schedules it.
    pub policy: Policy,
    /// The exclusive CPUs that it is on, if it is.
    pub island: Option<CpuSet>,
    /// The name of its control group, if it is in one.
    pub group: Option<String>,
}

/// What chose the CPUs of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The file: this one.
    Pin,
    /// The file: these, of which the kernel chooses.
    Affinity,
    /// The kernel, as the file asks for.
    Free,
    /// This crate.
    Auto,
}

/// CPUs for reservations: an exclusive cpuset.
#[derive(Clone, Debug, PartialEq)]
pub struct Island {
    /// The CPUs.
    pub cpus: CpuSet,
    /// What is reserved on them, in CPUs.
    pub reserved: f64,
    /// What can be reserved on them, in CPUs.
    pub most: f64,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `edge`, `edge.vcpu`.
    pub name: String,
    /// Its weight and quota.
    pub shares: Shares,
}

impl Slot {
    /// The one CPU that it may run on, if it is one.
    pub(crate) fn only_cpu(&self) -> Option<u32> {
        match self.schedule.cpus.as_ref()?.cpus() {
            [cpu] => Some(*cpu),
            _ => None,
        }
    }

    /// Whether the file lets it run on this CPU beside others.
    pub(crate) fn may_roam(&self, cpu: u32) -> bool {
        self.schedule.placement == Placement::Affinity
            && self.schedule.cpus.as_ref().is_some_and(|cpus| cpus.cpus().contains(&cpu))
    }

    /// Whether it moves frames between the host and the router.
    pub(crate) fn is_vhost(&self) -> bool {
        matches!(self.class, Class::Vhost { .. } | Class::KernelVhost { .. })
    }

    /// Whether the file or this crate confines it to its CPUs, rather than leaving it to the kernel.
    pub(crate) fn is_confined(&self) -> bool {
        match self.schedule.placement {
            Placement::Pin | Placement::Affinity => true,
            Placement::Auto | Placement::Free => self.only_cpu().is_some(),
        }
    }
}

impl Outline {
    /// The slot of a thread.
    pub fn slot(&self, router: &str, class: &Class) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.router == router && slot.class == *class)
    }

    /// Whether a thread has its CPUs for itself, as far as threads of ours go. Who has not should not poll while others wait.
    pub fn is_alone(&self, router: &str, class: &Class) -> bool {
        self.slot(router, class).is_none_or(|slot| slot.company == Company::Nobody)
    }

    /// Whether there is nothing to be done: every thread runs as a program's threads do.
    pub fn is_empty(&self) -> bool {
        let plain = |slot: &Slot| {
            let held = &slot.schedule;
            held.cpus.is_none() && held.policy == Policy::Other && held.group.is_none()
        };
        self.slots.iter().all(plain) && self.interrupts.is_empty()
    }

    /// Says of each thread who is on its CPUs: more threads that are confined to a set than it has CPUs share it, all of them.
    pub(crate) fn tell_company(&mut self) {
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
            slot.company = if wakes { Company::Guest } else { Company::Others };
        }
    }
}

/// Whether every CPU of `inner` is one of `outer`.
pub(crate) fn is_within(inner: &CpuSet, outer: &CpuSet) -> bool {
    inner.cpus().iter().all(|cpu| outer.cpus().contains(cpu))
}

/// Something that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the router that asks for it.
    pub router: usize,
    /// By which key of its table.
    pub key: &'static str,
    /// Why not, with numbers, and what would be right.
    pub what: String,
}

/// Refusals as errors of the file, each with line and key.
pub fn refused(plan: &Plan, refusals: Vec<Refusal>) -> Errors {
    plan.errors(refusals.into_iter().map(|refusal| Fault::new(refusal.router, refusal.key, refusal.what)))
}
