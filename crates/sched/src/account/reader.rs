//! Reads the files, and the tracer where there is one. The files stay open, and are read from their beginning each time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::time::{ClockId, clock_gettime};

use super::parse::{self, ThreadTimes};
use super::{Sample, Thread, Tracer};

/// Longer than `/proc/stat` of a host of 500 CPUs; what comes behind those is interrupts by number.
const STAT: usize = 64 << 10;
/// Longer than the longest of a thread's files.
const LINE: usize = 4096;

/// The account of where time goes, on cores and in threads.
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
    /// Watches these CPUs (none: all) and these threads. Threads that are gone already are left out.
    ///
    /// # Errors
    /// `/proc/stat` cannot be opened, or no descriptors are left.
    pub fn open(cpus: &[u32], threads: &[Thread]) -> io::Result<Self> {
        let stat = File::open("/proc/stat")?;
        let (cpus, threads_of, buffer) = (cpus.to_vec(), Vec::new(), vec![0; STAT]);
        let mut account = Self { cpus, stat, threads: threads_of, buffer, tracer: None };
        account.watch(threads)?;
        Ok(account)
    }

    /// Watches these threads from now on, and no others. Those that it watches already stay open.
    ///
    /// # Errors
    /// No descriptors are left.
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

    /// Has interrupts told apart by a tracer from now on, instead of by ticks.
    ///
    /// # Errors
    /// As [`Tracer::start`]; then it goes on by ticks.
    pub fn trace(&mut self) -> io::Result<()> {
        if self.tracer.is_none() {
            self.tracer = Some(Tracer::start()?);
            self.watch_traced();
        }
        Ok(())
    }

    /// Goes on by ticks.
    pub fn stop_tracing(&mut self) {
        self.tracer = None;
    }

    /// Whether there is a tracer.
    pub fn is_traced(&self) -> bool {
        self.tracer.is_some()
    }

    /// The tracer watches the same threads. One that cannot watch them all is of no use.
    fn watch_traced(&mut self) {
        let threads: Vec<i32> = self.threads.iter().map(|watched| watched.thread.tid).collect();
        self.tracer.take_if(|tracer| tracer.watch(&threads).is_err());
    }

    /// Reads everything. A thread that has ended is missing from now on.
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

/// Reads a file from its beginning, as far as the buffer goes. A name may hold octets that are no text.
fn read<T>(file: &File, buffer: &mut [u8], parse: impl FnOnce(&str) -> T) -> Option<T> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        // These files come in one piece, but for `/proc/stat`.
        if len < LINE / 2 {
            break;
        }
    }
    Some(parse(&String::from_utf8_lossy(buffer.get(..len)?)))
}

/// CLOCK_MONOTONIC.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock began with the host.
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}
