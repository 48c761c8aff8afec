//! Tables that the members of groups have in common, as this process has them mapped: routes and neighbours to read, for the
//! main process neighbours to write, and the desk of each member.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use config::Router;
use rustix::fs::fstat;
use vmm::{GroupMemory, MemberDesk, NeighbourTable, RouteTable, SharedMemory};

use crate::supplies::GroupSupplies;

/// The tables of all groups of an instance. Its clones are of the same instance.
#[derive(Clone, Default)]
pub struct Tables(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    routes: HashMap<String, Arc<RouteTable>>,
    neighbours: HashMap<String, Neighbours>,
    desks: HashMap<String, Arc<MemberDesk>>,
}

/// The neighbour table of a group.
struct Neighbours {
    to_read: Arc<SharedMemory>,
    writer: Option<Arc<NeighbourTable>>,
}

/// What a member is built with.
pub(crate) struct MemberTables {
    pub(crate) routes: Arc<RouteTable>,
    pub(crate) group: GroupMemory,
}

impl Tables {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Maps what was handed over; what is mapped already stays.
    ///
    /// # Errors
    /// One line that names the group or member: what was handed over is not what it should be, or cannot be mapped.
    pub(crate) fn adopt(&self, supplies: GroupSupplies) -> Result<()> {
        let GroupSupplies { routes, neighbours, desks } = supplies;
        let mut inner = self.inner();
        for (group, file) in routes {
            if !inner.routes.get(&group).is_some_and(|known| is_same(known.memory(), &file)) {
                let memory = SharedMemory::adopt(file, false).map(Arc::new);
                let table = memory.and_then(RouteTable::view);
                let table = table.with_context(|| format!("group {group}: its route table"))?;
                inner.routes.insert(group, Arc::new(table));
            }
        }
        for (group, files) in neighbours {
            let known = inner.neighbours.get(&group).map(|known| known.to_read.clone());
            if !files.first().is_some_and(|file| known.is_some_and(|known| is_same(&known, file))) {
                let table = map(files).with_context(|| format!("group {group}: its neighbour table"))?;
                inner.neighbours.insert(group, table);
            }
        }
        for (member, file) in desks {
            if !inner.desks.get(&member).is_some_and(|known| is_same(known.memory(), &file)) {
                let memory = SharedMemory::adopt(file, true).map(Arc::new);
                let desk = memory.and_then(MemberDesk::new);
                let desk = desk.with_context(|| format!("router {member}: its desk"))?;
                inner.desks.insert(member, Arc::new(desk));
            }
        }
        Ok(())
    }

    /// Forgets the tables of groups and the desks of members that are not meant.
    pub(crate) fn keep(&self, is_group: impl Fn(&str) -> bool, is_member: impl Fn(&str) -> bool) {
        let mut inner = self.inner();
        inner.routes.retain(|group, _| is_group(group));
        inner.neighbours.retain(|group, _| is_group(group));
        inner.desks.retain(|member, _| is_member(member));
    }

    /// Returns what a router is built with as a member of a group; `None`: it has tables of its own.
    pub(crate) fn of(&self, router: &Router) -> Option<MemberTables> {
        let (group, _) = router.membership()?;
        let inner = self.inner();
        let neighbours = inner.neighbours.get(group)?.to_read.clone();
        let desk = inner.desks.get(&router.name)?.memory().clone();
        Some(MemberTables {
            routes: inner.routes.get(group)?.clone(),
            group: GroupMemory { neighbours, desk },
        })
    }

    /// Returns the writer of a group's neighbour table, in the process that hears the network.
    pub(crate) fn neighbours(&self, group: &str) -> Option<Arc<NeighbourTable>> {
        self.inner().neighbours.get(group)?.writer.clone()
    }

    /// Returns the desk of a member.
    pub(crate) fn desk(&self, member: &str) -> Option<Arc<MemberDesk>> {
        self.inner().desks.get(member).cloned()
    }
}

fn map(files: Vec<OwnedFd>) -> Result<Neighbours> {
    let mut files = files.into_iter();
    let to_read = files.next().context("it was not handed over")?;
    let to_read = Arc::new(SharedMemory::adopt(to_read, false)?);
    let to_write = files.next().map(|file| SharedMemory::adopt(file, true)).transpose()?;
    let writer = to_write.map(|memory| NeighbourTable::new(Arc::new(memory)).map(Arc::new)).transpose()?;
    Ok(Neighbours { to_read, writer })
}

/// Returns true if a descriptor is of this memory.
fn is_same(memory: &SharedMemory, file: &OwnedFd) -> bool {
    let id = |file: std::os::fd::BorrowedFd<'_>| fstat(file).ok().map(|stat| (stat.st_dev, stat.st_ino));
    memory.file().is_some_and(|known| id(known.as_fd()).is_some_and(|known| id(file.as_fd()) == Some(known)))
}

#[cfg(test)]
pub(crate) mod tests;
