//! `tap:NAME`: a TAP of the host with this name: the existing persistent device, or else a new one.

use anyhow::Result;
use uplink::{Ownership, Tap, TapConfig};

use crate::attach::interface;
use crate::interfaces::{self, Is};
use crate::kinds::veth;
use crate::link::{self, Side, made, serve};
use crate::{
    AttachmentProperties, Finding, HostResource, KernelUse, Kind, MissingRequirement, NicRequirements, Place,
    State, lack,
};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: |attach| AttachmentProperties { is_common: false, ..link::in_a_bridge(attach) },
    counts: link::COUNTS,
    // The other end of the pair is an interface of that name on the host, as a TAP would be.
    kernel: Some(KernelUse {
        look: veth::look,
        origin: |wanted| veth::pair(wanted.attach.name(), None),
        open: None,
        has_napi: true,
        needs_tun: false,
    }),
    ..Kind::plain("tap", Some("INTERFACE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    match interfaces::kind(name) {
        None => Ok((State::Ok, "makes the TAP".to_owned())),
        Some(Is::Tap) => {
            interfaces::tap(name, wanted.queues).map_err(lack)?;
            Ok((State::Ok, "joins the TAP that is there, if nobody else has it open".to_owned()))
        }
        Some(_) => Err(lack(format!("interface {name:?} exists and is not a TAP; choose another name"))),
    }
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let config = TapConfig { ownership: Ownership::NewOrExisting, ..link::config(wanted) };
    made(Tap::open(wanted.attach.name(), &config), wanted, Side::Host)
}
