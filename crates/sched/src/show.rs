//! Display of an outline, as `ringroad check` prints it.

use std::fmt;

use config::{CpuSet, Policy, Shares};

use crate::outline::{CpuNeighbours, Outline, Placement, Schedule, Slot};

impl fmt::Display for Outline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for slot in &self.slots {
            writeln!(out, "thread {slot}")?;
        }
        for island in &self.islands {
            writeln!(
                out,
                "cpuset {}: exclusive, {:.3} of {:.3} reserved",
                cpus(&island.cpus),
                island.reserved,
                island.most
            )?;
        }
        for group in &self.groups {
            writeln!(out, "group {}: {}", group.name, shares(&group.shares))?;
        }
        for moved in &self.interrupts {
            let (number, name) = (moved.irq.number, &moved.irq.name);
            writeln!(out, "interrupt {number} ({} {name}) to {}", moved.interface, cpus(&moved.cpus))?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.name, self.schedule)?;
        if self.neighbours == CpuNeighbours::Nobody { Ok(()) } else { out.write_str(", not alone there") }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.cpus.as_ref().map_or_else(|| "any CPU".to_owned(), cpus);
        let chosen = match self.placement {
            Placement::Pin => "pin",
            Placement::Affinity => "affinity",
            Placement::Free => "free",
            Placement::Auto => "automatic",
        };
        write!(out, "on {place} ({chosen})")?;
        match self.policy {
            Policy::Other => {}
            Policy::Fifo { priority } => write!(out, ", fifo {priority}")?,
            Policy::Rr { priority } => write!(out, ", rr {priority}")?,
            Policy::Deadline(held) => {
                let reclaim = if held.reclaim { " and what others leave" } else { "" };
                let (runtime, period) = (held.runtime, held.period);
                write!(out, ", deadline {runtime:?} of {period:?} ({:.3} of a CPU){reclaim}", held.share())?;
            }
            Policy::Shares(_) => out.write_str(", shares")?,
        }
        match &self.group {
            Some(group) => write!(out, ", in group {group}"),
            None => Ok(()),
        }
    }
}

fn cpus(set: &CpuSet) -> String {
    let noun = if set.cpus().len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {set}")
}

fn shares(shares: &Shares) -> String {
    let weight = f64::from(shares.weight) / 100.0;
    match shares.quota {
        Some(quota) => format!("weight {weight}, at most {} of a CPU", f64::from(quota) / 1000.0),
        None => format!("weight {weight}"),
    }
}
