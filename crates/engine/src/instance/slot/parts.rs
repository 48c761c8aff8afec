//! Components of a router before it runs: its plan, the outlets that its NICs are plugged into, its guest.

use std::sync::Arc;

use anyhow::{Context, Result};
use bootinfo::Role;
use config::Router;
use switch::Switch;

use crate::control::Learning;
use crate::ensemble::Ensembles;
use crate::guest::{Guest, GuestTask};
use crate::instance::backend_pool::BackendPool;
use crate::supplies::HostServices;
use crate::tables::Tables;
use crate::wiring::Outlet;

/// A router, and the outlets that its NICs are plugged into.
pub(crate) struct Plugged {
    pub(crate) plan: Router,
    pub(crate) outlets: Vec<Arc<Outlet>>,
}

impl Plugged {
    /// Resolves the outlets of all its NICs.
    pub(crate) fn find(plan: &Router, find: impl FnMut(&config::Nic) -> Result<Arc<Outlet>>) -> Result<Self> {
        let outlets = plan.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        Ok(Self { plan: plan.clone(), outlets })
    }

    /// Returns the closure that builds the router's machine, as [`builder`] does.
    pub(crate) fn builder(
        &self,
        backends: &mut BackendPool,
        learning: &Learning,
        tables: &Tables,
    ) -> Result<impl FnOnce() -> Result<Guest> + Send + use<>> {
        builder(&self.plan, &self.outlets, backends, (learning, tables))
    }
}

/// Components of a router before it runs.
pub(crate) struct Parts {
    pub(crate) plugged: Plugged,
    pub(crate) guest: Guest,
}

/// Returns a closure that resolves the outlet of each NIC of a plan's router.
pub(crate) fn outlet_finder<'f>(
    router: &'f Router,
    switches: &'f [Arc<Switch>],
    (held, ensembles): (&'f [Arc<Outlet>], &'f Ensembles),
    supplies: &'f mut HostServices,
) -> impl FnMut(&config::Nic) -> Result<Arc<Outlet>> + 'f {
    move |nic| {
        Outlet::find((router, nic), switches, supplies, (held, ensembles))
            .with_context(|| format!("router {}, NIC {}", router.name, nic.name))
    }
}

/// Returns the closure that builds a router's machine without running it; its NICs offer the features of the
/// peers that have answered by the time it is called. To be called on a thread of its own: the kernel may
/// block it.
pub(super) fn builder(
    plan: &Router,
    outlets: &[Arc<Outlet>],
    backends: &mut BackendPool,
    (learning, tables): (&Learning, &Tables),
) -> Result<impl FnOnce() -> Result<Guest> + Send + use<>> {
    let role = match plan.role {
        config::Role::Router => Role::Router,
        config::Role::Echo => Role::Echo,
        config::Role::Hostile(_) => Role::Hostile,
        config::Role::Balancer => Role::Balancer,
    };
    let (plan, outlets, backend) = (plan.clone(), outlets.to_vec(), backends.of(plan)?);
    let tables = tables.of(&plan);
    // The table of a group has what was learned.
    let learned = (plan.control.is_some() && tables.is_none()).then(|| learning.of(plan.speaker()));
    Ok(move || {
        let task = GuestTask { role, ..GuestTask::default() };
        let guest = Guest::with_outlets(&plan, task, &outlets, tables, &backend)?;
        let links = plan.nics.len() + plan.forwarding.interfaces.len();
        if let Some(learned) = &learned {
            learned.adopt(guest.table(), links);
            learned.give_to(guest.machine());
        }
        Ok(guest)
    })
}
