//! TAP in a bridge of Open vSwitch, added by `ovs-vsctl`: to its datapath in the kernel, or to that in its
//! own process (`datapath_type=netdev`), which reads the TAP by a packet socket. `ovs-vsctl` finds the
//! database by its default path or by OVS_RUNDIR. An internal port is an interface that Open vSwitch makes
//! itself; it may be moved into another network namespace.
//!
//! The port is recorded in that database and stays there until it is deleted: see [`crate::Undo`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use port::Offloads;
use rustix::event::{EventfdFlags, eventfd};

use crate::membership::Membership;
use crate::undo::{Undo, UndoGuard};
use crate::{Error, Mac, Tap, TapConfig};

const PROGRAM: &str = "ovs-vsctl";
/// Time limit for Open vSwitch in seconds. If it answers at all, it usually does so within a second; but to add or remove a port it waits for
/// grace periods of the kernel, each of which takes seconds on a busy host.
const PATIENCE: &str = "--timeout=30";
/// Marks a TAP as ours in the database.
const MARK: &str = "external_ids:ringroad=tap";
/// Marks an internal port as ours.
const INTERNAL: &str = "external_ids:ringroad=internal";

/// Descriptors kept in reserve: more than are needed to run [`PROGRAM`] with its input and two pipes.
const KEPT: usize = 8;
/// Reserve for the removal of ports, which must be possible when no other descriptor is left.
static RESERVE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());
/// Names of the internal ports that this process has: none of them is a remainder that another one may replace.
static HELD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// True once Open vSwitch did not follow the removal of a port: it is not waited for again until it has
/// followed an addition, since it may have ended.
static IS_LATE: AtomicBool = AtomicBool::new(false);

/// Creates the TAP `name` and adds it to `bridge`. It is removed from the bridge when the returned device is
/// dropped, or by its [`Undo`].
///
/// # Errors
/// One line: Open vSwitch is missing or does not answer, it has no such bridge, it cannot reach the TAP, or
/// the name is taken, also by an internal port that this process has. Nothing is left behind.
pub fn open(name: &str, bridge: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    if held().contains(name) {
        return Err(Error::InUse { name: name.to_owned() });
    }
    let datapath = datapath(name, bridge)?;
    forget(name);
    fill(&mut reserve()).map_err(|e| Error::system("making an event descriptor", e.into()))?;
    let mut tap = Tap::open(name, config)?;
    let undo = Undo::of_ovs_port(name).armed();
    add(name, bridge, &[MARK])?;
    if datapath == "netdev" {
        // Its packet socket carries frames as they are, without offload metadata, and has no room for large
        // ones.
        tap.limit(Offloads::NONE);
    }
    Ok(tap.undone_by(undo).member_of(Membership::in_open_vswitch(name, bridge)))
}

/// An internal port of a bridge, which is removed when this is dropped.
#[derive(Debug)]
pub struct InternalPort {
    _undo: UndoGuard,
    /// Dropped last: until the port is removed, no other one can have its name.
    _name: HeldName,
}

/// A name in [`HELD`].
#[derive(Debug)]
struct HeldName(String);

impl HeldName {
    fn take(name: &str) -> Result<Self, Error> {
        if held().insert(name.to_owned()) {
            Ok(Self(name.to_owned()))
        } else {
            Err(Error::InUse { name: name.to_owned() })
        }
    }
}

impl Drop for HeldName {
    fn drop(&mut self) {
        held().remove(&self.0);
    }
}

