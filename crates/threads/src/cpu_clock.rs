//! Time on CPUs, from the scheduler's own clocks: no file has to be opened for it.

use std::time::Duration;

/// `CPUCLOCK_SCHED` of the kernel: time on a CPU, to the nanosecond.
const SCHEDULER: i32 = 2;
/// `CPUCLOCK_PERTHREAD_MASK`: one thread rather than all threads of its process.
const ONE_THREAD: i32 = 4;

/// Time that all threads of process `pid` together have spent on CPUs; zero if it is gone.
pub fn of_process(pid: i32) -> Duration {
    read(pid, SCHEDULER)
}

/// Time that thread `tid` of this process has spent on a CPU; zero if it is gone.
pub fn of_thread(tid: i32) -> Duration {
    read(tid, SCHEDULER | ONE_THREAD)
}

fn read(id: i32, which: i32) -> Duration {
    // The clock's number: that of its owner inverted, and which of its clocks, as clock_getcpuclockid(3) makes it.
    let clock = (!id << 3) | which;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the answer; a clock that is not there is an error.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests;
