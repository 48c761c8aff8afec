//! Parked members of groups: their threads sleep whenever they have nothing to do, and what that saves is told when they wake.

use std::collections::BTreeMap;
use std::time::Instant;

use api::{Counters, CpuSharing};
use config::{Group, Plan, Router};

use super::Supervisor;

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// Threads of parked members, of one router or of all: each gives its CPU to others as soon as it is idle.
pub(super) fn asleep(plan: &Plan, whom: Option<&str>) -> BTreeMap<String, CpuSharing> {
    let of = |router: &&Router| {
        let is_parked = |(group, number): (&str, u32)| {
            plan.group(group).is_some_and(|group| group.parked_members().contains(&number))
        };
        whom.is_none_or(|whom| router.name == whom) && router.membership().is_some_and(is_parked)
    };
    let threads = plan.routers.iter().filter(of).flat_map(Router::threads);
    threads.map(|(name, _)| (name, CpuSharing::Contended)).collect()
}

impl Supervisor {
    /// Tells the data plane, and the processes of members, whose threads are to sleep, where these are others than by the plan before.
    pub(super) fn follow_parking(&mut self, before: &Plan, now: Instant) {
        if asleep(before, None) == asleep(&self.running.plan, None) {
            return;
        }
        let is_other = |name: &&String| {
            let own = Some(name.as_str());
            asleep(before, own) != asleep(&self.running.plan, own)
        };
        let names: Vec<String> = self.isolated.keys().filter(is_other).cloned().collect();
        self.send_cpu_sharing(None, now);
        names.iter().for_each(|name| self.send_cpu_sharing(Some(name.as_str()), now));
    }
}

/// What members have spent of their CPUs until they were parked, and since then.
#[derive(Debug, Default)]
pub(super) struct Naps {
    /// Those that are awake, at the last look.
    awake: BTreeMap<String, Spent>,
    /// Those that are parked, when they were.
    asleep: BTreeMap<String, Spent>,
}

/// What a member has spent at a moment.
#[derive(Clone, Copy, Debug)]
struct Spent {
    at_ns: u64,
    cpu_ns: u64,
    /// How many CPUs it took in the interval before.
    rate: f64,
}

impl Spent {
    fn of(member: &str, counters: &Counters, before: Option<&Self>) -> Self {
        let own = |name: &str| name.strip_prefix(member).is_some_and(|rest| rest.starts_with('/'));
        let cpu_ns: u64 = counters.cpu_ns.iter().filter(|(name, _)| own(name)).map(|(_, ns)| ns).sum();
        let at_ns = counters.at_ns;
        let rate = before.map_or(0.0, |before| {
            cpu_ns.saturating_sub(before.cpu_ns) as f64 / at_ns.saturating_sub(before.at_ns).max(1) as f64
        });
        Self { at_ns, cpu_ns, rate }
    }

    /// What a nap that began so has saved until now.
    fn told(&self, now: &Self) -> String {
        let slept = now.at_ns.saturating_sub(self.at_ns) as f64 / SECOND;
        let spent = now.cpu_ns.saturating_sub(self.cpu_ns) as f64 / SECOND;
        let saved = (self.rate * slept - spent).max(0.0);
        format!(
            "it was parked for {slept:.1} s: {saved:.3} s of CPU time saved, as it took {:.3} of a CPU before",
            self.rate
        )
    }
}

/// The members of a group, by number.
fn numbered(group: &Group) -> impl Iterator<Item = (&Group, u32)> {
    (0..group.members).map(move |number| (group, number))
}

impl Naps {
    /// Whether nobody is known to be parked.
    pub(super) fn is_empty(&self) -> bool {
        self.asleep.is_empty()
    }

    /// Notes who is parked and who is not; those that are awake again, with what that has saved.
    pub(super) fn look(&mut self, plan: &Plan, counters: &Counters) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for (group, number) in plan.groups.iter().flat_map(numbered) {
            let name = group.member(number);
            let now = Spent::of(&name, counters, self.awake.get(&name));
            if group.parked_members().contains(&number) {
                let before = self.awake.remove(&name);
                let begun = before.map(|before| Spent { rate: before.rate, ..now });
                self.asleep.extend(begun.map(|begun| (name, begun)));
            } else {
                let nap = self.asleep.remove(&name);
                lines.extend(nap.map(|nap| (name.clone(), nap.told(&now))));
                self.awake.insert(name, now);
            }
        }
        let is_there = |name: &String| plan.routers.iter().any(|router| router.name == *name);
        self.awake.retain(|name, _| is_there(name));
        self.asleep.retain(|name, _| is_there(name));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(parked: u32) -> Plan {
        let text = "[[group]]\nname = 'core'\nkind = 'parallel'\nmembers = 2\n\
                    [[group.nic]]\nname = 'x'\nattach = 'tap:x'\n";
        let plan = config::parse(text, "f.toml").expect("a good file");
        plan.with_awake("core", 2 - parked).expect("it may be")
    }

    /// After so many seconds, of which the second member has spent so many on its CPUs.
    fn counters(seconds: u64, spent: f64) -> Counters {
        let half = (spent * SECOND / 2.0) as u64;
        let cpu_ns = ["core_1/vcpu0", "core_1/vhost", "core_10/vhost"].map(|name| (name.to_owned(), half));
        Counters { at_ns: seconds * 1_000_000_000, cpu_ns: cpu_ns.into(), ..Counters::default() }
    }

    #[test]
    fn threads_of_parked_members_sleep() {
        let names = |plan: &Plan, whom| asleep(plan, whom).into_keys().collect::<Vec<_>>();
        assert!(asleep(&plan(0), None).is_empty());
        assert_eq!(names(&plan(1), None), ["core_1/vcpu0", "core_1/vhost"]);
        assert_eq!(names(&plan(1), Some("core_1")), ["core_1/vcpu0", "core_1/vhost"]);
        assert!(asleep(&plan(1), Some("core_0")).is_empty());
    }

    #[test]
    fn what_a_nap_has_saved_is_told_when_it_is_over() {
        let mut naps = Naps::default();
        let mut look = |parked: u32, seconds: u64, spent: f64| {
            let told = naps.look(&plan(parked), &counters(seconds, spent));
            (told, naps.is_empty())
        };
        assert_eq!(look(0, 1, 1.0), (Vec::new(), true));
        assert_eq!(look(0, 3, 2.0), (Vec::new(), true));
        assert_eq!(look(1, 4, 2.5), (Vec::new(), false));
        assert_eq!(look(1, 9, 2.5), (Vec::new(), false));
        let (told, is_empty) = look(0, 14, 3.0);
        let line = "it was parked for 10.0 s: 4.500 s of CPU time saved, as it took 0.500 of a CPU before";
        assert_eq!((told, is_empty), (vec![("core_1".to_owned(), line.to_owned())], true));
    }
}
