//! `veth:NAME`: a veth pair. One end belongs to the kernel router; the other end has this name on the host, or in a named
//! namespace (`netns`), and may have a queueing discipline (`qdisc`), in which frames wait for the router.

use std::path::Path;

use kernel_router::{Origin, PeerNamespace as At, Queue, QueueKind};

use crate::attach::interface;
use crate::interfaces;
use crate::{
    AttachmentProperties, Finding, KernelUse, Key, Keywords, Kind, MissingRequirement, NicRequirements,
    Place, State, Takes, lack,
};

/// Key: the namespace of the other end.
pub(crate) const NETNS: &str = "netns";
/// Key: the queueing discipline of the other end.
const QDISC: &str = "qdisc";
/// Key: what that holds at most.
const LIMIT: &str = "qdisc_limit";
/// Limit without that key: frames, as many as an interface queues by default; octets of 1000 frames of full size.
const FRAMES: u32 = 1000;
const OCTETS: u32 = 1_514_000;
/// Largest limit, in frames or octets.
const MOST: u32 = 1 << 30;

const QDISCS: Keywords<()> = Keywords {
    noun: ("queueing discipline", "disciplines"),
    now: &[(QueueKind::Pfifo.name(), ()), (QueueKind::Bfifo.name(), ()), (QueueKind::FqCodel.name(), ())],
    later: &[],
};

/// Directory of named namespaces (ip-netns(8)).
const NAMED: &str = "/run/netns";

pub(crate) const KIND: Kind = Kind {
    keys: &[
        Key {
            verb: "in ",
            ..Key::new(
                NETNS,
                Takes::Text("\"west\""),
                ("a name of ip netns", "the host"),
                "namespace of the other end of a veth:",
            )
        },
        Key {
            in_place: Some("what waits in the former one"),
            ..Key::new(
                QDISC,
                Takes::Word(QDISCS),
                ("pfifo, bfifo, fq_codel", "none"),
                "queueing discipline of the other end of a veth:, in which frames wait for the router",
            )
        },
        Key {
            verb: "limit ",
            in_place: Some("what a fq_codel holds beyond it"),
            with: Some((
                QDISC,
                "it says what a queueing discipline holds; add qdisc = \"pfifo\", or remove it",
            )),
            ..Key::new(
                LIMIT,
                Takes::Number(1..=MOST),
                ("1 to 1073741824", "1000; bfifo 1514000"),
                "what that holds at most: frames, of a bfifo octets",
            )
        },
    ],
    read: interface,
    // Interfaces in different namespaces may have the same name.
    traits: |attach| AttachmentProperties {
        is_common: attach.key(NETNS).is_some(),
        changes_interfaces: true,
        is_made: true,
        ..AttachmentProperties::default()
    },
    kernel: Some(KernelUse { look, origin, open: None, has_napi: true, needs_tun: false }),
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

impl NicRequirements {
    /// Returns the queueing discipline that the other end of its veth pair should have, if any.
    pub fn queue(&self) -> Option<Queue> {
        let kind = self.attach.key(QDISC).and_then(QueueKind::named)?;
        let default = if kind == QueueKind::Bfifo { OCTETS } else { FRAMES };
        let limit = self.attach.key(LIMIT).and_then(|limit| limit.parse().ok()).unwrap_or(default);
        Some(Queue { kind, limit })
    }
}
