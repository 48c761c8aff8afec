//! `tap:NAME`: a TAP of the host with this name, or the persistent one that is there.

use anyhow::Result;
use uplink::{Ownership, Tap, TapConfig};

use crate::attach::interface;
use crate::interfaces;
use crate::kind::{Finding, InterfaceKind, Interfaces, Kind, Place, Traits, Verdict, lack};
use crate::link::{self, Side, made};
use crate::opened::Opened;
use crate::wanted::Wanted;

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: |attach| Traits { is_common: false, ..link::in_a_bridge(attach) },
    check,
    lacks: |wanted| lack(interfaces::tap(wanted.attach.name(), wanted.queues)),
    finding: |wanted| Some(finding(wanted.attach.name(), wanted.queues)),
    counts: link::COUNTS,
    ..Kind::plain("tap", Some("INTERFACE"), Place::Outside { open, adopt: link::adopt })
};

/// One that does not exist is made.
fn check(name: &str, interfaces: &Interfaces) -> Result<(), String> {
    match interfaces.get(name) {
        None | Some(InterfaceKind::Tap) => Ok(()),
        Some(_) => Err(format!("interface {name:?} exists and is not a TAP; choose another name")),
    }
}

fn finding(name: &str, queues: usize) -> Finding {
    match interfaces::tap(name, queues) {
        Err(what) => (Verdict::No, what),
        Ok(()) if !interfaces::interface(name).exists() => (Verdict::Ok, "makes the TAP".to_owned()),
        Ok(()) if !interfaces::is_tap(name) => {
            (Verdict::No, format!("{name} is there and no TAP: choose another name"))
        }
        Ok(()) => (Verdict::Ok, "joins the TAP that is there, if nobody else has it open".to_owned()),
    }
}

fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let config = TapConfig { ownership: Ownership::NewOrExisting, ..link::config(wanted) };
    made(Tap::open(wanted.attach.name(), &config), wanted, Side::Host)
}
