//! `idle`: cost of idle routers. CPU: time of all their threads, in percent of one core per router. Memory: growth of the proportional set size
//! (PSS), of this process and of the routers' processes, with each of ten routers, without the touched pages of guest RAM, which are reported
//! separately. Every slice starts ten more routers: memory freed by a stopped router would hide what the next one takes.

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

/// Time after the start until the routers have announced themselves and fallen asleep.
const SETTLE: Duration = Duration::from_millis(300);
/// KiB of a MiB.
const MIB: f64 = 1024.0;

/// Cases with routers between two switches, with as many vCPUs each as the options say.
pub(super) fn cases(options: &Options) -> Result<Vec<Case>> {
    // Measure memory first: once an allocator has got large blocks back, it keeps later ones, touched, in its heap.
    Ok(vec![memory(10, options).into(), cpu(1, options).into(), cpu(10, options).into()])
}

/// CPU time of all threads of this many routers.
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

/// Memory of this many routers. One more router runs beside them, so that one-time costs of the first router are not counted.
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

/// CPU time of all threads of an instance, in nanoseconds.
fn cpu_time(instance: &Instance) -> u64 {
    let mut sum = 0;
    instance.each_thread(&mut |_, ns| sum += ns);
    sum
}

/// Plan of routers between two switches, each with an address on both.
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

/// Proportional set sizes of processes, in KiB.
pub(super) struct Memory {
    pss: f64,
    pub(super) guest_ram: f64,
    fib: f64,
}

impl Memory {
    /// Reads those of one process, given its folder in `/proc`.
    pub(super) fn of(process: &str) -> Result<Self> {
        let path = format!("/proc/{process}/smaps");
        Ok(Self::read(&fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?))
    }

    /// Sums those of this process and of the processes of all running routers.
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

    /// Sums the mappings of an smaps file.
    fn read(smaps: &str) -> Self {
        let mut memory = Self { pss: 0.0, guest_ram: 0.0, fib: 0.0 };
        let mut name = "";
        for line in smaps.lines() {
            let Some(pss) = line.strip_prefix("Pss:") else {
                // A mapping begins with its address range; all further lines about it begin with a word and a colon.
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
