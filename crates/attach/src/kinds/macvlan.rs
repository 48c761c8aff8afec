//! `macvlan:IF`: a macvlan of a kernel router on an interface of the host.

use kernel_router::{Mode, Origin};

use crate::attach::interface;
use crate::interfaces::{self, if_up, is_known};
use crate::macvlan_mode::{key, mode, shown};
use crate::{
    AttachmentProperties, Finding, KernelUse, Kind, MissingRequirement, NicRequirements, Place, lack,
};

/// Key: mode in which the macvlans of one interface reach each other.
const MODE: &str = "macvlan_mode";

pub(crate) const KIND: Kind = Kind {
    keys: &[key(MODE, "macvlan mode", "how macvlans of one interface reach each other")],
    read: interface,
    traits: |attach| AttachmentProperties {
        is_common: mode(attach, MODE) != Mode::Passthru,
        changes_interfaces: true,
        is_on_interface: true,
        is_made: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: false, needs_tun: false }),
    ..Kind::plain("macvlan", Some("INTERFACE"), Place::Kernel)
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    is_known(name).and_then(|()| interfaces::check_lower("macvlan", name, wanted.mtu)).map_err(lack)?;
    Ok(if_up(name, &shown(mode(&wanted.attach, MODE), name)))
}

fn origin(wanted: &NicRequirements) -> Origin {
    Origin::Macvlan { parent: wanted.attach.name().to_owned(), mode: mode(&wanted.attach, MODE) }
}
