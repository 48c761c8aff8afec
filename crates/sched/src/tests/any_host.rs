//! Properties of every outline, whatever the host and the file.

use std::collections::{BTreeMap, BTreeSet};

use config::{Allowed, CpuSet, Plan, Policy};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{plan, router};
use crate::{Class, Cpu, CpuNeighbours, Host, Load, Outline, Placement, SchedFacts, Slot, Topology, Version};

/// Load by others from which on a CPU is not idle.
const BUSY: f64 = 0.5;

/// Bit set of special ones among 32 things: an eighth of them.
fn some() -> impl Strategy<Value = u32> {
    (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(a, b, c)| a & b & c)
}

/// Up to two nodes with a cache and up to four cores each, of one or two hardware threads; numbered as PCs
/// do. Some CPUs are offline, isolated, or forbidden to this process, but never the last one.
fn topology() -> impl Strategy<Value = Topology> {
    (1..3_u32, 1..5_u32, 1..3_u32, some(), some(), some()).prop_map(
        |(nodes, cores, threads, off, isolated, denied)| {
            let all = nodes * cores;
            let last = all * threads - 1;
            let is = |mask: u32, cpu: u32| cpu != last && mask >> cpu & 1 == 1;
            let cpu = |number: u32| {
                let (core, node) = (number % all, number % all / cores);
                Cpu { number, core, cache: node * cores, node, isolated: is(isolated, number) }
            };
            let cpus: Vec<Cpu> = (0..=last).filter(|cpu| !is(off, *cpu)).map(cpu).collect();
            let allowed = cpus.iter().map(|cpu| cpu.number).filter(|cpu| !is(denied, *cpu)).collect();
            Topology { cpus, allowed }
        },
    )
}

/// Such a host, without restrictions, with cpusets of either version; other programs' load may have been
/// measured.
fn known() -> impl Strategy<Value = SchedFacts> {
    let load = option::of(vec(0.0..1.0_f64, 16));
    (topology(), any::<bool>(), any::<bool>(), load).prop_map(|(topology, partitions, keeps, load)| {
        let mut host = Host::default();
        if let Ok(hierarchy) = &mut host.cpuset
            && partitions
        {
            hierarchy.version = Version::V2;
        }
        if keeps {
            let kept = |cpu: &Cpu| (cpu.number, (50_000_000, 1_000_000_000));
            host.fair_server = topology.cpus.iter().map(kept).collect();
        }
        let cpus = load.into_iter().flat_map(|load| (0..).zip(load)).collect();
        SchedFacts { topology, host, load: Load { cpus, threads: BTreeMap::new() }, ..SchedFacts::default() }
    })
}

/// Placement of a class of threads in a file; CPUs are chosen among those that may be used.
#[derive(Clone, Debug)]
enum Place {
    Auto,
    Free,
    Pin(Vec<usize>),
    Within(Vec<usize>),
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        4 => Just(Place::Auto),
        1 => Just(Place::Free),
        2 => vec(0..16_usize, 1..4).prop_map(Place::Pin),
        1 => vec(0..16_usize, 1..4).prop_map(Place::Within),
    ]
}

fn policy() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("policy = \"other\"".to_owned()),
        1 => (1..100_u32).prop_map(|priority| format!("policy = \"fifo\", priority = {priority}")),
        1 => (1..100_u32).prop_map(|priority| format!("policy = \"rr\", priority = {priority}")),
        2 => (1..60_u32).prop_map(|ms| format!("policy = \"deadline\", runtime = \"{ms}ms\", period = \"100ms\"")),
        1 => (1..100_u32).prop_map(|weight| format!("policy = \"shares\", weight = {weight}")),
    ]
}

/// A router's threads in a file.
#[derive(Clone, Debug)]
struct Wish {
    vcpus: u32,
    vhost: &'static str,
    spin: &'static str,
    places: [Place; 2],
    policies: [String; 2],
    is_promised: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    let vhost = prop_oneof![Just("shared"), Just("per-nic"), Just("split"), Just("per-queue")];
    let spin = prop_oneof![8 => Just("50us"), 1 => Just("always")];
    let places = (place(), place()).prop_map(|(vcpu, vhost)| [vcpu, vhost]);
    let policies = (policy(), policy()).prop_map(|(vcpu, vhost)| [vcpu, vhost]);
    (1..4_u32, vhost, spin, places, policies, any::<bool>()).prop_map(
        |(vcpus, vhost, spin, places, policies, is_promised)| Wish {
            vcpus,
            vhost,
            spin,
            places,
            policies,
            is_promised,
        },
    )
}

