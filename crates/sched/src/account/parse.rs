//! Parsers of proc(5) files. Malformed text yields no value and never panics.

use std::collections::BTreeMap;

/// Ticks of one CPU from `/proc/stat`, by category, in units of USER_HZ (10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// User mode, guests included.
    pub user: u64,
    /// Kernel mode, for programs and for the kernel itself.
    pub system: u64,
    /// Idle, whether or not a task waits for a disk.
    pub idle: u64,
    /// Hard interrupt handlers.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Time in which the hypervisor ran other virtual machines.
    pub steal: u64,
}

impl CoreTicks {
    /// Total of all categories.
    pub fn all(&self) -> u64 {
        self.user + self.system + self.idle + self.irq + self.softirq + self.steal
    }
}

/// All CPUs of `/proc/stat`, by number. `user` and `nice` are added up, and guests' time is included.
pub fn cores(text: &str) -> BTreeMap<u32, CoreTicks> {
    let core = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let cpu = words.next()?.parse().ok()?;
        let mut next = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (user, nice, system, idle, waits) = (next()?, next()?, next()?, next()?, next()?);
        let (irq, softirq, steal) = (next()?, next()?, next().unwrap_or(0));
        let ticks = CoreTicks { user: user + nice, system, idle: idle + waits, irq, softirq, steal };
        Some((cpu, ticks))
    };
    // The first line is the sum of the others, and has no number after `cpu`.
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(core)
        .collect()
}

/// Times of one thread: nanoseconds by the scheduler's clock, ticks in units of USER_HZ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Kernel's thread number.
    pub tid: i32,
    /// CPU that it ran on last.
    pub cpu: u32,
    /// Time on a CPU.
    pub run_ns: u64,
    /// Time ready to run but waiting for a CPU.
    pub wait_ns: u64,
    /// Ticks in user mode, guests included.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Ticks in a guest.
    pub guest: u64,
    /// Voluntary switches: times it gave its CPU up to wait; each of them is ended by a wake-up.
    pub sleeps: u64,
    /// Involuntary switches: times its CPU was taken from it.
    pub preemptions: u64,
}

/// Parses `/proc/PID/task/TID/stat`: CPU and ticks. The name in it may hold any characters, so fields begin
/// after the last `)`.
pub(super) fn stat(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let behind = &text[text.rfind(')')? + 1..];
    let words: Vec<&str> = behind.split_ascii_whitespace().collect();
    // proc(5) counts fields from 1, and `state` is field 3.
    let field = |number: usize| words.get(number - 3)?.parse::<u64>().ok();
    (times.user, times.system) = (field(14)?, field(15)?);
    times.cpu = u32::try_from(field(39)?).ok()?;
    times.guest = field(43).unwrap_or(0);
    Some(())
}

/// Parses `/proc/PID/task/TID/schedstat`: time on a CPU, time waiting for one, time slices.
pub(super) fn schedstat(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    (times.run_ns, times.wait_ns) = (words.next()??, words.next()??);
    Some(())
}

/// Parses `/proc/PID/task/TID/status`: context switches.
pub(super) fn status(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let value = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(name));
        line?.trim().parse::<u64>().ok()
    };
    times.sleeps = value("voluntary_ctxt_switches:")?;
    times.preemptions = value("nonvoluntary_ctxt_switches:")?;
    Some(())
}