fn held() -> MutexGuard<'static, BTreeSet<String>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates the internal port `name` of `bridge`, an interface with this Ethernet address and MTU that is down. It is removed when the
/// returned value is dropped, or by its [`Undo`], in whatever namespace it is then.
///
/// # Errors
/// As those of [`open`].
pub fn open_internal(name: &str, bridge: &str, (mac, mtu): (Mac, u32)) -> Result<InternalPort, Error> {
    let held = HeldName::take(name)?;
    datapath(name, bridge)?;
    forget(name);
    fill(&mut reserve()).map_err(|e| Error::system("making an event descriptor", e.into()))?;
    let undo = Undo::of_ovs_port(name).armed();
    let mac = mac.map(|octet| format!("{octet:02x}")).join(":");
    // A value with colons is quoted, for the reader of the database's language.
    let (mac, mtu) = (format!("mac=\"{mac}\""), format!("mtu_request={mtu}"));
    add(name, bridge, &["type=internal", &mac, &mtu, INTERNAL])?;
    Ok(InternalPort { _undo: undo, _name: held })
}

/// Returns true if the bridge is served by a running switch: its own interface then has a port number. Takes
/// three times 30 seconds at most, and changes nothing.
///
/// # Errors
/// One line: Open vSwitch is missing or does not answer, or it has no such bridge.
pub fn is_served(name: &str, bridge: &str) -> Result<bool, Error> {
    datapath(name, bridge)?;
    Ok(ask(&["get", "Interface", bridge, "ofport"]).is_ok_and(|port| port.parse::<u32>().is_ok()))
}

/// Adds an existing TAP again if it was removed; returns true if it was.
pub(crate) fn rejoin(name: &str, bridge: &str) -> Result<bool, Error> {
    datapath(name, bridge)?;
    if ask(&["port-to-br", name]).is_ok_and(|found| found == bridge) && reached(name).is_ok() {
        return Ok(false);
    }
    forget(name);
    add(name, bridge, &[MARK]).map(|()| true)
}

fn refused(name: &str, bridge: &str, why: String) -> Error {
    Error::Refused { what: format!("cannot put `{name}` into the bridge `{bridge}` of Open vSwitch"), why }
}

/// Returns the datapath type of a bridge: `netdev`, or another word for the kernel's.
fn datapath(name: &str, bridge: &str) -> Result<String, Error> {
    let there = ask(&["br-exists", bridge]).and_then(|_| ask(&["get", "Bridge", bridge, "datapath_type"]));
    there.map_err(|wrong| match wrong {
        // The program reports this by its exit status, without a message.
        Failure::Status(2) => {
            let why = format!("there is no such bridge; make it with `ovs-vsctl add-br {bridge}`");
            refused(name, bridge, why)
        }
        other => refused(name, bridge, other.sentence()),
    })
}

fn add(name: &str, bridge: &str, settings: &[&str]) -> Result<(), Error> {
    let port = [&["add-port", bridge, name, "--", "set", "Interface", name][..], settings].concat();
    let added = ask(&port).map_err(Failure::sentence).and_then(|_| reached(name));
    IS_LATE.fetch_and(added.is_err(), Ordering::Relaxed);
    added.map_err(|why| refused(name, bridge, why))
}

/// Checks that Open vSwitch has found the interface: it records the port in any case.
fn reached(name: &str) -> Result<(), String> {
    let port = ask(&["get", "Interface", name, "ofport"]).map_err(|e| e.sentence())?;
    if port != "-1" {
        return Ok(());
    }
    let error = ask(&["get", "Interface", name, "error"]).unwrap_or_default();
    Err(format!(
        "it cannot reach the interface ({}); does it run in the same network namespace?",
        error.trim_matches('"')
    ))
}

/// Removes the port from any bridge, if it is marked as ours. Open vSwitch itself may have ended: the
/// database suffices. An internal port is gone when Open vSwitch has followed, for which it has its time once.
pub(crate) fn forget(name: &str) {
    reserve().clear();
    let mark = ask(&["--if-exists", "get", "Interface", name, "external_ids:ringroad"]);
    match mark.as_deref() {
        Ok("tap") => drop(ask(&["--no-wait", "--if-exists", "del-port", name])),
        Ok("internal") => forget_internal(name),
        _ => {}
    }
    // If that is impossible now, it is done before the next port is added.
    let _ = fill(&mut reserve());
}

