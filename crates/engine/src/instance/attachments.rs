//! Resolves the attachments of NICs on a thread of its own, because this starts threads, has the kernel open
//! devices, and calls the supervisor. The caller looks after all routers while it waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use config::Plan;
use switch::Switch;

use super::Instance;
use super::slot::{Plugged, outlet_finder};
use crate::relay::{Relay, RelayParts};
use crate::supplies::Supplies;
use crate::wiring::Outlet;

/// A request to resolve attachments.
pub(crate) struct Search {
    pub(crate) plan: Plan,
    /// The routers whose NICs are to be resolved.
    pub(crate) routers: BTreeSet<String>,
    /// The switches of the plan, in its order.
    pub(crate) switches: Vec<Arc<Switch>>,
    /// Outlets that exist already; one that fits is reused.
    pub(crate) held: Vec<Arc<Outlet>>,
    pub(crate) supplies: Supplies,
}

/// The resolved attachments, in the order of the file.
pub(crate) struct Found {
    /// Of the routers of this process.
    pub(crate) plugged: Vec<Plugged>,
    /// Of isolated routers (those in processes of their own).
    pub(crate) relays: Vec<RelayParts>,
}

impl Search {
    fn carry_out(mut self) -> Result<Found> {
        let Self { plan, routers, switches, held, supplies } = &mut self;
        let mut found = Found { plugged: Vec::new(), relays: Vec::new() };
        for router in plan.routers.iter().filter(|router| routers.contains(&router.name)) {
            if router.is_apart() {
                found.relays.push(RelayParts::find(router, switches, held, supplies)?);
            } else {
                let find = outlet_finder(router, switches, held, supplies);
                found.plugged.push(Plugged::find(router, find)?);
            }
        }
        Ok(found)
    }
}

impl Instance {
    /// Resolves the attachments of NICs, and waits until that is done.
    ///
    /// # Errors
    /// One line: the request that was refused, or that it takes too long.
    pub(crate) fn find_all(&mut self, search: Search) -> Result<Found> {
        let name = ("ringroad/find".to_owned(), "the search for what NICs are plugged into");
        self.beside(name, move || search.carry_out())?
    }

    /// Opens the I/O paths of isolated routers, one router after the other, and waits for each.
    ///
    /// # Errors
    /// One line: the request that was refused, or that it takes too long.
    pub(crate) fn open_relays(&mut self, parts: Vec<RelayParts>) -> Result<()> {
        for parts in parts {
            let (board, confinement) = (self.yard.board.clone(), self.yard.confinement);
            let name = (format!("{}/open", parts.name()), "the opening of its ways");
            let ways = self.beside(name, move || parts.open(board, confinement))??;
            self.relays.push(Relay::of(ways, &self.yard));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
