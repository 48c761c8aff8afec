//! `idle`: what routers cost that have nothing to do. CPU: the time of all their threads, in percent of one core a
//! router. Memory: by how much the process's share of memory (PSS) grows with each of ten routers, the pages of guest
//! RAM that were touched left out and told apart. Every slice adds ten more routers: memory that one has given back
//! would hide what the next one takes.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use config::Plan;
use engine::{Instance, Plugs};

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
    running: Vec<Instance>,
}

impl Idle {
    /// So many routers, with as many vCPUs each as the options say, between two switches.
    pub fn new(cost: Cost, routers: usize, options: &Options) -> Self {
        Self { cost, routers, vcpus: options.vcpus, running: Vec::new() }
    }

    fn start(&self, routers: usize) -> Result<Instance> {
        let instance = Instance::start(&plan(routers, self.vcpus)?, Plugs::new())?;
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

    fn memory(&mut self) -> Result<Sample> {
        let before = Memory::now()?;
        self.running.push(self.start(self.routers)?);
        let after = Memory::now()?;
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
        format!("{cost}/routers={}{vcpus}", self.routers)
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
fn plan(routers: usize, vcpus: u16) -> Result<Plan> {
    let mut text = "[switch.left]\n[switch.right]\n".to_owned();
    for n in 0..routers {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "[[router]]\nname = \"idle{n}\"\nvcpus = {vcpus}");
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

/// Proportional shares of this process, in KiB.
struct Memory {
    pss: f64,
    guest_ram: f64,
    fib: f64,
}

impl Memory {
    fn now() -> Result<Self> {
        let path = "/proc/self/smaps";
        Ok(Self::read(&fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?))
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
