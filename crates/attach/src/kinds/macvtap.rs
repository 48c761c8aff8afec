//! `macvtap:IF`: a station of its own on an interface of the host.

use std::fs;
use std::path::Path;

use anyhow::Result;
use uplink::macvtap::{self, Mode};
use uplink::{TapConfig, Undo};

use crate::attach::interface;
use crate::interfaces::{self, if_up, is_known};
use crate::link::{self, Side, made, serve};
use crate::macvlan_mode::{key, mode, shown};
use crate::{
    AttachmentProperties, Finding, HostResource, Kind, MissingRequirement, NicRequirements, Place, State,
    lack,
};

/// Macvtap mode: how the macvtaps of one interface reach each other.
const MODE: &str = "macvtap_mode";

pub(crate) const KIND: Kind = Kind {
    keys: &[key(MODE, "macvtap mode", "how macvtaps of one interface reach each other")],
    read: interface,
    traits: |attach| AttachmentProperties {
        is_common: mode(attach, MODE) != Mode::Passthru,
        is_on_interface: true,
        ..link::traits()
    },
    undo: |wanted| Some(Undo::of_macvtap(&wanted.link_name())),
    ..Kind::plain("macvtap", Some("INTERFACE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    is_known(name).and_then(|()| interfaces::check_lower("macvtap", name, wanted.mtu)).map_err(lack)?;
    if !has_macvtap() {
        let what = "this kernel has no macvtap (CONFIG_MACVTAP): use tap: or bridge:";
        return Ok((State::No, what.to_owned()));
    }
    let is = shown(mode(&wanted.attach, MODE), name);
    Ok(if_up(name, &format!("{is}; the kernel spreads frames by its own hash")))
}

/// Returns true if the kernel has the driver, or a module with it.
fn has_macvtap() -> bool {
    if Path::new("/sys/class/macvtap").exists() {
        return true;
    }
    let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") else { return false };
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let modules = fs::read_to_string(format!("/lib/modules/{}/{list}", release.trim()));
        modules.is_ok_and(|modules| modules.contains("/macvtap.ko"))
    })
}

fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let mode = mode(&wanted.attach, MODE);
    let config = TapConfig { mac: Some(wanted.mac), ..link::config(wanted) };
    // In mode passthru it has the address of the interface.
    let side = Side::Below { has_mac: mode != Mode::Passthru };
    made(macvtap::open(&wanted.link_name(), (wanted.attach.name(), mode), &config), wanted, side)
}
