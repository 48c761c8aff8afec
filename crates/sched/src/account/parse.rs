//! The files of proc(5), as text: whatever stands in them is a value or nothing.

use std::collections::BTreeMap;

/// Ticks of one CPU, of `/proc/stat`: what was going on, in units of USER_HZ (10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreTicks {
    /// Programs and guests.
    pub user: u64,
    /// The kernel, for programs and for itself.
    pub system: u64,
    /// Nothing to do, whether or not somebody waits for a disk.
    pub idle: u64,
    /// Interrupt handlers.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// The hypervisor gave the core to somebody else.
    pub steal: u64,
}

impl CoreTicks {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.user + self.system + self.idle + self.irq + self.softirq + self.steal
    }
}

/// Every CPU of `/proc/stat`, by its number. `user` and `nice` are one here, and what guests take is among them.
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
    // The first line sums the others up, and has no number behind `cpu`: it is none of them.
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter(|line| !line.starts_with("cpu "))
        .filter_map(core)
        .collect()
}

/// What is known of one thread. Nanoseconds from the scheduler's clock, ticks in units of USER_HZ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// The kernel's number for it.
    pub tid: i32,
    /// The CPU that it ran on last.
    pub cpu: u32,
    /// On a CPU.
    pub run_ns: u64,
    /// Ready to run, and waiting for a CPU.
    pub wait_ns: u64,
    /// Ticks in user mode, guests included.
    pub user: u64,
    /// Ticks in the kernel.
    pub system: u64,
    /// Ticks in a guest.
    pub guest: u64,
    /// Times it gave its CPU up because it had to wait for something: each is ended by a wake-up.
    pub sleeps: u64,
    /// Times its CPU was taken from it.
    pub preemptions: u64,
}

/// `/proc/PID/task/TID/stat`: the CPU, and ticks. The name in it may hold anything, so that it is the last `)` that counts.
pub(super) fn stat(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let behind = &text[text.rfind(')')? + 1..];
    let words: Vec<&str> = behind.split_ascii_whitespace().collect();
    // proc(5) counts from 1, and `state` is number 3.
    let field = |number: usize| words.get(number - 3)?.parse::<u64>().ok();
    (times.user, times.system) = (field(14)?, field(15)?);
    times.cpu = u32::try_from(field(39)?).ok()?;
    times.guest = field(43).unwrap_or(0);
    Some(())
}

/// `/proc/PID/task/TID/schedstat`: on a CPU, waiting for one, time slices.
pub(super) fn schedstat(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    (times.run_ns, times.wait_ns) = (words.next()??, words.next()??);
    Some(())
}

/// `/proc/PID/task/TID/status`: switches.
pub(super) fn status(text: &str, times: &mut ThreadTimes) -> Option<()> {
    let value = |name: &str| {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(name));
        line?.trim().parse::<u64>().ok()
    };
    times.sleeps = value("voluntary_ctxt_switches:")?;
    times.preemptions = value("nonvoluntary_ctxt_switches:")?;
    Some(())
}
