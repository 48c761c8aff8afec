//! `bridge:BR`: a TAP in a bridge of the host's kernel.

use anyhow::Result;
use uplink::bridge;

use crate::attach::interface;
use crate::interfaces::{self, Is, if_up};
use crate::kinds::veth;
use crate::link::{self, Side, made, serve};
use crate::{Finding, HostResource, KernelUse, Kind, MissingRequirement, NicRequirements, Place, lack};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: link::in_a_bridge,
    kernel: Some(KernelUse {
        look: look_in_kernel,
        origin: |wanted| veth::pair(&wanted.link_name(), Some(wanted.attach.name())),
        open: None,
        has_napi: true,
        needs_tun: false,
    }),
    ..Kind::plain("bridge", Some("INTERFACE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    looked(wanted, "makes a TAP in the bridge")
}

fn look_in_kernel(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    looked(wanted, "creates a veth pair, one end of which is in the bridge")
}

fn looked(wanted: &NicRequirements, made: &str) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    match interfaces::kind(name) {
        Some(Is::Bridge) => Ok(if_up(name, made)),
        Some(_) => Err(lack(format!("interface {name:?} exists and is not a bridge; name a bridge"))),
        None => Err(lack(format!("there is no bridge {name:?}; make it: ip link add {name} type bridge"))),
    }
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let tap = bridge::open(&wanted.link_name(), wanted.attach.name(), &link::config(wanted));
    made(tap, wanted, Side::Host)
}
