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

use crate::device;
use crate::experiment::{Experiment, Options, Sample};

/// After the start: until the routers have announced themselves and fallen asleep.
const SETTLE: Duration = Duration::from_millis(300);
/// Octets of a MiB, in KiB.
const MIB: f64 = 1024.0;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Time of all threads.
    Cpu,
    /// Memory.
    Memory,
}

/// See the head of this file.
pub struct Idle {
    cost: Cost,
    routers: usize,
    vcpus: u16,
    engine: Engine,
    running: Vec<Instance>,
}

impl Idle {
    /// So many routers, with as many vCPUs each as the options say, between two switches.
    pub fn new(cost: Cost, routers: usize, options: &Options) -> Self {
        let engine = device::engine(options);
        Self { cost, routers, vcpus: options.vcpus, engine, running: Vec::new() }
    }

    fn start(&self, routers: usize) -> Result<Instance> {
        let instance = Instance::start(&plan(routers, self.vcpus, self.engine)?, Plugs::new())?;
        thread::sleep(SETTLE);
        Ok(instance)
    }

    fn cpu(&self, length: Duration) -> Result<Sample> {
        let instance = self.running.first().context("idle was not prepared")?;
        let (before, start) = (cpu_time(instance), Instant::now());
        thread::sleep(length);
        let (spent, time) = (cpu_time(instance) - before, start.elapsed().as_nanos() as u64);
        let percent = |ns: u64| ns as f64 / time as f64 * 100.0 / self.routers as f64;
        let mut threads = 0;
        instance.each_thread(&mut |_, _| threads += 1);
        Ok(Sample { value: percent(spent), more: vec![("threads", f64::from(threads))], ..Sample::default() })
    }

    /// Of this process, and of those of all routers that run.
    fn memory_now(&self) -> Result<Memory> {
        let mut memory = Memory::of("self")?;
        let routers = self.running.iter().flat_map(|instance| instance.routers());
        for pid in routers.filter_map(|running| running.router.pid()) {
            memory.add(&Memory::of(&pid.to_string())?);
        }
        Ok(memory)
    }

    fn memory(&mut self) -> Result<Sample> {
        let before = self.memory_now()?;
        self.running.push(self.start(self.routers)?);
        let after = self.memory_now()?;
        let each = |of: fn(&Memory) -> f64| (of(&after) - of(&before)) / self.routers as f64 / MIB;
        let (pss, ram, fib) = (each(|m| m.pss), each(|m| m.guest_ram), each(|m| m.fib));
        let more = vec![("pss_mib", pss), ("guest_ram_touched_mib", ram), ("fib_mib", fib)];
        Ok(Sample { value: pss - ram, more, ..Sample::default() })
    }
}

impl Experiment for Idle {
    fn id(&self) -> &'static str {
        "idle"
    }

    fn case(&self) -> String {
        let cost = match self.cost {
            Cost::Cpu => "cpu",
            Cost::Memory => "memory",
        };
        let vcpus = if self.vcpus > 1 { format!("/vcpus={}", self.vcpus) } else { String::new() };
        let engine = if self.engine == Engine::Kvm { "" } else { "process/" };
        format!("{engine}{cost}/routers={}{vcpus}", self.routers)
    }

    fn unit(&self) -> &'static str {
        match self.cost {
            Cost::Cpu => "percent-of-a-core",
            Cost::Memory => "mib",
        }
    }

    /// One router runs beside those whose memory is measured: what the first one costs is not theirs.
    fn prepare(&mut self) -> Result<()> {
        let routers = if self.cost == Cost::Cpu { self.routers } else { 1 };
        self.running.push(self.start(routers)?);
        Ok(())
    }

    fn run_slice(&mut self, length: Duration) -> Result<Sample> {
        match self.cost {
            Cost::Cpu => self.cpu(length),
            Cost::Memory => self.memory(),
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.running.clear();
        Ok(())
    }
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
