//! Child processes of a test, which end when dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::{Counters, settled};

/// Time that a process gets to end after SIGTERM before it is killed. A run waits for the kernel to close its virtual machines and
/// links, which may take many seconds on a busy host, and what a killed one leaves behind fails other tests.
const GRACE: Duration = Duration::from_secs(60);
/// Time for which output may still arrive after the process has ended (its own children may hold the pipe).
const LAST_WORDS: Duration = Duration::from_secs(20);

/// Output and exit status of a process.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Child process. On drop it is terminated, then killed; no other process is ever signalled.
#[derive(Debug)]
pub struct Running {
    shown: String,
    child: Child,
    ended: Option<ExitStatus>,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    said: Mutex<Said>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    stdout: Vec<String>,
    stderr: Vec<String>,
    closed: usize,
}

impl Heard {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `found` returns an answer, for at most `within`.
    fn wait<T>(&self, within: Duration, mut found: impl FnMut(&Said) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + within;
        let mut said = self.said();
        loop {
            if let Some(answer) = found(&said) {
                return Some(answer);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            said = self.news.wait_timeout(said, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Runs a command to completion; fails if that takes longer than `within`.
pub fn run(command: &mut Command, within: Duration) -> Result<Finished> {
    Running::start(command)?.wait(within)
}

impl Running {
    /// Starts a command, without standard input, and reads both of its outputs.
    pub fn start(command: &mut Command) -> Result<Self> {
        let shown = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
        let heard = Arc::new(Heard::default());
        let (out, err) = (child.stdout.take(), child.stderr.take());
        listen(out, Arc::clone(&heard), |said| &mut said.stdout);
        listen(err, Arc::clone(&heard), |said| &mut said.stderr);
        Ok(Self { shown, child, ended: None, heard })
    }

    /// Process ID, valid as long as this value lives and [`Running::ended`] is false.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has ended.
    pub fn ended(&mut self) -> Result<bool> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended.is_some())
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()? {
            return Ok(());
        }
        // It has not been waited for yet, so the ID cannot belong to another process.
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the ledgers of all routers of this `ringroad run` add up and do not change; returns false if frames never rest,
    /// or if it does not answer.
    pub fn settle(&self) -> bool {
        settled::wait(self.id(), true)
    }

    /// Lets the frames of this `ringroad run` come to rest before its end, like [`Running::settle`], unless it does not answer or
    /// they never rest.
    pub fn settle_if_possible(&self) {
        settled::wait(self.id(), false);
    }

    /// Counters of this `ringroad run` so far; empty if it does not answer.
    pub fn counters(&self) -> Counters {
        settled::now(self.id()).unwrap_or_default()
    }

    /// Waits for the first line, on either output, that satisfies `wanted`.
    pub fn wait_for_line(&mut self, within: Duration, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let line = self.heard.wait(within, |said| {
            let mut lines = said.stdout.iter().chain(&said.stderr);
            let hit = lines.find(|line| wanted(line)).cloned();
            // Both outputs are closed: no such line can come any more.
            hit.map(Some).or_else(|| (said.closed == 2).then_some(None))
        });
        match line.flatten() {
            Some(line) => Ok(line),
            None => bail!("{}: no such line within {within:?}; it said:\n{}", self.shown, self.everything()),
        }
    }

    /// Lines written to standard output so far, without the first `skip`.
    pub fn lines(&self, skip: usize) -> Vec<String> {
        self.heard.said().stdout.iter().skip(skip).cloned().collect()
    }

    /// Lines written to standard error so far, without the first `skip`.
    pub fn stderr_lines(&self, skip: usize) -> Vec<String> {
        self.heard.said().stderr.iter().skip(skip).cloned().collect()
    }

    /// Waits for its end; fails if that takes longer than `within`.
    pub fn wait(&mut self, within: Duration) -> Result<Finished> {
        if !self.ends_within(within)? {
            bail!("{}: still runs after {within:?}; it said:\n{}", self.shown, self.everything());
        }
        self.heard.wait(LAST_WORDS, |said| (said.closed == 2).then_some(()));
        let status = self.ended.context("an ended process has a status")?;
        let said = self.heard.said();
        Ok(Finished { status, stdout: said.stdout.join("\n"), stderr: said.stderr.join("\n") })
    }

    fn ends_within(&mut self, within: Duration) -> Result<bool> {
        let deadline = Instant::now() + within;
        while !self.ended()? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(true)
    }

    fn everything(&self) -> String {
        let said = self.heard.said();
        said.stdout.iter().chain(&said.stderr).map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that panics must not leave a command behind that has created links and namespaces.
        if self.signal(Signal::TERM).is_ok() && !self.ends_within(GRACE).unwrap_or(false) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Reads lines in a thread of its own, which ends when the last writer has closed the pipe.
fn listen(
    pipe: Option<impl Read + Send + 'static>,
    heard: Arc<Heard>,
    to: fn(&mut Said) -> &mut Vec<String>,
) {
    thread::spawn(move || {
        let mut reader = pipe.map(BufReader::new);
        let mut octets = Vec::new();
        while let Some(reader) = &mut reader
            && reader.read_until(b'\n', &mut octets).is_ok_and(|n| n > 0)
        {
            let line = String::from_utf8_lossy(&octets).trim_end_matches(['\n', '\r']).to_owned();
            octets.clear();
            to(&mut heard.said()).push(line);
            heard.news.notify_all();
        }
        heard.said().closed += 1;
        heard.news.notify_all();
    });
}

#[cfg(test)]
mod tests;