impl Wish {
    fn text(&self, number: usize, cpus: &[u32]) -> String {
        let set = |picks: &[usize]| {
            let set = CpuSet::from_cpus(picks.iter().map(|pick| cpus[pick % cpus.len()]));
            set.expect("one at least").to_string()
        };
        let (mut pin, mut affinity) = (Vec::new(), Vec::new());
        for (class, place) in ["vcpu", "vhost"].into_iter().zip(&self.places) {
            match place {
                Place::Auto => {}
                Place::Free => affinity.push(format!("{class} = \"free\"")),
                Place::Pin(picks) => pin.push(format!("{class} = \"{}\"", set(picks))),
                Place::Within(picks) => affinity.push(format!("{class} = \"{}\"", set(picks))),
            }
        }
        let [vcpu, vhost] = &self.policies;
        let promise = if self.is_promised { "guarantee = \"1kpps\"" } else { "" };
        let lines = format!(
            "vcpus = {}\nvhost = \"{}\"\nspin = \"{}\"\npin = {{ {} }}\naffinity = {{ {} }}\n\
             sched = {{ vcpu = {{ {vcpu} }}, vhost = {{ {vhost} }} }}\n{promise}",
            self.vcpus,
            self.vhost,
            self.spin,
            pin.join(", "),
            affinity.join(", "),
        );
        router(&format!("r{number}"), &lines)
    }
}

/// A host and a file for it.
fn case(wishes: impl Strategy<Value = Vec<Wish>>) -> impl Strategy<Value = (SchedFacts, Plan)> {
    (known(), wishes).prop_map(|(known, wishes)| {
        let cpus: Vec<u32> = known.topology.allowed.iter().copied().collect();
        let texts = wishes.iter().enumerate().map(|(number, wish)| wish.text(number, &cpus));
        (known, plan(&texts.collect::<String>()))
    })
}

/// An outline with its inputs.
struct Made<'a> {
    known: &'a SchedFacts,
    plan: &'a Plan,
    outline: &'a Outline,
}

/// CPUs of a slot; empty if the kernel chooses.
fn cpus(slot: &Slot) -> &[u32] {
    slot.schedule.cpus.as_ref().map_or(&[], CpuSet::cpus)
}

fn reserved(slot: &Slot) -> Option<f64> {
    match slot.schedule.policy {
        Policy::Deadline(held) => Some(held.share()),
        _ => None,
    }
}

fn is_named(slot: &Slot) -> bool {
    matches!(slot.schedule.placement, Placement::Pin | Placement::Affinity)
}

