//! `ovs:BR`: a TAP in a bridge of Open vSwitch; for a kernel router an internal port of that bridge, an interface that moves into the
//! router's namespace.

use std::os::fd::BorrowedFd;

use anyhow::Result;
use kernel_router::Origin;
use serde_json::Value;
use uplink::{Undo, ovs};

use crate::attach::interface;
use crate::link::{self, Side, made, serve};
use crate::{
    DataPlaneChange, Finding, HostResource, KernelUse, Kind, MissingRequirement, NicRequirements, Place,
    State, Watched, Work, lack,
};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: link::in_a_bridge,
    undo: |wanted| Some(Undo::of_ovs_port(&wanted.link_name())),
    kernel: Some(KernelUse {
        look: look_in_kernel,
        origin: |wanted| Origin::Moved { link: wanted.link_name() },
        open: Some(open_in_kernel),
        has_napi: false,
        needs_tun: false,
    }),
    ..Kind::plain("ovs", Some("BRIDGE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    looked(wanted, "makes a TAP in the bridge of Open vSwitch")
}

fn look_in_kernel(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    looked(wanted, "makes a port of the bridge of Open vSwitch, which moves into the router's namespace")
}

fn looked(wanted: &NicRequirements, made: &str) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    let served = ovs::is_served(&wanted.link_name(), name).map_err(|error| lack(error.to_string()))?;
    Ok(if served {
        (State::Ok, made.to_owned())
    } else {
        let what = "nobody serves it: start ovs-vswitchd, and load the module openvswitch or use datapath_type=netdev";
        (State::No, format!("Open vSwitch knows {name} and {what}"))
    })
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let tap = ovs::open(&wanted.link_name(), wanted.attach.name(), &link::config(wanted));
    made(tap, wanted, Side::Host)
}

/// Opens an internal port that stays down until it is in the router's namespace. It has the NIC's address and MTU from the beginning:
/// Open vSwitch does not look for them there, and LXC sets none.
fn open_in_kernel(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let port = ovs::open_internal(&wanted.link_name(), wanted.attach.name(), (wanted.mac, wanted.mtu))?;
    Ok(Box::new(Internal { _port: port }))
}

/// An internal port, which Open vSwitch serves.
#[derive(Debug)]
struct Internal {
    _port: ovs::InternalPort,
}

impl HostResource for Internal {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (Value::Null, Vec::new())
    }

    /// The kernel router has it, and changes it.
    fn resize(&self, _: &NicRequirements, _: &NicRequirements) -> Option<Work> {
        None
    }

    fn turn(&mut self, _: DataPlaneChange) -> Result<()> {
        Ok(())
    }

    /// It is in the router's namespace, and the kernel router reports if it is missing there.
    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }
}
