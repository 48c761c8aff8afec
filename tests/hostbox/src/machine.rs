//! Machine: QEMU with software emulation.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::kernel::Kernel;
use crate::programs;

const QEMU: &str = "qemu-system-x86_64";
/// CPU with everything that can be emulated. Without `erms`, because kernels use `rep movsb` where it is declared fast, and emulated
/// it is slow.
const CPU: &str = "max,+svm,-erms";

/// Range of values that the first script writes to isa-debug-exit, which makes QEMU exit with twice the value plus one: the script's
/// status, shifted beyond QEMU's own exit codes.
const STATUSES: Range<i32> = 32..61;

/// Result of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its script ended with this status (at most 28).
    Status(i32),
    /// It powered off or stopped: its kernel panicked.
    Off,
    /// It was still running at its time limit, or had been silent for too long.
    TimedOut,
    /// A signal ended QEMU: it has crashed, or was killed.
    Crashed,
    /// QEMU itself failed, with this status: it cannot run such a machine.
    Failed(i32),
}

/// Machine that can be started.
#[derive(Clone, Debug)]
pub struct Machine {
    image: PathBuf,
    initrd: PathBuf,
    memory: u32,
    cpus: u32,
    on_one_cpu: bool,
    machine: String,
    append: String,
    arguments: Vec<String>,
}

impl Machine {
    /// Creates a machine with 512 MiB and one CPU, and nothing but a serial console.
    pub fn new(kernel: &Kernel, initrd: &Path) -> Self {
        Self {
            image: kernel.image().to_path_buf(),
            initrd: initrd.to_path_buf(),
            memory: 512,
            cpus: 1,
            on_one_cpu: false,
            machine: "q35".to_owned(),
            append: "console=ttyS0 quiet panic=-1 no_timer_check".to_owned(),
            arguments: Vec::new(),
        }
    }

    /// Sets its memory, in MiB.
    pub fn memory(&mut self, mebibytes: u32) -> &mut Self {
        self.memory = mebibytes;
        self
    }

    /// Sets its number of CPUs.
    pub fn cpus(&mut self, cpus: u32) -> &mut Self {
        self.cpus = cpus;
        self
    }

    /// QEMU's `-machine` (default `q35`).
    pub fn machine(&mut self, machine: &str) -> &mut Self {
        machine.clone_into(&mut self.machine);
        self
    }

    /// Adds words to the kernel's command line.
    pub fn append(&mut self, words: &str) -> &mut Self {
        self.append = format!("{} {words}", self.append);
        self
    }

    /// Gives all threads of QEMU one CPU of this host. Required if its CPUs run guests of their own: when it enters and leaves those
    /// (`helper_vmrun`, `do_vmexit`), QEMU 7.2 modifies the word of a CPU's pending interrupts with an instruction that is not atomic,
    /// so that an interrupt from a thread on another CPU gets lost, or one for a guest reaches its host.
    pub fn on_one_cpu(&mut self) -> &mut Self {
        self.on_one_cpu = true;
        self
    }

    /// Adds arguments to QEMU's.
    pub fn arguments<S: Into<String>>(&mut self, arguments: impl IntoIterator<Item = S>) -> &mut Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Returns the reason why no machine can be started on this host, if there is one.
    pub fn missing() -> Option<String> {
        programs::find(QEMU).err().map(|error| error.to_string())
    }

