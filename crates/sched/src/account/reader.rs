//! Reader of the account's files and tracer. Files stay open and are read from their beginning each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::time::{ClockId, clock_gettime};

use super::parse::{self, ThreadTimes};
use super::{Sample, Thread, TimeCategory, Tracer};

/// Buffer for `/proc/stat`: enough for a host of 500 CPUs; interrupts by number, which follow the CPUs, may
/// be cut off.
const STAT: usize = 64 << 10;
/// Buffer for a thread's files, larger than the longest.
const LINE: usize = 4096;

/// CPU time account of cores and threads.
#[derive(Debug)]
pub struct Account {
    cpus: Vec<u32>,
    stat: File,
    threads: Vec<Watched>,
    buffer: Vec<u8>,
    tracer: Option<Tracer>,
}

#[derive(Debug)]
struct Watched {
    thread: Thread,
    stat: File,
    schedstat: File,
    status: File,
}

impl Account {
    /// Watches these CPUs (all, if empty) and these threads. Threads that have ended already are skipped.
    ///
    /// # Errors
    /// `/proc/stat` cannot be opened, or the process is out of descriptors.
    pub fn open(cpus: &[u32], threads: &[Thread]) -> io::Result<Self> {
        let stat = File::open("/proc/stat")?;
        let (cpus, threads_of, buffer) = (cpus.to_vec(), Vec::new(), vec![0; STAT]);
        let mut account = Self { cpus, stat, threads: threads_of, buffer, tracer: None };
        account.watch(threads)?;
        Ok(account)
    }

    /// Replaces the set of watched threads. Files of threads that are already watched stay open.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn watch(&mut self, threads: &[Thread]) -> io::Result<()> {
        self.threads.retain(|watched| threads.contains(&watched.thread));
        for thread in threads {
            if self.threads.iter().any(|watched| watched.thread == *thread) {
                continue;
            }
            match Watched::open(thread) {
                Ok(watched) => self.threads.push(watched),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.watch_traced();
        Ok(())
    }

    /// Starts a tracer that tells interrupts apart, in place of ticks.
    ///
    /// # Errors
    /// Those of [`Tracer::start`]; then ticks are used on.
    pub fn trace(&mut self) -> io::Result<()> {
        if self.tracer.is_none() {
            self.tracer = Some(Tracer::start()?);
            self.watch_traced();
        }
        Ok(())
    }

    /// Stops the tracer; ticks are used again.
    pub fn stop_tracing(&mut self) {
        self.tracer = None;
    }

    /// Returns true if there is a tracer.
    pub fn is_traced(&self) -> bool {
        self.tracer.is_some()
    }

    /// Makes the tracer watch the same threads. A tracer that cannot watch all of them is stopped.
    fn watch_traced(&mut self) {
        let threads: Vec<i32> = self.threads.iter().map(|watched| watched.thread.tid).collect();
        self.tracer.take_if(|tracer| tracer.watch(&threads).is_err());
    }

    /// Reads all times. A thread that has ended is missing from now on.
    pub fn sample(&mut self) -> Sample {
        let at_ns = now();
        let mut cores = read(&self.stat, &mut self.buffer, parse::cores).unwrap_or_default();
        if !self.cpus.is_empty() {
            cores.retain(|cpu, _| self.cpus.contains(cpu));
        }
        let buffer = self.buffer.get_mut(..LINE).unwrap_or_default();
        let mut threads = BTreeMap::new();
        self.threads.retain(|watched| {
            let times = watched.read(buffer);
            threads.extend(times.map(|times| (watched.thread.name.clone(), (watched.thread.column, times))));
            times.is_some()
        });
        let traced = self.tracer.as_ref().map(Tracer::read);
        Sample { at_ns, took_ns: now().saturating_sub(at_ns), cores, threads, traced }
    }
}

impl Watched {
    fn open(thread: &Thread) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{}/task/{}/{name}", thread.pid, thread.tid));
        Ok(Self {
            thread: thread.clone(),
            stat: open("stat")?,
            schedstat: open("schedstat")?,
            status: open("status")?,
        })
    }

    fn read(&self, buffer: &mut [u8]) -> Option<ThreadTimes> {
        let mut times = ThreadTimes { tid: self.thread.tid, ..ThreadTimes::default() };
        read(&self.schedstat, buffer, |text| parse::schedstat(text, &mut times))??;
        read(&self.stat, buffer, |text| parse::stat(text, &mut times))??;
        read(&self.status, buffer, |text| parse::status(text, &mut times))??;
        Some(times)
    }
}

/// Reads the times of a thread once; `None`: it has exited. For occasional use: an [`Account`] keeps the files open.
pub fn times(pid: i32, tid: i32) -> Option<ThreadTimes> {
    let thread = Thread { name: String::new(), pid, tid, column: TimeCategory::Other };
    Watched::open(&thread).ok()?.read(&mut [0; LINE])
}

/// Reads a file from its beginning, up to the size of the buffer. Names in it may hold octets that are not
/// UTF-8.
fn read<T>(file: &File, buffer: &mut [u8], parse: impl FnOnce(&str) -> T) -> Option<T> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        // All these files but `/proc/stat` are read in one piece.
        if len < LINE / 2 {
            break;
        }
    }
    Some(parse(&String::from_utf8_lossy(buffer.get(..len)?)))
}

/// Current time of CLOCK_MONOTONIC in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock starts at boot.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
