//! A thread as the kernel has it, told apart from another one that gets its number when it has ended.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// The parent of all threads of the kernel.
const KTHREADD: i32 = 2;

/// A thread. Numbers are used again; the process, the number and the moment of its start together are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The process that it is of, as the one sees it that places it; of a thread of the kernel its own number.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// When it was started, in clock ticks since the host was (proc_pid_stat(5), field 22).
    start: u64,
}

/// What `/proc/PID/task/TID/stat` says; none where there is no such thread.
pub fn stat(pid: i32, tid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()
}

/// What is looked at in such a text.
struct Facts<'t> {
    name: &'t str,
    parent: i32,
    start: u64,
    cpu: u32,
}

impl<'t> Facts<'t> {
    /// `pid (name) state parent …`: a name may have anything in it, and ends with the last bracket. Fields are counted from 1.
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

impl Task {
    /// The thread of a process that has this number now.
    pub fn look(pid: i32, tid: i32) -> Option<Self> {
        Self::look_in(stat, pid, tid)
    }

    /// The thread that has this number now, where `proc` says what [`stat`] does.
    pub fn look_in(proc: impl Fn(i32, i32) -> Option<String>, pid: i32, tid: i32) -> Option<Self> {
        let text = proc(pid, tid)?;
        Some(Self { pid, tid, start: Facts::read(&text)?.start })
    }

    /// The thread of the kernel that has this number and this name now, if it was not there before `owner`, for whom it works.
    pub fn of_kernel(
        proc: impl Fn(i32, i32) -> Option<String>,
        tid: i32,
        name: &str,
        owner: &Self,
    ) -> Option<Self> {
        let text = proc(tid, tid)?;
        let facts = Facts::read(&text)?;
        let is_it = facts.parent == KTHREADD && facts.name == name && facts.start >= owner.start;
        is_it.then_some(Self { pid: tid, tid, start: facts.start })
    }

    /// Whether it has not ended.
    pub fn is_there(&self) -> bool {
        self.is_in(stat)
    }

    /// Whether it has not ended, where `proc` says what [`stat`] does.
    pub fn is_in(&self, proc: impl Fn(i32, i32) -> Option<String>) -> bool {
        Self::look_in(proc, self.pid, self.tid).as_ref() == Some(self)
    }

    /// Does something to it by its number.
    pub(crate) fn act<T>(&self, call: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
        self.act_in(stat, call)
    }

    /// Does something to it, where `proc` says what [`stat`] does. Whether it is still there is asked before; and after, because a
    /// call takes a number: what was done to one that ended meanwhile is not taken for done.
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

    /// The CPU that it was on last.
    pub(crate) fn last_cpu(&self) -> Option<u32> {
        let text = stat(self.pid, self.tid)?;
        Facts::read(&text).filter(|facts| facts.start == self.start).map(|facts| facts.cpu)
    }
}

#[cfg(test)]
mod tests;