fn forget_internal(name: &str) {
    // The database has the removal in any case before it is waited for.
    let gone = ask(&removal(name, IS_LATE.load(Ordering::Relaxed)));
    IS_LATE.fetch_or(gone.is_err(), Ordering::Relaxed);
}

/// Arguments that remove a port, and wait for that unless Open vSwitch was late before.
fn removal(name: &str, was_late: bool) -> Vec<&str> {
    let wait: &[&str] = if was_late { &["--no-wait"] } else { &[] };
    [wait, &["--if-exists", "del-port", name][..]].concat()
}

fn reserve() -> MutexGuard<'static, Vec<OwnedFd>> {
    RESERVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill(reserve: &mut Vec<OwnedFd>) -> rustix::io::Result<()> {
    while reserve.len() < KEPT {
        reserve.push(eventfd(0, EventfdFlags::CLOEXEC)?);
    }
    Ok(())
}

/// Reason why `ovs-vsctl` failed.
enum Failure {
    /// It cannot be started.
    Absent(io::Error),
    /// It exited with this status, without a message.
    Status(i32),
    /// Its last message.
    Said(String),
}

impl Failure {
    fn sentence(self) -> String {
        match self {
            Self::Absent(error) if error.kind() == io::ErrorKind::NotFound => {
                format!("there is no `{PROGRAM}`; install Open vSwitch (openvswitch-switch)")
            }
            Self::Absent(error) => format!("cannot start `{PROGRAM}`: {error}"),
            Self::Status(status) => format!(
                "`{PROGRAM}` ended with status {status} and no word; does ovs-vswitchd run? (OVS_RUNDIR says where)"
            ),
            Self::Said(words) => format!("`{PROGRAM}` says: {words}"),
        }
    }
}

/// Runs `ovs-vsctl`; its answer is one line.
fn ask(arguments: &[&str]) -> Result<String, Failure> {
    let output = command(arguments).output().map_err(Failure::Absent)?;
    heard(&output)
}

/// The program with its time limit, which it keeps itself.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg(PATIENCE).args(arguments.iter().map(OsStr::new)).stdin(Stdio::null());
    command
}

fn heard(output: &Output) -> Result<String, Failure> {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    match text(&output.stderr).lines().last().filter(|line| !line.is_empty()) {
        Some(line) => Err(Failure::Said(line.to_owned())),
        None => Err(Failure::Status(output.status.code().unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn arguments(command: &Command) -> Vec<&str> {
        command.get_args().map(|argument| argument.to_str().expect("text")).collect()
    }

    #[test]
    fn each_request_has_30_seconds_and_a_removal_after_a_late_one_is_not_waited_for() {
        let first = command(&removal("rr-lan", false));
        assert_eq!(arguments(&first), ["--timeout=30", "--if-exists", "del-port", "rr-lan"]);
        let next = command(&removal("rr-lan", true));
        assert_eq!(arguments(&next), ["--timeout=30", "--no-wait", "--if-exists", "del-port", "rr-lan"]);
    }

    #[test]
    fn a_request_that_is_not_followed_in_time_is_refused_in_one_line() {
        // It ends itself by SIGALRM, and says so or not.
        let ended = |stderr: &[u8]| {
            let (status, stderr) = (ExitStatus::from_raw(14), stderr.to_vec());
            heard(&Output { status, stdout: Vec::new(), stderr }).expect_err("it was late").sentence()
        };
        let said = "2026-11-27T10:00:00Z|1|fatal_signal|WARN|terminating with signal 14 (Alarm clock)";
        assert_eq!(ended(format!("{said}\n").as_bytes()), format!("`ovs-vsctl` says: {said}"));
        let silent = ended(b"");
        assert!(silent.contains("does ovs-vswitchd run?") && silent.lines().count() == 1, "{silent}");
    }
}
