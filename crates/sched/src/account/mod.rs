//! CPU time accounting of cores and threads: the stacked split of seed paper 000, Figs. 4, 6 and 7.
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
//! Times counted in ticks are samples: in a second, 250 of them (`CONFIG_HZ=250`) determine 30 % to ± 3 %, in
//! ten seconds to ± 1 %. The scheduler's clock of a thread that is running is as old as its last tick, 4 ms:
//! at most 0.4 % of a second. If the kernel charges interrupts to the interrupted thread (no
//! `CONFIG_IRQ_TIME_ACCOUNTING`), a tracer knows which thread that is; without one they are subtracted from
//! the threads of that core in proportion to their time.
//!
//! A sample costs a read of three files for each thread and one for all cores.

mod parse;
mod reader;
mod split;
mod tracer;

pub use parse::{CoreTicks, ThreadTimes, cores};
pub use reader::{Account, times};
pub use split::{CoreSplit, Split, ThreadSplit};
pub use tracer::Tracer;

use std::collections::BTreeMap;

/// Category that a thread's time is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeCategory {
    /// A vCPU thread: time in its guest is `guest`, time spent for it outside is `kernel`.
    Guest,
    /// A vhost thread: all its time is `vhost`.
    Vhost,
    /// Any other thread: its time is `kernel` and `user`.
    Other,
}

/// A watched thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its name: `edge/vcpu0`.
    pub name: String,
    /// Process number.
    pub pid: i32,
    /// Kernel's thread number.
    pub tid: i32,
    /// Category of its time.
    pub column: TimeCategory,
}

/// Times of all cores and threads at one moment, in nanoseconds, except for ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When the sample was taken: CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Time that reading took.
    pub took_ns: u64,
    /// By CPU number.
    pub cores: BTreeMap<u32, CoreTicks>,
    /// By name; a thread that has ended is missing.
    pub threads: BTreeMap<String, (TimeCategory, ThreadTimes)>,
    /// Interrupt times, if there is a tracer.
    pub traced: Option<Traced>,
}

/// Interrupt times since a tracer was started, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// When the tracer was started: CLOCK_MONOTONIC. Only two readings of the same tracer may be subtracted.
    pub since_ns: u64,
    /// By CPU number.
    pub cores: BTreeMap<u32, Interrupts>,
    /// Interrupts that ran on a thread's time, by thread number.
    pub threads: BTreeMap<i32, Interrupts>,
}

/// Time in interrupt handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// Hard interrupt handlers, without softirqs.
    pub irq_ns: u64,
    /// Softirqs, without the hard interrupts that arrived meanwhile.
    pub softirq_ns: u64,
}

#[cfg(test)]
mod tests;
