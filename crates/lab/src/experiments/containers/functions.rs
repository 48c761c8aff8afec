//! Routers on virtual functions (SR-IOV). They run only on hosts that have two that are free, and only their diagrams are drawn: the
//! rate of an emulated function says nothing.

use anyhow::Result;
use config::Engine;
use sriov::{Location, Port, Sysfs};

use super::drawn::{Room, Shown};
use crate::rig::router_run::FileRun;

/// Name of the router, as in the paper.
const ROUTER: &str = "vr1";

/// A virtual function: the interface of its port, and its number there.
type Function = (String, u32);

/// Use of virtual functions by an engine.
#[derive(Clone, Copy)]
pub(super) enum ByFunctions {
    /// It can use them.
    Runs(Engine),
    /// It cannot, for this reason.
    Refused(&'static str),
}

impl ByFunctions {
    /// Runs a router between two virtual functions, and returns what it showed, or the reason why the engine or this host has none.
    ///
    /// # Errors
    /// The router does not run.
    pub(super) fn room(self) -> Result<Shown> {
        let engine = match self {
            Self::Runs(engine) => engine,
            Self::Refused(why) => return Ok(Err(why)),
        };
        let Some(functions) = chosen(&Sysfs::here().ports()) else {
            return Ok(Err("this host has no two free virtual functions (SR-IOV)"));
        };
        let text = text(engine, &functions);
        let run = FileRun::open_here(&text)?;
        let seen = run.seen(ROUTER);
        run.close()?;
        Ok(Ok(Room { seen: seen?, ..Room::of(text) }))
    }
}

/// Chooses two functions whose interfaces are in our namespace: of two ports, as in the paper, or else of one.
fn chosen(ports: &[Port]) -> Option<[Function; 2]> {
    let free = |port: &Port| -> Vec<Function> {
        let Some(interface) = &port.interface else { return Vec::new() };
        let here = port.functions.iter().filter(|function| matches!(function.place(), Location::Here(_)));
        here.map(|function| (interface.clone(), function.number)).collect()
    };
    let all: Vec<Vec<Function>> = ports.iter().map(free).filter(|free| !free.is_empty()).collect();
    match all.as_slice() {
        [first, second, ..] => Some([first.first()?.clone(), second.first()?.clone()]),
        [one] => Some([one.first()?.clone(), one.get(1)?.clone()]),
        [] => None,
    }
}

/// Configuration file of a router between two functions.
fn text(engine: Engine, functions: &[Function; 2]) -> String {
    let engine = engine.name();
    let nics = functions.iter().zip([("near", "198.18.0.1"), ("far", "198.19.0.1")]);
    let nics = nics.map(|((port, number), (name, own))| {
        format!(
            "[[router.nic]]\nname = \"{name}\"\nattach = \"vf:{port}\"\nfunction = {number}\naddress = \"{own}/24\"\n"
        )
    });
    format!("[[router]]\nname = \"{ROUTER}\"\nengine = \"{engine}\"\n{}", nics.collect::<String>())
}

#[cfg(test)]
mod tests;
