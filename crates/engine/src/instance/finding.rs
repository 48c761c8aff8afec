//! What NICs are plugged into is found beside everything else: for that threads begin, the kernel opens devices, and the supervisor
//! is asked. Whoever waits for it looks after all others meanwhile.

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

/// What is to be found.
pub(crate) struct Search {
    pub(crate) plan: Plan,
    /// The routers whose NICs it is about.
    pub(crate) routers: BTreeSet<String>,
    /// The switches of the plan, in its order.
    pub(crate) switches: Vec<Arc<Switch>>,
    /// What is there already, and is taken where it fits.
    pub(crate) held: Vec<Arc<Outlet>>,
    pub(crate) supplies: Supplies,
}

/// What was found, in the order of the file.
pub(crate) struct Found {
    /// Of routers that are here.
    pub(crate) plugged: Vec<Plugged>,
    /// Of routers in processes of their own.
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
    /// Finds what NICs are plugged into, and waits until that is done.
    ///
    /// # Errors
    /// One line: what was refused, or that it takes too long.
    pub(crate) fn find_all(&mut self, search: Search) -> Result<Found> {
        let name = ("ringroad/find".to_owned(), "the search for what NICs are plugged into");
        self.beside(name, move || search.carry_out())?
    }

    /// Opens ways of routers in processes of their own, one after the other, and waits for each.
    ///
    /// # Errors
    /// One line: what was refused, or that it takes too long.
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
