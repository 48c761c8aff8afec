//! `ovs:BR`: a TAP in a bridge of Open vSwitch.

use anyhow::Result;
use uplink::{Undo, ovs};

use crate::attach::interface;
use crate::link::{self, Side, made, serve};
use crate::{Finding, HostResource, Kind, MissingRequirement, NicRequirements, Place, State, lack};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: link::in_a_bridge,
    undo: |wanted| Some(Undo::of_ovs_port(&wanted.link_name())),
    ..Kind::plain("ovs", Some("BRIDGE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    let served = ovs::is_served(&wanted.link_name(), name).map_err(|error| lack(error.to_string()))?;
    Ok(if served {
        (State::Ok, "makes a TAP in the bridge of Open vSwitch".to_owned())
    } else {
        let what = "nobody serves it: start ovs-vswitchd, and load the module openvswitch or use datapath_type=netdev";
        (State::No, format!("Open vSwitch knows {name} and {what}"))
    })
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let tap = ovs::open(&wanted.link_name(), wanted.attach.name(), &link::config(wanted));
    made(tap, wanted, Side::Host)
}
