//! Traces that a command may leave behind on a host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::process::parent_of;

/// Depth of the search in the cgroup tree; ours are not deeper.
const CGROUP_DEPTH: usize = 6;

/// Program path of a firmware that runs as a process, from a memory file.
const FIRMWARE: &str = "/memfd:ringroad-firmware (deleted)";

/// Process ID of init, the parent of orphaned processes.
const INIT: u32 = 1;

/// List of links, namespaces, folders, sockets, cgroups, mounts, processes and huge pages at one moment.
///
/// Links are those of the caller's network namespace, cgroups those without threads of another PID namespace; processes are those
/// of the same build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    things: BTreeSet<String>,
}

impl Traces {
    /// Takes the present traces.
    pub fn now() -> Self {
        let mut things = BTreeSet::new();
        things.extend(names("/sys/class/net").map(|name| format!("link {name}")));
        things.extend(names("/run/netns").map(|name| format!("namespace {name}")));
        files("run", Path::new("/run/ringroad"), &mut things);
        cgroups(Path::new("/sys/fs/cgroup"), CGROUP_DEPTH, &mut things);
        things.extend(mounts());
        things.extend(sockets());
        things.extend(processes());
        things.extend(huge_pages());
        Self { things }
    }

    /// Returns traces that were not there before.
    pub fn since(&self, before: &Self) -> Vec<String> {
        self.things.difference(&before.things).cloned().collect()
    }

    /// Waits until no traces are left that were not there before; returns the remaining ones after `within`. (The kernel
    /// removes namespaces, their links and huge pages some time after the last process has left them.)
    pub fn left(before: &Self, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        loop {
            let left = Self::now().since(before);
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Names in a folder; empty if it does not exist.
fn names(folder: impl AsRef<Path>) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Adds all paths below a folder, but not the folder itself, which may stay.
fn files(kind: &str, folder: &Path, things: &mut BTreeSet<String>) {
    for name in names(folder) {
        let path = folder.join(name);
        things.insert(format!("{kind} {}", path.display()));
        if path.is_dir() && !path.is_symlink() {
            files(kind, &path, things);
        }
    }
}

fn cgroups(folder: &Path, depth: usize, things: &mut BTreeSet<String>) {
    for path in folders(folder) {
        if path.to_string_lossy().contains("ringroad") && !is_of_others(&path) {
            things.insert(format!("cgroup {}", path.display()));
        }
        if depth > 1 {
            cgroups(&path, depth - 1, things);
        }
    }
}

/// Returns true if a cgroup is that of a run beside this one: it, or one in it, has threads outside the caller's PID namespace,
/// which the kernel lists as 0.
fn is_of_others(cgroup: &Path) -> bool {
    let lists =
        ["tasks", "cgroup.threads"].map(|name| fs::read_to_string(cgroup.join(name)).unwrap_or_default());
    lists.iter().flat_map(|list| list.lines()).any(|id| id == "0")
        || folders(cgroup).any(|path| is_of_others(&path))
}

fn folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    names(folder).map(move |name| folder.join(name)).filter(|path| path.is_dir() && !path.is_symlink())
}

fn mounts() -> impl Iterator<Item = String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = |line: &&str| line.contains("ringroad") || line.starts_with("hugetlbfs ");
    let lines: Vec<String> = table.lines().filter(ours).map(|line| format!("mount {line}")).collect();
    lines.into_iter()
}

/// Open sockets with a name of ours, in the file system or abstract.
fn sockets() -> impl Iterator<Item = String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = |line: &str| line.split_whitespace().nth(7).map(str::to_owned);
    let ours: Vec<String> = table.lines().filter_map(path).filter(|path| path.contains("ringroad")).collect();
    ours.into_iter().map(|path| format!("socket {path}"))
}

/// Processes of the command and the lab that were built beside the caller's own program (supervisor, cleaner, data plane,
/// demo), the firmware that these run as processes, and orphaned firmware.
fn processes() -> impl Iterator<Item = String> {
    let own = std::env::current_exe().unwrap_or_default();
    let folders: Vec<PathBuf> = own.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    let ids = names("/proc").filter_map(|name| name.parse().ok());
    ids.filter_map(move |id: u32| {
        let program = program(id)?;
        let ours = match kind(&program)? {
            Kind::Command => folders.iter().any(|at| program.starts_with(at)),
            Kind::Firmware => {
                let parent = parent_of(id)?;
                parent == INIT
                    || folders.iter().any(|at| self::program(parent).is_some_and(|it| it.starts_with(at)))
            }
        };
        ours.then(|| format!("process {id} {}", program.display()))
    })
}

enum Kind {
    Command,
    Firmware,
}

fn program(id: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{id}/exe")).ok()
}

fn kind(program: &Path) -> Option<Kind> {
    let name = program.file_name()?;
    if name == "ringroad" || name == "ringroad-lab" {
        return Some(Kind::Command);
    }
    program.starts_with(FIRMWARE).then_some(Kind::Firmware)
}

/// Number of huge pages of each size, and how many of them are free.
fn huge_pages() -> impl Iterator<Item = String> {
    let root = Path::new("/sys/kernel/mm/hugepages");
    names(root).flat_map(move |size| {
        ["nr_hugepages", "free_hugepages"].map(|file| {
            let value = fs::read_to_string(root.join(&size).join(file)).unwrap_or_default();
            format!("{size} {file} {}", value.trim())
        })
    })
}

#[cfg(test)]
mod tests;
