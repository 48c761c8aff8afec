//! `link:IF`: an interface of the host that is moved into the namespace of a kernel router, and returned when the router
//! ends.

use kernel_router::Origin;

use crate::attach::interface;
use crate::interfaces::{self, is_known};
use crate::{
    AttachmentProperties, Finding, KernelUse, Kind, MissingRequirement, NicRequirements, Place, State, lack,
};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: |_| AttachmentProperties {
        changes_interfaces: true,
        is_on_interface: true,
        is_moved: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: true, needs_tun: false }),
    ..Kind::plain("link", Some("INTERFACE"), Place::Kernel)
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    is_known(name).and_then(|()| interfaces::movable(name)).map_err(lack)?;
    Ok((
        State::Ok,
        format!("moves {name} into the router's namespace, without its addresses, and back at the end"),
    ))
}

fn origin(wanted: &NicRequirements) -> Origin {
    Origin::Moved { link: wanted.attach.name().to_owned() }
}
