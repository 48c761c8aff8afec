//! `idle`: what routers cost that have nothing to do. CPU: the time of all their threads, in percent of one core a
//! router. Memory: by how much the share of memory (PSS) grows, of this process and of those of the routers, with each
//! of ten routers, the pages of guest RAM that were touched left out and told apart. Every slice adds ten more routers: memory that one has given back
//! would hide what the next one takes.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::{Engine, Plan};
use engine::{Instance, Plugs};

use super::Case;
use crate::device;
use crate::experiment::{Experiment, Options, Sample};

/// After the start: until the routers have announced themselves and fallen asleep.
const SETTLE: Duration = Duration::from_millis(300);
/// Octets of a MiB, in KiB.
const MIB: f64 = 1024.0;

/// Routers with as many vCPUs each as the options say, between two switches.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    // Memory first: an allocator that has got large blocks back once keeps the next ones, touched, in its heap.
    Ok(vec![memory(10, options).into(), cpu(1, options).into(), cpu(10, options).into()])
}

/// Time of all threads of so many routers.
fn cpu(routers: usize, options: &Options) -> Experiment {
    let vcpus = options.vcpus;
    let engine = device::engine(options);
    let build = move || {
        let instance = start(routers, vcpus, engine)?;
        anyhow::Ok(move |length: Duration| -> Result<Sample> {
            let (before, start) = (cpu_time(&instance), Instant::now());
            thread::sleep(length);
            let (spent, time) = (cpu_time(&instance) - before, start.elapsed().as_nanos() as u64);
            let mut threads = 0;
            instance.each_thread(&mut |_, _| threads += 1);
            let value = spent as f64 / time as f64 * 100.0 / routers as f64;
            Ok(Sample { value, more: [("threads", f64::from(threads))].into(), ..Sample::default() })
        })
    };
    Experiment::new(("idle", "percent-of-a-core"), name("cpu", routers, options), build)
}

/// Memory of so many routers. One runs beside those whose memory is measured: what the first one costs is not theirs.
fn memory(routers: usize, options: &Options) -> Experiment {
    let vcpus = options.vcpus;
    let engine = device::engine(options);
    let build = move || {
        let mut running = vec![start(1, vcpus, engine)?];
        anyhow::Ok(move |_: Duration| -> Result<Sample> {
            let before = Memory::now(&running)?;
            running.push(start(routers, vcpus, engine)?);
            let after = Memory::now(&running)?;
            let each = |of: fn(&Memory) -> f64| (of(&after) - of(&before)) / routers as f64 / MIB;
            let (pss, ram, fib) = (each(|m| m.pss), each(|m| m.guest_ram), each(|m| m.fib));
            let more = [("pss_mib", pss), ("guest_ram_touched_mib", ram), ("fib_mib", fib)];
            Ok(Sample { value: pss - ram, more: more.into(), ..Sample::default() })
        })
    };
    Experiment::new(("idle", "mib"), name("memory", routers, options), build)
}

fn name(cost: &str, routers: usize, options: &Options) -> String {
    let engine = if device::engine(options) == Engine::Kvm { "" } else { "process/" };
    format!("{engine}{cost}/routers={routers}{}", options.several_vcpus())
}

fn start(routers: usize, vcpus: u16, engine: Engine) -> Result<Instance> {
    let instance = Instance::start(&plan(routers, vcpus, engine)?, Plugs::new())?;
    thread::sleep(SETTLE);
    Ok(instance)
}

/// Nanoseconds that all threads of an instance have run.
fn cpu_time(instance: &Instance) -> u64 {
    let mut sum = 0;
    instance.each_thread(&mut |_, ns| sum += ns);
    sum
}

/// Routers between two switches, each with an address on both.
fn plan(routers: usize, vcpus: u16, engine: Engine) -> Result<Plan> {
    let engine = engine.name();
    let mut text = "[switch.left]\n[switch.right]\n".to_owned();
    for n in 0..routers {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[router]]\nname = \"idle{n}\"\nengine = \"{engine}\"\nvcpus = {vcpus}");
        for (nic, side) in ["left", "right"].iter().enumerate() {
            let host = n + 1;
            let _ = writeln!(
                text,
                "[[router.nic]]\nname = \"{side}\"\nattach = \"switch:{side}\"\naddress = [\"10.{nic}.0.{host}/24\"]"
            );
        }
    }
    Ok(config::parse(&text, "idle.toml")?)
}

/// Proportional shares of processes, in KiB.
struct Memory {
    pss: f64,
    guest_ram: f64,
    fib: f64,
}

impl Memory {
    /// Those of one process, by its folder in `/proc`.
    fn of(process: &str) -> Result<Self> {
        let path = format!("/proc/{process}/smaps");
        Ok(Self::read(&fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?))
    }

    /// Those of this process, and of all routers that run.
    fn now(running: &[Instance]) -> Result<Self> {
        let mut memory = Self::of("self")?;
        let routers = running.iter().flat_map(|instance| instance.routers());
        for pid in routers.filter_map(|running| running.router.pid()) {
            memory.add(&Self::of(&pid.to_string())?);
        }
        Ok(memory)
    }

    fn add(&mut self, other: &Self) {
        self.pss += other.pss;
        self.guest_ram += other.guest_ram;
        self.fib += other.fib;
    }

    /// Adds up the mappings of an smaps file.
    fn read(smaps: &str) -> Self {
        let mut memory = Self { pss: 0.0, guest_ram: 0.0, fib: 0.0 };
        let mut name = "";
        for line in smaps.lines() {
            let Some(pss) = line.strip_prefix("Pss:") else {
                // A mapping begins with its range; all lines about it begin with a word and a colon.
                let first = line.split_whitespace().next().unwrap_or_default();
                if !first.ends_with(':') {
                    name = line;
                }
                continue;
            };
            let kib = pss.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
            memory.pss += kib;
            if name.contains("/memfd:ringroad-fib") {
                memory.fib += kib;
            } else if name.contains("/memfd:ringroad-") {
                memory.guest_ram += kib;
            }
        }
        memory
    }
}

#[cfg(test)]
mod tests;