impl Made<'_> {
    fn exclusive(&self) -> BTreeSet<u32> {
        self.outline.islands.iter().flat_map(|island| island.cpus.cpus()).copied().collect()
    }

    /// CPUs for threads whose file names none.
    fn usable(&self) -> BTreeSet<u32> {
        let exclusive = self.exclusive();
        let cpus = self.known.topology.cpus.iter().filter(|cpu| !cpu.isolated).map(|cpu| cpu.number);
        cpus.filter(|cpu| self.known.topology.allowed.contains(cpu) && !exclusive.contains(cpu)).collect()
    }

    fn is_busy(&self, cpu: u32) -> bool {
        self.known.load.cpus.get(&cpu).is_some_and(|load| *load >= BUSY)
    }

    /// Most that the kernel admits on so many CPUs together: 0.95 of each, less its own reservation.
    fn most(&self, cpus: usize) -> f64 {
        cpus as f64 * if self.known.host.fair_server.is_empty() { 0.95 } else { 0.9 }
    }

    /// Checks that a thread is where its file says, on CPUs that may be used, and on special ones only if its
    /// file names them.
    fn holds_what_the_file_says(&self) {
        let usable = self.usable();
        let is_choice = usable.len() < self.known.topology.allowed.len() && !usable.is_empty();
        let mut seen: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        for slot in &self.outline.slots {
            let router =
                self.plan.routers.iter().find(|router| router.name == slot.router).expect("a router");
            let is_vcpu = matches!(slot.class, Class::Vcpu(_));
            let (pin, affinity) = if is_vcpu {
                (&router.pin.vcpu, &router.affinity.vcpu)
            } else {
                (&router.pin.vhost, &router.affinity.vhost)
            };
            let number = seen.entry((&slot.router, is_vcpu)).or_default();
            match (pin, affinity) {
                (Some(set), _) => assert_eq!(cpus(slot), [set.cpus()[*number % set.cpus().len()]], "{slot}"),
                (None, Allowed::Within(set)) => assert_eq!(cpus(slot), set.cpus(), "{slot}"),
                (None, _) if cpus(slot).is_empty() => {
                    assert!(!is_choice || reserved(slot).is_some(), "{slot} may be on special CPUs");
                }
                (None, _) => assert!(cpus(slot).iter().all(|cpu| usable.contains(cpu)), "{slot}"),
            }
            assert!(cpus(slot).iter().all(|cpu| self.known.topology.allowed.contains(cpu)), "{slot}");
            *number += 1;
        }
    }

    /// Checks that no more is reserved on a CPU than the kernel admits, and that every placed reservation has
    /// an exclusive set.
    fn reserves_what_there_is(&self) {
        let (slots, every) = (&self.outline.slots, self.known.topology.cpus.len());
        let exclusive = self.exclusive();
        let sum = self.outline.islands.iter().map(|island| island.cpus.cpus().len()).sum::<usize>();
        assert_eq!(sum, exclusive.len(), "a CPU is in two cpusets");
        for island in &self.outline.islands {
            let on_it = slots.iter().filter(|slot| slot.schedule.cpus.as_ref() == Some(&island.cpus));
            let held: f64 = on_it.filter_map(reserved).sum();
            assert!((held - island.reserved).abs() < 1e-9, "{held} on {island:?}");
            assert!(held <= self.most(island.cpus.cpus().len()) + 1e-9, "{held} on {island:?}");
        }
        let is_global = |slot: &&Slot| cpus(slot).is_empty() || cpus(slot).len() == every;
        let global: f64 = slots.iter().filter(is_global).filter_map(reserved).sum();
        assert!(global <= self.most(every - exclusive.len()) + 1e-9, "{global} wherever there is time");
        for slot in slots.iter().filter(|slot| reserved(slot).is_some() && !is_global(slot)) {
            assert_eq!(slot.schedule.island, slot.schedule.cpus, "{slot}");
        }
        if self.known.host.cpuset.as_ref().is_ok_and(|cpusets| cpusets.version == Version::V2) {
            assert!(exclusive.len() < every, "somebody else must run somewhere");
            for slot in slots.iter().filter(|slot| cpus(slot).iter().any(|cpu| exclusive.contains(cpu))) {
                assert!(
                    cpus(slot).iter().all(|cpu| exclusive.contains(cpu)),
                    "{slot} is half in a partition"
                );
            }
        }
    }

    /// Checks that automatically placed threads have a CPU each if there are enough, and that cores are
    /// filled evenly.
    fn places_automatically(&self) {
        let is_auto = |slot: &&Slot| slot.schedule.placement == Placement::Auto && reserved(slot).is_none();
        let alone = |slot: &Slot| cpus(slot).first().copied().filter(|_| cpus(slot).len() == 1);
        let slots = &self.outline.slots;
        let named: Vec<u32> = slots.iter().filter(|slot| is_named(slot)).filter_map(alone).collect();
        let (busy, quiet): (BTreeSet<u32>, BTreeSet<u32>) =
            self.usable().into_iter().filter(|cpu| !named.contains(cpu)).partition(|cpu| self.is_busy(*cpu));
        let waiting: Vec<&Slot> = slots.iter().filter(is_auto).collect();
        let placed: Vec<&Slot> = if waiting.len() <= quiet.len() {
            waiting
        } else if waiting.len() <= quiet.len() + busy.len() {
            let promised = |slot: &&Slot| {
                self.plan
                    .routers
                    .iter()
                    .any(|router| router.name == slot.router && router.guarantee.is_some())
            };
            waiting.into_iter().filter(promised).collect()
        } else {
            Vec::new()
        };
        let own: Vec<u32> = placed.iter().filter_map(|slot| alone(slot)).collect();
        let different: BTreeSet<u32> = own.iter().copied().collect();
        assert_eq!((own.len(), different.len()), (placed.len(), placed.len()), "a CPU for each");
        assert!(own.iter().all(|cpu| quiet.contains(cpu) || busy.contains(cpu)), "{own:?}");
        if own.iter().any(|cpu| busy.contains(cpu)) {
            assert!(quiet.is_subset(&different), "a quiet CPU is left, and a busy one is not");
        }
        self.spreads(&own, quiet.difference(&different), &named);
    }

    /// Checks that no thread shares a core, or has a CPU that others may use, while a better CPU is free.
    fn spreads<'a>(&self, own: &[u32], left: impl Iterator<Item = &'a u32>, named: &[u32]) {
        let core = |cpu: u32| self.known.topology.cpu(cpu).map(|cpu| cpu.core);
        let on_core = |cpu: u32| own.iter().chain(named).filter(|other| core(**other) == core(cpu)).count();
        let within = |slot: &&Slot| slot.schedule.placement == Placement::Affinity;
        let come = |cpu: u32| {
            self.outline.slots.iter().filter(within).filter(|slot| cpus(slot).contains(&cpu)).count()
        };
        let left: Vec<u32> = left.copied().collect();
        for (own, left) in own.iter().flat_map(|own| left.iter().map(move |left| (*own, *left))) {
            assert!(
                come(own) <= come(left),
                "CPU {own} is taken, and {left} is left, which others may not come to"
            );
            if self.outline.slots.iter().all(|slot| !within(&slot)) {
                // The last thread placed on its core found one less there.
                assert!(on_core(own) <= on_core(left) + 1, "CPU {own} shares a core, and {left} is left");
            }
        }
    }

    /// Checks that a thread said to be alone is: no more threads are confined to its CPUs, or to any set
    /// around them, than there are CPUs.
    fn tells_who_is_alone(&self) {
        let slots = &self.outline.slots;
        let is_confined = |slot: &&Slot| is_named(slot) || cpus(slot).len() == 1;
        let confined: Vec<&Slot> = slots.iter().filter(is_confined).collect();
        let is_in = |slot: &Slot, set: &Slot| cpus(slot).iter().all(|cpu| cpus(set).contains(cpu));
        for slot in &confined {
            let is_crowd =
                |set: &&&Slot| confined.iter().filter(|other| is_in(other, set)).count() > cpus(set).len();
            let is_crowded = confined.iter().filter(is_crowd).any(|set| is_in(slot, set));
            assert_eq!(slot.neighbours == CpuNeighbours::Nobody, !is_crowded, "{slot}");
        }
        assert!(
            slots
                .iter()
                .filter(|slot| !is_confined(slot))
                .all(|slot| slot.neighbours == CpuNeighbours::Nobody)
        );
    }
}

