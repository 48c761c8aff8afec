//! Kernel threads that do the receive work of interfaces (threaded NAPI).
//!
//! The generic netlink family `netdev` reports their PIDs (Linux 6.8), which are numbers of the initial PID namespace: the only one
//! in which kernel threads are visible. The kernel names such a thread `napi/INTERFACE-NUMBER`, after the interface's name and the
//! number of the NAPI instance at the time of its creation. Both may change while the thread lives: an interface that was down is
//! given another number. On kernels before 6.8 a thread is found by its name, if no other interface of the host has the same one.

use std::fs;
use std::io;

use netlink::{Generic, Napi};
use rustix::io::Errno;

use crate::executor::OwnNamespace;
use crate::leftover::is_errno;

/// A kernel thread that does the receive work of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NapiThread {
    /// Name of the interface.
    pub interface: String,
    /// Number of the NAPI instance.
    pub napi: u32,
    /// Thread ID, in the PID namespace of this process.
    pub tid: i32,
    /// Name, as `top -H` shows it.
    pub name: String,
}

/// Returns the threads of these interfaces. Threads that the PID namespace of this process hides are left out.
pub(crate) fn threads(own: &OwnNamespace, interfaces: &[&str]) -> io::Result<Vec<NapiThread>> {
    if interfaces.is_empty() {
        return Ok(Vec::new());
    }
    let mut all = None;
    let generic = own.namespace.within(Generic::open).map_err(io::Error::other)??;
    let mut found = Vec::new();
    for interface in interfaces {
        match own.index(interface).and_then(|index| generic.napis(index)) {
            Ok(napis) => found.extend(by_pid(interface, &napis, called)),
            Err(e) if is_errno(&e, Errno::NOENT) => found.extend(by_name(interface, known(&mut all)?)?),
            // The interface has been deleted, and its threads with it.
            Err(e) if is_errno(&e, Errno::NODEV) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(found)
}

/// IDs and names of all NAPI threads of the host.
fn named() -> io::Result<Vec<(i32, String)>> {
    let numbers =
        fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A thread may exit between the listing and the read.
    let names = numbers.filter_map(|tid: i32| Some((tid, called(tid).filter(|name| does_receive(name))?)));
    Ok(names.collect())
}

/// Returns the result of [`named`], which runs on first use only: the host may have thousands of processes.
fn known(all: &mut Option<Vec<(i32, String)>>) -> io::Result<&[(i32, String)]> {
    if all.is_none() {
        *all = Some(named()?);
    }
    Ok(all.as_deref().unwrap_or_default())
}

/// Returns the name of a thread, by its ID in the PID namespace of this process.
fn called(tid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn does_receive(name: &str) -> bool {
    name.starts_with("napi/")
}

/// Returns the threads of these NAPI instances by the PIDs that the kernel reports. A thread that has ended, or that the PID namespace
/// of this process hides, is left out.
pub(crate) fn by_pid(
    interface: &str,
    napis: &[Napi],
    called: impl Fn(i32) -> Option<String>,
) -> Vec<NapiThread> {
    let of = |napi: &Napi| {
        let tid = i32::try_from(napi.thread?).ok()?;
        // In another PID namespace the number denotes another process, or none.
        let name = called(tid).filter(|name| does_receive(name))?;
        Some(NapiThread { interface: interface.to_owned(), napi: napi.id, tid, name })
    };
    napis.iter().filter_map(of).collect()
}

/// Finds the threads that are named after an interface.
///
/// # Errors
/// `Unsupported`: there are several, and they cannot be told apart.
pub(crate) fn by_name(interface: &str, all: &[(i32, String)]) -> io::Result<Vec<NapiThread>> {
    let threads = all.iter().filter_map(|(tid, name)| {
        let (called, _) = name.strip_prefix("napi/")?.rsplit_once('-')?;
        let napi = number(name).filter(|_| called == interface)?;
        Some(NapiThread { interface: interface.to_owned(), napi, tid: *tid, name: name.clone() })
    });
    let threads: Vec<NapiThread> = threads.collect();
    if threads.len() > 1 {
        let why = format!(
            "there are {} threads named napi/{interface}-…, which only Linux 6.8 and later can tell apart",
            threads.len()
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(threads)
}

/// Parses the number of the NAPI instance in a thread's name.
fn number(name: &str) -> Option<u32> {
    name.rsplit_once('-')?.1.parse().ok()
}
