//! Identity of a kernel thread, safe against reuse of its number.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// Parent of all kernel threads.
const KTHREADD: i32 = 2;

/// A thread. Numbers are reused; the combination of process, thread number and start time is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadIdentity {
    /// Its process, as seen by the process that places it; for a kernel thread its own number.
    pub pid: i32,
    /// Thread number.
    pub tid: i32,
    /// Start time, in clock ticks since boot (proc_pid_stat(5), field 22).
    start: u64,
}

/// Reads `/proc/PID/task/TID/stat`; `None` if there is no such thread.
pub fn stat(pid: i32, tid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()
}

/// Fields of such a text.
struct Facts<'t> {
    name: &'t str,
    parent: i32,
    start: u64,
    cpu: u32,
}

impl<'t> Facts<'t> {
    /// Parses `pid (name) state parent …`: the name may hold any characters and ends with the last bracket.
    /// Fields are counted from 1.
    fn read(text: &'t str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3);
        Some(Self {
            name: before.split_once('(')?.1,
            parent: field(4)?.parse().ok()?,
            start: field(22)?.parse().ok()?,
            cpu: field(39)?.parse().ok()?,
        })
    }
}

impl ThreadIdentity {
    /// Returns the thread of a process that has this number now.
    pub fn look(pid: i32, tid: i32) -> Option<Self> {
        Self::look_in(stat, pid, tid)
    }

    /// Returns the thread that has this number now; `proc` reads what [`stat`] does.
    pub fn look_in(proc: impl Fn(i32, i32) -> Option<String>, pid: i32, tid: i32) -> Option<Self> {
        let text = proc(pid, tid)?;
        Some(Self { pid, tid, start: Facts::read(&text)?.start })
    }

    /// Returns the kernel thread that has this number and this name now, unless it is older than `owner`, for
    /// which it works.
    pub fn of_kernel(
        proc: impl Fn(i32, i32) -> Option<String>,
        tid: i32,
        name: &str,
        owner: &Self,
    ) -> Option<Self> {
        Self::named_in_kernel(proc, tid, name).filter(|thread| thread.start >= owner.start)
    }

    /// Returns the kernel thread that has this thread ID and this name now; `proc` is [`stat`] or a stand-in.
    pub fn named_in_kernel(proc: impl Fn(i32, i32) -> Option<String>, tid: i32, name: &str) -> Option<Self> {
        let text = proc(tid, tid)?;
        let facts = Facts::read(&text)?;
        let is_it = facts.parent == KTHREADD && facts.name == name;
        is_it.then_some(Self { pid: tid, tid, start: facts.start })
    }

    /// Returns true if it has not ended.
    pub fn is_there(&self) -> bool {
        self.is_in(stat)
    }

    /// Returns true if it has not ended; `proc` reads what [`stat`] does.
    pub fn is_in(&self, proc: impl Fn(i32, i32) -> Option<String>) -> bool {
        Self::look_in(proc, self.pid, self.tid).as_ref() == Some(self)
    }

    /// Performs a system call on the thread by its number.
    pub(crate) fn act<T>(&self, call: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
        self.act_in(stat, call)
    }

    /// Like [`Self::act`]; `proc` reads what [`stat`] does. The thread's existence is checked before, and
    /// again afterwards, because a system call takes a number: if the thread ended meanwhile, the call counts
    /// as failed.
    fn act_in<T>(
        &self,
        proc: impl Fn(i32, i32) -> Option<String>,
        call: impl FnOnce(i32) -> io::Result<T>,
    ) -> io::Result<T> {
        let ended = || io::Error::from_raw_os_error(libc::ESRCH);
        if !self.is_in(&proc) {
            return Err(ended());
        }
        let done = call(self.tid);
        if self.is_in(&proc) { done } else { Err(ended()) }
    }

    /// CPU that it ran on last.
    pub(crate) fn last_cpu(&self) -> Option<u32> {
        let text = stat(self.pid, self.tid)?;
        Facts::read(&text).filter(|facts| facts.start == self.start).map(|facts| facts.cpu)
    }
}

#[cfg(test)]
mod tests;