    /// Returns the command that starts it; its console is standard input and output.
    pub fn command(&self) -> Command {
        let mut command = if self.on_one_cpu { on_last_cpu() } else { Command::new(QEMU) };
        command.args(["-accel", "tcg,thread=multi", "-cpu", CPU, "-machine", &self.machine]);
        command.args(["-m", &self.memory.to_string(), "-smp", &self.cpus.to_string()]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        command.arg("-kernel").arg(&self.image).arg("-initrd").arg(&self.initrd);
        command.args(["-append", &self.append, "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        command.args(&self.arguments);
        command
    }

    /// Starts it and passes each line of its console to `line`, until it ends, has run for `limit`, or has been silent for `silence`.
    /// Lines of its kernel are passed on and break no silence: a kernel whose CPUs wait for each other tells of that for ever.
    ///
    /// # Errors
    /// QEMU cannot be started.
    pub fn run(&self, limit: Duration, silence: Duration, line: &mut dyn FnMut(&str)) -> Result<End> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {QEMU}"))?;
        let (told, lines) = mpsc::channel();
        if let Some(console) = child.stdout.take() {
            // The thread ends when QEMU does.
            thread::spawn(move || read(BufReader::new(console), &told));
        }
        let is_late = listen(&lines, limit, silence, line);
        if is_late {
            child.kill()?;
        }
        let status = child.wait()?;
        Ok(if is_late { End::TimedOut } else { End::of(status) })
    }
}

/// Returns a command for QEMU on the last CPU of the affinity mask.
fn on_last_cpu() -> Command {
    let may = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let may = may.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or("0");
    let last = may.trim().rsplit([',', '-']).next().unwrap_or("0");
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", last, QEMU]);
    command
}

/// Passes lines on; returns true if they did not end in time.
fn listen(lines: &Receiver<String>, limit: Duration, silence: Duration, line: &mut dyn FnMut(&str)) -> bool {
    let over = Instant::now() + limit;
    let mut heard = Instant::now();
    loop {
        let left = over.min(heard + silence).saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        match lines.recv_timeout(left) {
            Ok(text) => {
                if !is_of_the_kernel(&text) {
                    heard = Instant::now();
                }
                line(&text);
            }
            Err(why) => return why == RecvTimeoutError::Timeout,
        }
    }
}

/// Returns true if the kernel has written this line: a time in brackets precedes it.
fn is_of_the_kernel(line: &str) -> bool {
    let time =
        line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(time, _)| time.trim_start());
    time.is_some_and(|time| {
        time.contains('.') && time.bytes().all(|octet| octet.is_ascii_digit() || octet == b'.')
    })
}

/// Reads lines, without their ends, until the console is closed.
fn read(mut console: impl BufRead, told: &Sender<String>) {
    let mut octets = Vec::new();
    while console.read_until(b'\n', &mut octets).is_ok_and(|read| read > 0) {
        let line = String::from_utf8_lossy(&octets).trim_end_matches(['\n', '\r']).to_owned();
        if told.send(line).is_err() {
            return;
        }
        octets.clear();
    }
}

impl End {
    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Off,
            Some(code) if code % 2 == 1 && STATUSES.contains(&(code / 2)) => {
                Self::Status(code / 2 - STATUSES.start)
            }
            Some(code) => Self::Failed(code),
            None => Self::Crashed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_machine_whose_emulator_crashes_is_told_from_one_that_cannot_be_run() {
        let exited = |code: i32| End::of(ExitStatus::from_raw(code << 8));
        assert_eq!((exited(0), exited(1)), (End::Off, End::Failed(1)));
        assert_eq!((exited(2 * 32 + 1), exited(2 * 33 + 1)), (End::Status(0), End::Status(1)));
        assert_eq!(End::of(ExitStatus::from_raw(11)), End::Crashed, "a segmentation fault");
    }

    #[test]
    fn a_machine_whose_kernel_alone_talks_is_silent() {
        let (told, lines) = mpsc::channel();
        let console = thread::spawn(move || {
            while told
                .send("[  140.697312] watchdog: BUG: soft lockup - CPU#1 stuck for 105s!".to_owned())
                .is_ok()
            {
                thread::yield_now();
            }
        });
        let mut heard = 0;
        assert!(
            listen(&lines, Duration::from_secs(3600), Duration::from_millis(20), &mut |_| heard += 1),
            "it is late"
        );
        assert!(heard > 0, "its lines are passed on");
        drop(lines);
        console.join().expect("the console");
        assert!(
            !is_of_the_kernel("[ RUN ] test")
                && !is_of_the_kernel("test a ... ok")
                && !is_of_the_kernel("[]")
        );
    }

    #[test]
    fn the_last_cpu_is_one_that_may_be_used() {
        let command = on_last_cpu();
        let words: Vec<_> = command.get_args().filter_map(|word| word.to_str()).collect();
        assert_eq!([words[0], words[2]], ["--cpu-list", QEMU]);
        let done = Command::new("taskset").args([words[0], words[1], "true"]).status().expect("taskset");
        assert!(done.success(), "{words:?}");
    }
}
