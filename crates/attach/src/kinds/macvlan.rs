//! `macvlan:IF`: a macvlan of a kernel router on an interface of the host.

use kernel_router::{Mode, Origin};

use crate::attach::interface;
use crate::interfaces::{self, if_up, is_known};
use crate::{
    AttachmentProperties, Finding, KernelUse, Key, Keywords, Kind, MissingRequirement, NicRequirements,
    Place, Takes, lack,
};

/// Key: mode in which the macvlans of one interface reach each other.
const MODE: &str = "macvlan_mode";
/// Mode in which a single macvlan takes over the interface.
const PASSTHRU: &str = "passthru";

const MODES: Keywords<()> = Keywords {
    noun: ("macvlan mode", "modes"),
    now: &[("bridge", ()), ("private", ()), ("vepa", ()), (PASSTHRU, ())],
    later: &[],
};

pub(crate) const KIND: Kind = Kind {
    keys: &[Key::new(
        MODE,
        Takes::Word(MODES),
        ("bridge, private, vepa, passthru", "bridge"),
        "how macvlans of one interface reach each other",
    )],
    read: interface,
    traits: |attach| AttachmentProperties {
        is_common: attach.key(MODE) != Some(PASSTHRU),
        changes_interfaces: true,
        is_on_interface: true,
        is_made: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: false }),
    ..Kind::plain("macvlan", Some("INTERFACE"), Place::Kernel)
};

fn mode(wanted: &NicRequirements) -> Mode {
    match wanted.attach.key(MODE) {
        Some("private") => Mode::Private,
        Some("vepa") => Mode::Vepa,
        Some(PASSTHRU) => Mode::Passthru,
        _ => Mode::Bridge,
    }
}

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    is_known(name).and_then(|()| interfaces::check_lower("macvlan", name, wanted.mtu)).map_err(lack)?;
    let is = match mode(wanted) {
        Mode::Passthru => format!("takes {name} over"),
        _ => "an interface beside the host's own, which cannot reach it".to_owned(),
    };
    Ok(if_up(name, &is))
}

fn origin(wanted: &NicRequirements) -> Origin {
    Origin::Macvlan { parent: wanted.attach.name().to_owned(), mode: mode(wanted) }
}
