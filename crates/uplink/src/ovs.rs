//! A TAP that is put into a bridge of Open vSwitch, by `ovs-vsctl`: into its datapath in the kernel, or into the one in its
//! own process (`datapath_type=netdev`), which reads the TAP by a packet socket. Where its database is, the program knows
//! by itself or from OVS_RUNDIR.
//!
//! The port is written down in that database and stays there until it is deleted: see [`crate::Undo`].

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Output, Stdio};

use port::Offloads;

use crate::membership::Membership;
use crate::undo::Undo;
use crate::{Error, Tap, TapConfig};

const PROGRAM: &str = "ovs-vsctl";
/// Seconds that the program waits for Open vSwitch. Where it answers at all, it does within a second.
const PATIENCE: &str = "--timeout=5";
/// What marks a port as ours in the database.
const MARK: &str = "external_ids:ringroad=tap";

/// Makes the TAP `name` and puts it into `bridge`. It is taken out when what is returned is dropped, or by its [`Undo`].
///
/// # Errors
/// One line: Open vSwitch is not there or does not answer, it has no such bridge, it cannot reach the TAP, the name is
/// taken. Nothing is left then.
pub fn open(name: &str, bridge: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    let datapath = datapath(name, bridge)?;
    forget(name);
    let mut tap = Tap::open(name, config)?;
    let undo = Undo::of_ovs_port(name).armed();
    add(name, bridge)?;
    if datapath == "netdev" {
        // Its packet socket shows frames as they are, and has no room for large ones.
        tap.limit(Offloads::NONE);
    }
    Ok(tap.undone_by(undo).member_of(Membership::in_open_vswitch(name, bridge)))
}

/// Whether somebody serves the bridge into which a TAP is to be put: its own interface has a port number as soon as that is so. It takes
/// five seconds at most, and changes nothing.
///
/// # Errors
/// One line: Open vSwitch is not there or does not answer, it has no such bridge.
pub fn is_served(name: &str, bridge: &str) -> Result<bool, Error> {
    datapath(name, bridge)?;
    Ok(ask(&["get", "Interface", bridge, "ofport"]).is_ok_and(|port| port.parse::<u32>().is_ok()))
}

/// Puts a TAP that is there in again, if it is out; true if it was.
pub(crate) fn rejoin(name: &str, bridge: &str) -> Result<bool, Error> {
    datapath(name, bridge)?;
    if ask(&["port-to-br", name]).is_ok_and(|found| found == bridge) && reached(name).is_ok() {
        return Ok(false);
    }
    forget(name);
    add(name, bridge).map(|()| true)
}

fn refused(name: &str, bridge: &str, why: String) -> Error {
    Error::Refused { what: format!("cannot put `{name}` into the bridge `{bridge}` of Open vSwitch"), why }
}

/// Which datapath a bridge has: `netdev`, or another word for the kernel's.
fn datapath(name: &str, bridge: &str) -> Result<String, Error> {
    let there = ask(&["br-exists", bridge]).and_then(|_| ask(&["get", "Bridge", bridge, "datapath_type"]));
    there.map_err(|wrong| match wrong {
        // What the program says with this status, and with no word.
        Failure::Status(2) => {
            let why = format!("there is no such bridge; make it with `ovs-vsctl add-br {bridge}`");
            refused(name, bridge, why)
        }
        other => refused(name, bridge, other.sentence()),
    })
}

fn add(name: &str, bridge: &str) -> Result<(), Error> {
    let port = ["add-port", bridge, name, "--", "set", "Interface", name, MARK];
    let added = ask(&port).map_err(Failure::sentence).and_then(|_| reached(name));
    added.map_err(|why| refused(name, bridge, why))
}

/// Whether Open vSwitch has found the interface: it takes down the port in any case.
fn reached(name: &str) -> Result<(), String> {
    let port = ask(&["get", "Interface", name, "ofport"]).map_err(|e| e.sentence())?;
    if port != "-1" {
        return Ok(());
    }
    let error = ask(&["get", "Interface", name, "error"]).unwrap_or_default();
    Err(format!(
        "it cannot reach the TAP ({}); does it run in the same network namespace?",
        error.trim_matches('"')
    ))
}

/// Takes the port out of whatever bridge it is in, if it is marked as ours. Open vSwitch itself may be gone: then its
/// database is enough.
pub(crate) fn forget(name: &str) {
    if ask(&["--if-exists", "get", "Interface", name, "external_ids:ringroad"])
        .is_ok_and(|mark| mark == "tap")
    {
        drop(ask(&["--no-wait", "--if-exists", "del-port", name]));
    }
}

/// Why the program did not do it.
enum Failure {
    /// It cannot be started.
    Absent(io::Error),
    /// It ended with this status, and no word.
    Status(i32),
    /// What it said last.
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

/// Runs the program; its answer is one line.
fn ask(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new(PROGRAM)
        .arg(PATIENCE)
        .args(arguments.iter().map(OsStr::new))
        .stdin(Stdio::null())
        .output()
        .map_err(Failure::Absent)?;
    heard(&output)
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
