//! Interrupts of the host.

use std::fs;
use std::io::Write;
use std::path::Path;

use config::CpuSet;
use sched::{Interrupt, Irq, Outline, SchedFacts};

use crate::host::{alone, applier, place, plan, read};

/// An interrupt of this host that may be moved, with its present affinity.
fn movable() -> Option<(u32, String)> {
    let entries = fs::read_dir("/proc/irq").ok()?.flatten();
    let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find_map(|number| {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        let held = fs::read_to_string(&path).ok()?.trim().to_owned();
        fs::OpenOptions::new().write(true).open(&path).ok()?.write_all(held.as_bytes()).ok()?;
        Some((number, held))
    })
}

#[test]
fn interrupts_are_moved_and_go_back() {
    let _alone = alone();
    let known = SchedFacts::read(&plan(""));
    let Some((number, held)) = movable() else {
        println!("SKIPPED: no interrupt of this host can be moved");
        return;
    };
    let cpu = *known.topology.allowed.last().expect("a CPU");
    let irq = Irq { number, name: "x".to_owned() };
    let cpus = CpuSet::from_cpus([cpu]).expect("a CPU");
    let moved = Interrupt { interface: "eth0".to_owned(), irq, cpus };
    let path = format!("/proc/irq/{number}/smp_affinity_list");
    let mut applier = applier();
    applier.make(&Outline { interrupts: vec![moved], ..Outline::default() }).expect("one that can be moved");
    assert_eq!(read(Path::new(&path)), cpu.to_string());
    assert_eq!(applier.undos().len(), 1);
    applier.make(&Outline::default()).expect("nothing to make");
    place(&mut applier, &[]);
    assert_eq!(read(Path::new(&path)), held);
    assert!(applier.undos().is_empty());
}
