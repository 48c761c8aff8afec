//! Processes, from /proc.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

mod search;

/// Returns the threads of a process by ID, with their names (of which the kernel keeps 15 octets).
pub fn threads_of(pid: u32) -> Result<BTreeMap<u32, String>> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).with_context(|| format!("no process {pid}"))?;
    let named = |id: u32| {
        // A thread that has just ended has no name.
        let name = fs::read_to_string(format!("{folder}/{id}/comm")).ok()?;
        Some((id, name.trim_end_matches('\n').to_owned()))
    };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(ids.filter_map(named).collect())
}

/// Returns true if each thread of these processes sleeps: none runs, waits for a CPU, or is within a call of the kernel that
/// cannot be interrupted.
pub(crate) fn all_sleep(processes: impl IntoIterator<Item = u32>) -> bool {
    processes.into_iter().all(|process| {
        let threads = threads_of(process).unwrap_or_default();
        threads.keys().all(|thread| !matches!(state_of(process, *thread), Some('R' | 'D')))
    })
}

/// State of a thread, as the kernel's letter; none if it has ended.
fn state_of(process: u32, thread: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok()?;
    // The name, in brackets, may contain any character.
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// One process, as it was when examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u32,
    /// Name of its main thread.
    pub name: String,
    /// Its command line.
    pub words: Vec<String>,
}

impl Process {
    /// Examines it; `None` if there is none, or if it is a zombie.
    pub fn look(id: u32) -> Option<Self> {
        let words = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let name = fs::read_to_string(format!("/proc/{id}/comm")).ok()?;
        (!words.is_empty()).then_some(())?;
        let text = String::from_utf8_lossy(words.strip_suffix(&[0]).unwrap_or(&words)).into_owned();
        let words = text.split('\0').map(str::to_owned).collect();
        Some(Self { id, name: name.trim_end().to_owned(), words })
    }

    /// Path of its program; for one that exists only in memory, `/memfd:NAME (deleted)`.
    pub fn program(&self) -> PathBuf {
        fs::read_link(format!("/proc/{}/exe", self.id)).unwrap_or_default()
    }

    /// Number of its open descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.id));
        Ok(entries.with_context(|| format!("no process {}", self.id))?.count())
    }

    /// Memory of the process.
    pub fn memory(&self) -> Result<Memory> {
        let path = format!("/proc/{}/smaps_rollup", self.id);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let kib = |key: &str| {
            let line =
                text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"));
            Ok::<u64, anyhow::Error>(line?.trim().trim_end_matches(" kB").parse()?)
        };
        Ok(Memory { resident: kib("Rss:")?, share: kib("Pss:")?, anonymous: kib("Anonymous:")? })
    }
}

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident memory (RSS).
    pub resident: u64,
    /// Resident memory, with shared pages in proportion (PSS).
    pub share: u64,
    /// Private memory without a file: heap and stacks.
    pub anonymous: u64,
}

/// Returns the running children of a process, the eldest first.
pub fn children_of(pid: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let mut ids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    ids.retain(|id| parent_of(*id) == Some(pid));
    ids.sort_unstable();
    ids.into_iter().filter_map(Process::look).collect()
}

/// Returns the running descendants of a process, each before its own children.
pub fn descendants_of(pid: u32) -> Vec<Process> {
    let mut found = children_of(pid);
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let more = children_of(process.id);
        found.extend(more);
        next += 1;
    }
    found
}

pub(crate) fn parent_of(id: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may contain any character.
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
