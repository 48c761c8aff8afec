//! Resolves the attachments of NICs on a thread of its own, because this starts threads, has the kernel open
//! devices, and calls the supervisor. The caller looks after all routers while it waits.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use config::Plan;
use switch::Switch;

use super::Instance;
use super::slot::{Plugged, outlet_finder};
use crate::ensemble::Ensembles;
use crate::isolated_paths::{IsolatedRouterPaths, PathParts};
use crate::supplies::HostServices;
use crate::wiring::Outlet;

/// A request to resolve attachments.
pub(crate) struct AttachmentRequest {
    pub(crate) plan: Plan,
    /// The routers whose NICs are to be resolved.
    pub(crate) routers: BTreeSet<String>,
    /// The switches of the plan, in its order.
    pub(crate) switches: Vec<Arc<Switch>>,
    /// Outlets that exist already; one that fits is reused.
    pub(crate) held: Vec<Arc<Outlet>>,
    pub(crate) supplies: HostServices,
}

/// The resolved attachments, in the order of the file.
pub(crate) struct ResolvedAttachments {
    /// Of the routers of this process.
    pub(crate) plugged: Vec<Plugged>,
    /// Of isolated routers (those in processes of their own).
    pub(crate) isolated_paths: Vec<PathParts>,
}

impl AttachmentRequest {
    fn carry_out(mut self, ensembles: &Ensembles) -> Result<ResolvedAttachments> {
        let Self { plan, routers, switches, held, supplies } = &mut self;
        let mut found = ResolvedAttachments { plugged: Vec::new(), isolated_paths: Vec::new() };
        for router in plan.routers.iter().filter(|router| routers.contains(&router.name)) {
            if router.is_isolated() {
                found.isolated_paths.push(PathParts::find(
                    router,
                    switches,
                    (held.as_slice(), ensembles),
                    supplies,
                )?);
            } else {
                let find = outlet_finder(router, switches, (held.as_slice(), ensembles), supplies);
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
    pub(crate) fn find_all(&mut self, search: AttachmentRequest) -> Result<ResolvedAttachments> {
        let ensembles = self.context.ensembles.clone();
        ensembles.learn(&search.plan);
        let name = ("ringroad/find".to_owned(), "the search for what NICs are plugged into");
        self.run_in_background(name, move || search.carry_out(&ensembles))?
    }

    /// Opens the I/O paths of isolated routers, one router after the other, and waits for each.
    ///
    /// # Errors
    /// One line: the request that was refused, or that it takes too long.
    pub(crate) fn open_isolated_paths(&mut self, parts: Vec<PathParts>) -> Result<()> {
        parts.into_iter().try_for_each(|parts| self.open_paths(parts))
    }

    /// Opens the I/O paths of an isolated router, and waits for that. Where they cannot be opened now although its process can
    /// connect, it is tried again later.
    ///
    /// # Errors
    /// One line: the request that was refused, or that it takes too long.
    pub(crate) fn open_paths(&mut self, parts: PathParts) -> Result<()> {
        let (board, confinement) = (self.context.board.clone(), self.context.confinement);
        let name = (format!("{}/open", parts.name()), "the opening of its ways");
        let ways = self.run_in_background(name, move || parts.open(board, confinement))??;
        let (paths, outcome) = IsolatedRouterPaths::of(ways, &self.context);
        self.isolated_paths.push(paths);
        outcome
    }
}

#[cfg(test)]
mod tests;