/// Checks all properties. Returns false if the file was refused.
fn holds(known: &SchedFacts, plan: &Plan) -> bool {
    let answer = crate::outline(plan, known);
    assert_eq!(answer, crate::outline(plan, known), "another answer to the same question");
    match &answer {
        Ok(outline) => {
            let made = Made { known, plan, outline };
            made.holds_what_the_file_says();
            made.reserves_what_there_is();
            made.places_automatically();
            made.tells_who_is_alone();
        }
        Err(refusals) => {
            assert!(!refusals.is_empty());
            for refusal in refusals {
                assert!(refusal.router < plan.routers.len() && !refusal.what.contains('\n'), "{refusal:?}");
            }
        }
    }
    answer.is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 4096, ..ProptestConfig::default() })]

    /// Files of every kind, until enough of them are accepted.
    #[test]
    fn what_a_file_says_is_what_is_planned((known, plan) in case(vec(wish(), 1..4))) {
        prop_assume!(holds(&known, &plan));
    }

    /// Threads of which the file says nothing are never refused a place.
    #[test]
    fn threads_without_a_word_are_placed((known, plan) in case(vec(wish().prop_map(automatic), 1..5))) {
        prop_assert!(holds(&known, &plan));
    }
}

/// Variant of a router that says nothing of its threads.
fn automatic(wish: Wish) -> Wish {
    let other = "policy = \"other\"".to_owned();
    Wish { places: [Place::Auto, Place::Auto], policies: [other.clone(), other], ..wish }
}
