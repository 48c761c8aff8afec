//! `density`: 200 routers outside of groups, each with two NICs at switches, in one run of the command: the fall of the host's `MemAvailable`
//! for each router less its resident guest RAM, CPU time of each while all are idle, and the time until all are up. Memory is that of all
//! less that of one router, which is mostly the command itself.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::device;
use crate::experiment::{Experiment, Options, Sample};
use crate::experiments::Case;
use crate::experiments::containers::memory::available;
use crate::experiments::idle::Memory;
use crate::metric::usage;
use crate::rig::router_run::FileRun;

/// Number of routers beyond the first one.
const ROUTERS: u32 = 200;
/// Time in which the routers have announced themselves and fallen asleep, and the kernel has freed the memory of a former run.
const SETTLE: Duration = Duration::from_millis(1500);
/// Time for which they are idle.
const IDLE: Duration = Duration::from_secs(5);
/// KiB of a MiB.
const MIB: f64 = 1024.0;

/// Returns the one case.
///
/// # Errors
/// There are not two CPUs.
pub(in crate::experiments) fn cases(options: &Options) -> Result<Vec<Case>> {
    let name = format!("{}/{ROUTERS}-routers", device::engine(options).name());
    let one = Experiment::pinned(("density", "mib"), name, options, |options, _| measured(options))?;
    Ok(vec![one.into()])
}

/// What so many routers take.
struct Taken {
    /// Fall of the available memory, and resident guest RAM, in MiB.
    fall: f64,
    guest_ram: f64,
    /// CPU time of all threads while nothing passes, as a fraction of one core.
    cpu: f64,
    /// Time from the start of the command until all are up.
    came_up: Duration,
}

impl Taken {
    fn by(routers: u32, options: &Options) -> Result<Self> {
        sleep(SETTLE);
        let before = available()?;
        let run = FileRun::open(&text(routers, options))?;
        sleep(SETTLE);
        let fall = before - available()?;
        let guest_ram = guest_ram(run.supervisor())?;
        let (spent, start) = (usage::of_all(run.supervisor())?, Instant::now());
        sleep(IDLE);
        let cpu = usage::of_all(run.supervisor())?.saturating_sub(spent).as_secs_f64();
        let taken = Self { fall, guest_ram, cpu: cpu / start.elapsed().as_secs_f64(), came_up: run.came_up };
        run.close()?;
        Ok(taken)
    }
}

fn measured(options: &Options) -> Result<Sample> {
    let one = Taken::by(1, options)?;
    let all = Taken::by(ROUTERS + 1, options)?;
    let each = |of: fn(&Taken) -> f64| (of(&all) - of(&one)) / f64::from(ROUTERS);
    let (fall, guest_ram) = (each(|taken| taken.fall), each(|taken| taken.guest_ram));
    let more = [
        ("fall_mib", fall),
        ("guest_ram_mib", guest_ram),
        ("idle_percent", each(|taken| taken.cpu) * 100.0),
        ("up_s", all.came_up.as_secs_f64()),
        ("one_up_s", one.came_up.as_secs_f64()),
        ("routers", f64::from(ROUTERS)),
    ];
    Ok(Sample { value: fall - guest_ram, more: more.into(), ..Sample::default() })
}

/// Resident guest RAM of all routers of a run, in MiB. What several processes share counts once.
fn guest_ram(supervisor: u32) -> Result<f64> {
    let mut sum = 0.0;
    for process in usage::processes(supervisor)? {
        // A process that has just ended has no memory.
        sum += Memory::of(&process.to_string()).map_or(0.0, |memory| memory.guest_ram);
    }
    Ok(sum / MIB)
}

/// File with so many routers between two switches.
fn text(routers: u32, options: &Options) -> String {
    let mut text = "[switch.left]\n[switch.right]\n".to_owned();
    let engine = device::engine(options).name();
    for number in 0..routers {
        let _ = writeln!(text, "[[router]]\nname = \"d{number}\"\nengine = \"{engine}\"");
        for (nic, side) in [(10, "left"), (11, "right")] {
            let (high, low) = (number / 250, number % 250 + 1);
            let _ = writeln!(
                text,
                "[[router.nic]]\nname = \"{side}\"\nattach = \"switch:{side}\"\naddress = \"{nic}.0.{high}.{low}/16\""
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_router_has_two_nics_at_switches_and_addresses_of_its_own() {
        let plan = config::parse(&text(ROUTERS + 1, &Options::default()), "density.toml").unwrap();
        assert_eq!((plan.routers.len(), plan.switches.len()), (201, 2));
        let mut addresses: Vec<_> = plan.nics().map(|(_, nic)| nic.addresses[0].ip).collect();
        assert!(plan.nics().all(|(_, nic)| nic.attach.kind() == "switch"));
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), 2 * 201);
    }
}
