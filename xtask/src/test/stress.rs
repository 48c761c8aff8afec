//! Spinners: real-time threads that periodically take all CPUs away for a while, as a busy hypervisor does to its virtual
//! machines.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::step::{installed, output};
use crate::workers;

/// Time for which a spinner takes its CPU.
const BURST: Duration = Duration::from_millis(1200);
/// Interval between the starts of two bursts.
const PERIOD: Duration = Duration::from_secs(7);
/// Real-time priority, above every thread of a router: those have at most 98.
const PRIORITY: &str = "99";

/// One spinner per CPU, running until dropped.
#[derive(Debug)]
pub(crate) struct Spinners {
    children: Vec<Child>,
}

impl Spinners {
    /// Starts the spinners.
    ///
    /// # Errors
    /// This user may not create real-time threads, or `chrt` is missing.
    pub(crate) fn start() -> Result<Self> {
        ensure!(output("id", &["-u"]) == "0" && installed("chrt"), "real-time threads need root and chrt(1)");
        let own = std::env::current_exe().context("the path of this program")?;
        let cpus = workers::cpus();
        let mut spinners = Self { children: Vec::new() };
        for cpu in 0..cpus {
            let mut command = Command::new("chrt");
            command.args(["--fifo", PRIORITY, "taskset", "--cpu-list", &cpu.to_string()]);
            command.arg(&own).arg("spin").stdin(Stdio::null());
            spinners.children.push(command.spawn().context("cannot start chrt")?);
        }
        println!("spinners: {cpus} CPUs are taken away for {BURST:?} in each {PERIOD:?}");
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Main function of a spinner, which runs until its parent process has ended.
pub(crate) fn spin() -> ! {
    let (parent, start) = (std::os::unix::process::parent_id(), Instant::now());
    for round in 1.. {
        let burst = Instant::now();
        while burst.elapsed() < BURST {
            std::hint::spin_loop();
        }
        if std::os::unix::process::parent_id() != parent {
            break;
        }
        // All spinners follow the same clock, so that they take all CPUs at the same time.
        sleep((PERIOD * round).saturating_sub(start.elapsed()));
    }
    std::process::exit(0)
}
