//! Spinners: real-time threads that take every CPU away for a while again and again, as a busy host does to its virtual machines.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::step::{installed, output};
use crate::workers;

/// How long a spinner takes its CPU.
const BURST: Duration = Duration::from_millis(1200);
/// From one burst to the next.
const PERIOD: Duration = Duration::from_secs(7);
/// Above every thread of a router: those take at most 98.
const PRIORITY: &str = "99";

/// A spinner for each CPU, until it is dropped.
#[derive(Debug)]
pub(super) struct Spinners {
    children: Vec<Child>,
}

impl Spinners {
    /// Starts them.
    ///
    /// # Errors
    /// This user may not have real-time threads, or `chrt` is missing.
    pub(super) fn start() -> Result<Self> {
        ensure!(output("id", &["-u"]) == "0" && installed("chrt"), "--stressed needs root and chrt(1)");
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

/// What a spinner does, for ever; it ends when whoever started it has.
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
        // All of them keep to one clock, so that the CPUs are gone at once.
        sleep((PERIOD * round).saturating_sub(start.elapsed()));
    }
    std::process::exit(0)
}
