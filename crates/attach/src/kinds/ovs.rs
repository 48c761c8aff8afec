//! `ovs:BR`: a TAP in a bridge of Open vSwitch.

use std::io;
use std::process::{Command, Stdio};

use anyhow::Result;
use uplink::{Undo, ovs};

use crate::attach::interface;
use crate::link::{self, Side, made, serve};
use crate::{Finding, Kind, Lack, Opened, Place, State, Wanted, lack};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: link::in_a_bridge,
    undo: |wanted| Some(Undo::of_ovs_port(&wanted.link_name())),
    ..Kind::plain("ovs", Some("BRIDGE"), Place::Outside { look, open, serve })
};

/// Whether Open vSwitch can be asked, for five seconds at most, and has a bridge.
fn bridge(name: &str) -> Result<(), String> {
    match ask(&["br-exists", name]) {
        Ok((Some(0), _)) => Ok(()),
        Ok((Some(2), _)) => Err(format!("Open vSwitch has no bridge {name}: ovs-vsctl add-br {name}")),
        Ok(_) => {
            Err("ovs-vsctl does not reach Open vSwitch: start ovsdb-server, or set OVS_RUNDIR".to_owned())
        }
        Err(_) => Err("there is no ovs-vsctl: install openvswitch-switch".to_owned()),
    }
}

/// What Open vSwitch answers: exit code and text.
fn ask(words: &[&str]) -> io::Result<(Option<i32>, String)> {
    let mut command = Command::new("ovs-vsctl");
    command.arg("--timeout=5").args(words).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

fn look(wanted: &Wanted) -> Result<Finding, Vec<Lack>> {
    let name = wanted.attach.name();
    bridge(name).map_err(lack)?;
    // The bridge's own interface has a port number as soon as somebody serves it.
    Ok(match ask(&["get", "Interface", name, "ofport"]) {
        Ok((Some(0), port)) if port.parse::<u32>().is_ok() => {
            (State::Ok, "makes a TAP in the bridge of Open vSwitch".to_owned())
        }
        _ => (
            State::No,
            format!(
                "Open vSwitch knows {name} and nobody serves it: start ovs-vswitchd, and load the module openvswitch \
                 or use datapath_type=netdev"
            ),
        ),
    })
}

fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let tap = ovs::open(&wanted.link_name(), wanted.attach.name(), &link::config(wanted));
    made(tap, wanted, Side::Host)
}
