//! `veth:NAME`: a veth pair. One end belongs to the kernel router; the other end has this name on the host, or in a named
//! namespace (`netns`).

use std::path::Path;

use kernel_router::{Origin, PeerNamespace as At};

use crate::attach::interface;
use crate::interfaces;
use crate::{
    AttachmentProperties, Finding, KernelUse, Key, Kind, MissingRequirement, NicRequirements, Place, State,
    Takes, lack,
};

/// Key: the namespace of the other end.
pub(crate) const NETNS: &str = "netns";
/// Directory of named namespaces (ip-netns(8)).
const NAMED: &str = "/run/netns";

pub(crate) const KIND: Kind = Kind {
    keys: &[Key {
        verb: "in ",
        ..Key::new(
            NETNS,
            Takes::Text("\"west\""),
            ("a name of ip netns", "the host"),
            "namespace of the other end of a veth:",
        )
    }],
    read: interface,
    // Interfaces in different namespaces may have the same name.
    traits: |attach| AttachmentProperties {
        is_common: attach.key(NETNS).is_some(),
        changes_interfaces: true,
        is_made: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: true }),
    ..Kind::plain("veth", Some("INTERFACE"), Place::Kernel)
};

/// Checks that the name behind the colon is available for the other end of a pair.
pub(crate) fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    let Some(netns) = wanted.attach.key(NETNS) else {
        interfaces::is_free(name).map_err(lack)?;
        return Ok((State::Ok, format!("creates a veth pair whose other end is {name} on the host")));
    };
    let of_netns = |what: String| vec![(NETNS, what)];
    netns::check_name(netns)
        .map_err(|why| of_netns(format!("{netns:?} is no name of a namespace: {why}")))?;
    if !Path::new(NAMED).join(netns).exists() {
        return Err(of_netns(format!("there is no namespace {netns:?}; make it: ip netns add {netns}")));
    }
    Ok((State::Ok, format!("creates a veth pair whose other end is {name} in namespace {netns}")))
}

fn origin(wanted: &NicRequirements) -> Origin {
    let at = wanted.attach.key(NETNS).map_or(At::Home, |netns| At::Named(netns.to_owned()));
    Origin::Veth { peer: wanted.attach.name().to_owned(), at, bridge: None }
}

/// Origin of a pair whose other end has this name on the host, optionally in a bridge.
pub(crate) fn pair(peer: &str, bridge: Option<&str>) -> Origin {
    Origin::Veth { peer: peer.to_owned(), at: At::Home, bridge: bridge.map(str::to_owned) }
}
