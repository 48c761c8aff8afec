//! Links of the host that belong to NICs: how they are called, how they are to be, and how those that do not go with a
//! descriptor are taken away.

use anyhow::Result;
use config::{Attach, FlowHash, MacvtapMode, Nic, QueueLen, Router, SocketSide};
use port::steer::Hash;
use uplink::{MacvtapConfig, Ownership, Tap, TapConfig, Undo, bridge, macvtap, ovs};

/// The longest name of an interface, in octets.
const LONGEST: usize = 15;

/// Opens the link of a NIC; none where it has none of these kinds.
pub(super) fn open(router: &Router, nic: &Nic) -> Result<Option<Tap>> {
    let tap = open_plain(router, nic)?;
    Ok(match tap {
        Some(tap) if nic.queue_len == QueueLen::Auto => Some(tap.with_wishes()?),
        tap => tap,
    })
}

fn open_plain(router: &Router, nic: &Nic) -> Result<Option<Tap>> {
    let name = name(router, nic);
    Ok(Some(match &nic.attach {
        Attach::Tap(interface) => {
            let config = TapConfig { ownership: Ownership::NewOrExisting, ..tap_config(router, nic) };
            Tap::open(interface, &config)?
        }
        Attach::Bridge(bridge) => bridge::open(&name, bridge, &tap_config(router, nic))?,
        Attach::Ovs(bridge) => ovs::open(&name, bridge, &tap_config(router, nic))?,
        Attach::Macvtap { interface, mode } => {
            macvtap::open(&name, &macvtap_config(router, nic, interface, *mode))?
        }
        _ => return Ok(None),
    }))
}

/// What is to be taken away after a NIC's link or socket, if anything, should whoever opens it be killed. To be told to somebody
/// before the link is opened.
pub fn undo(router: &Router, nic: &Nic) -> Option<Undo> {
    match &nic.attach {
        Attach::Macvtap { .. } => Some(Undo::of_macvtap(&name(router, nic))),
        Attach::Ovs(_) => Some(Undo::of_ovs_port(&name(router, nic))),
        Attach::VhostUserBackend { path, side: SocketSide::Listen }
        | Attach::VhostUserFrontend { path, side: SocketSide::Listen } => Undo::of_socket(path),
        _ => None,
    }
}

/// The name of a NIC's link where its file gives none: `edge.wan`, and the beginning of that with a number where it is
/// longer than a name of an interface may be. No other NIC of this host has it, as no other router has its name.
fn name(router: &Router, nic: &Nic) -> String {
    let whole = format!("{}.{}", router.name, nic.name);
    if whole.len() <= LONGEST {
        return whole;
    }
    // FNV-1a, folded.
    let hash = whole
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    let number = format!(".{:04x}", (hash >> 16 ^ hash) & 0xffff);
    let begin: String = whole.chars().take(LONGEST - number.len()).collect();
    begin + &number
}

fn tap_config(router: &Router, nic: &Nic) -> TapConfig<'static> {
    TapConfig {
        queues: router.outer_queues(nic) as u16,
        mtu: nic.mtu,
        queue_len: nic.queue_len.most(),
        offload: nic.offload,
        hash: Some(hash(nic)),
        ..TapConfig::default()
    }
}

fn macvtap_config<'a>(router: &Router, nic: &Nic, lower: &'a str, mode: MacvtapMode) -> MacvtapConfig<'a> {
    MacvtapConfig {
        lower,
        mode: match mode {
            MacvtapMode::Private => macvtap::Mode::Private,
            MacvtapMode::Vepa => macvtap::Mode::Vepa,
            MacvtapMode::Bridge => macvtap::Mode::Bridge,
            MacvtapMode::Passthru => macvtap::Mode::Passthru,
        },
        mac: nic.mac.0,
        queues: router.outer_queues(nic) as u16,
        mtu: nic.mtu,
        queue_len: nic.queue_len.most(),
        offload: nic.offload,
        netns: None,
    }
}

/// How the frames of a NIC are spread.
pub(super) fn hash(nic: &Nic) -> Hash {
    match nic.hash {
        FlowHash::Flow => Hash::Flow,
        FlowHash::Symmetric => Hash::Symmetric,
    }
}

#[cfg(test)]
mod tests;
