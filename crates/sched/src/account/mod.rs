//! Where the time of cores and threads goes: the stacked split of seed paper 000, Figs. 4, 6 and 7.
//!
//! | column | what | source | as fine as |
//! |---|---|---|---|
//! | guest | vCPU threads in their guests | `schedstat` of the thread, times the part of its ticks that found it in the guest (`stat`) | clock of the scheduler; the part by ticks |
//! | vhost | vhost threads, ours and the kernel's | `schedstat` | clock of the scheduler |
//! | kernel, user | everything else that ran, on behalf of the kernel or not; exits of vCPUs are the kernel's | what is left over, by the ticks of `/proc/stat` | ticks |
//! | irq, softirq | interrupt handlers | a tracer, or `/proc/stat` | ns, or ticks |
//! | steal | other virtual machines | `/proc/stat` | the hypervisor's word |
//! | idle | nothing to do | `/proc/stat`, which counts it by a clock where the tick stops in idle | 10 ms |
//!
//! What is counted by ticks is a sample: in a second 250 of them (`CONFIG_HZ=250`) tell 30 % to ± 3 %, in ten to ± 1 %. The
//! scheduler's clock of a thread that runs just now is as old as its last tick, 4 ms: at most 0.4 % of a second. Where the kernel
//! charges interrupts to whom they interrupt (no `CONFIG_IRQ_TIME_ACCOUNTING`), a tracer knows whom; without one they are taken
//! from the threads of that core in equal parts of their time.
//!
//! A sample costs a read of three files a thread and one for all cores.

mod parse;
mod reader;
mod split;
mod tracer;

pub use parse::{CoreTicks, ThreadTimes, cores};
pub use reader::Account;
pub use split::{CoreSplit, Split, ThreadSplit};
pub use tracer::Tracer;

use std::collections::BTreeMap;

/// What a thread's time counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// A vCPU: what is spent in its guest is `guest`, what is spent for it outside `kernel`.
    Guest,
    /// A vhost thread, all of it.
    Vhost,
    /// Any other: `kernel` and `user`.
    Other,
}

/// A thread that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name: `edge/vcpu0`.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// The kernel's number for it.
    pub tid: i32,
    /// What its time counts as.
    pub column: Column,
}

/// Everything at one moment. Nanoseconds, but for ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When: CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// What it took to read.
    pub took_ns: u64,
    /// By number of the CPU.
    pub cores: BTreeMap<u32, CoreTicks>,
    /// By name; a thread that is gone is missing.
    pub threads: BTreeMap<String, (Column, ThreadTimes)>,
    /// What a tracer knows.
    pub traced: Option<Traced>,
}

/// What a tracer knows of interrupts since it was started, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// When that was: CLOCK_MONOTONIC. Only what the same tracer says twice is a difference.
    pub since_ns: u64,
    /// By number of the CPU.
    pub cores: BTreeMap<u32, Interrupts>,
    /// What ran on the time of a thread, by its number.
    pub threads: BTreeMap<i32, Interrupts>,
}

/// Time in handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Handlers of devices' interrupts, without softirqs.
    pub irq_ns: u64,
    /// Softirqs, without the interrupts that came meanwhile.
    pub softirq_ns: u64,
}

#[cfg(test)]
mod tests;
