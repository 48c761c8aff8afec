//! Virtual functions of kernel routers: which of them are claimed for a router, and under which names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::{Context, Error, Result};
use attach::Function;
use netlink::Netlink;
use sriov::{
    Address, Assigned, Claim, CountRecord, FormerCount, FormerSettings, FunctionRequest, Port, PortSettings,
    Sysfs,
};

use super::{HostBackend, Remains};
use crate::kernels::plan::Spec;
use crate::run_lock::{FunctionLock, FunctionLocks};

/// Claimed virtual functions of a router.
pub(super) type Claims = Vec<Claimed>;

/// A claimed virtual function.
#[derive(Debug)]
pub(super) struct Claimed {
    /// Position of its interface in the router.
    place: usize,
    claim: Claim,
    /// Last: another run may take the function when its settings have been restored.
    _lock: FunctionLock,
}

impl Claimed {
    /// Restores the former settings of the function, and releases it. Its interface has been returned before.
    ///
    /// # Errors
    /// The driver refuses.
    pub(super) fn restore(self) -> Result<(), sriov::Error> {
        self.claim.restore()
    }
}

/// Access to ports with virtual functions: those of the host, or models of a test.
pub(super) trait Ports: Send {
    /// Returns the tree with the ports, and with the interfaces that are in the namespace of the calling thread.
    fn sysfs(&self) -> Sysfs;
    /// Returns access to the settings of functions of ports in that namespace.
    ///
    /// # Errors
    /// The kernel has no rtnetlink, or the process is out of descriptors.
    fn settings(&self) -> Result<Box<dyn PortSettings>>;
}

/// The ports of the host.
pub(super) struct HostPorts;

impl Ports for HostPorts {
    fn sysfs(&self) -> Sysfs {
        Sysfs::here()
    }

    fn settings(&self) -> Result<Box<dyn PortSettings>> {
        Ok(Box::new(Netlink::open().context("a socket to the host's interfaces")?))
    }
}

/// Virtual functions for the routers of a run, and the numbers of functions that the run has changed.
pub(super) struct Functions {
    ports: Box<dyn Ports>,
    /// Locks on functions; the numbers of functions that runs have changed are recorded in their folder.
    locks: FunctionLocks,
    /// Records of the ports of which this run uses functions.
    former_counts: BTreeMap<Address, FormerCount>,
}

/// A function that a router of the run holds.
pub(super) struct HeldFunction {
    wish: FunctionRequest,
    port: Address,
    number: u32,
}

impl HostBackend {
    /// Claims the virtual functions of a router. Other routers of the run keep theirs.
    pub(super) fn claim(&mut self, spec: &Spec) -> Result<Claims> {
        let others = self.routers.values().flat_map(|other| held(&other.spec.functions, &other.claims));
        let others: Vec<HeldFunction> = others.collect();
        self.functions.claim(&spec.functions, &others, &mut self.journal)
    }
}

/// Returns the functions that a router holds.
pub(super) fn held(wanted: &[(usize, Function)], claims: &[Claimed]) -> Vec<HeldFunction> {
    let held = |(place, function): &(usize, Function)| {
        let former = claims.iter().find(|claimed| claimed.place == *place)?.claim.former();
        let wish = FunctionRequest { held: Some(former.address), ..function.wish.clone() };
        Some(HeldFunction { wish, port: former.port, number: former.number })
    };
    wanted.iter().filter_map(held).collect()
}

impl Functions {
    /// Starts without claims. Other runs use the locks as well.
    pub(super) fn new(ports: Box<dyn Ports>, locks: FunctionLocks) -> Self {
        Self { ports, locks, former_counts: BTreeMap::new() }
    }

    /// Claims functions for a router. Other routers of the run keep theirs.
    ///
    /// # Errors
    /// One line: there is no such function, another one has it, or its port refuses a setting. No claim is left then.
    pub(super) fn claim(
        &mut self,
        wanted: &[(usize, Function)],
        others: &[HeldFunction],
        journal: &mut dyn FnMut(Remains<'_>),
    ) -> Result<Claims> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let sysfs = self.ports.sysfs();
        for (_, Function { wish, count, .. }) in wanted {
            let port = match (sysfs.port_of(&wish.interface), count) {
                (Ok(port), _) => port,
                (Err(_), None) => continue,
                (Err(refusal), Some(_)) => return Err(refusal.into()),
            };
            // Also those that another run has claimed and not yet moved into its router.
            let held = port.functions.iter().filter(|function| self.locks.is_held(function.address));
            let used = others.iter().filter(|held| held.port == port.address).map(|held| held.number);
            let used: Vec<u32> = used.chain(held.map(|function| function.number)).collect();
            self.set_count(&sysfs, (port.address, *count), &used, journal)?;
        }
        let mut claims = Vec::new();
        for ((place, function), (assigned, lock)) in
            wanted.iter().zip(self.assign(sysfs.ports(), wanted, others)?)
        {
            let mut told = |former: &FormerSettings| journal(Remains::Function(former, lock.path()));
            let claim = Claim::take(&sysfs, self.ports.settings()?, &assigned, &function.wanted, &mut told)?;
            claims.push(Claimed { place: *place, claim, _lock: lock });
        }
        Ok(claims)
    }

    /// Assigns functions to NICs, in their order, and locks them. A NIC for which any function will do gets one that no other run has
    /// locked, even if its interface is still here.
    fn assign(
        &self,
        mut ports: Vec<Port>,
        wanted: &[(usize, Function)],
        others: &[HeldFunction],
    ) -> Result<Vec<(Assigned, FunctionLock)>> {
        let own = wanted.iter().map(|(_, function)| function.wish.clone());
        let wishes: Vec<FunctionRequest> = others.iter().map(|held| held.wish.clone()).chain(own).collect();
        let (mut refused, mut wait) = (None::<Error>, FunctionLocks::until_timeout());
        // Each attempt but the last one finds a function that another run has.
        loop {
            let assigned = match (sriov::assign(&ports, &wishes), refused.take()) {
                (Ok(assigned), _) => assigned,
                (Err(_), Some(refusal)) => return Err(refusal),
                (Err(error), None) => return Err(error.into()),
            };
            let own = assigned.into_iter().skip(others.len());
            match self.lock(&ports, own, &mut wait) {
                Ok(locked) => return Ok(locked),
                Err((address, refusal)) => {
                    take_away(&mut ports, address);
                    refused = Some(refusal);
                }
            }
        }
    }

    /// Locks functions, all or none. The error has the address of one that is not to be had.
    fn lock(
        &self,
        ports: &[Port],
        assigned: impl Iterator<Item = Assigned>,
        wait: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(Assigned, FunctionLock)>, (Address, Error)> {
        let lock = |assigned: Assigned| {
            let port = ports.iter().find(|port| port.address == assigned.port).map(Port::label);
            let port = port.unwrap_or_else(|| assigned.port.to_string());
            let what = format!("virtual function {} of `{port}`", assigned.number);
            match self.locks.take(assigned.address, &what, wait) {
                Ok(lock) => Ok((assigned, lock)),
                Err(refusal) => Err((assigned.address, refusal)),
            }
        };
        assigned.map(lock).collect()
    }

    /// Gives a port this number of functions; `None`: it keeps its number. The number from before the first change is restored at the end
    /// of the run; so is that of another run that has changed it and ends before this one.
    fn set_count(
        &mut self,
        sysfs: &Sysfs,
        (port, count): (Address, Option<u32>),
        used: &[u32],
        journal: &mut dyn FnMut(Remains<'_>),
    ) -> Result<()> {
        let former = match self.former_counts.entry(port) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let record = CountRecord { port, folder: self.locks.folder().to_owned() };
                // Waits for a run that is restoring the number, which is read after that.
                let found = FormerCount::find(&record)?;
                let is_kept = |count: u32| sysfs.read(port).is_none_or(|port| port.count() == count);
                if found.is_none() && count.is_none_or(is_kept) {
                    return Ok(());
                }
                journal(Remains::Count(&record));
                place.insert(found.map_or_else(|| FormerCount::make(&record), Ok)?)
            }
        };
        Ok(former.set(sysfs, count, used)?)
    }

    /// Restores the numbers of functions of all ports. The functions have been returned before.
    pub(super) fn restore_counts(&mut self) {
        let former_counts = std::mem::take(&mut self.former_counts);
        if former_counts.is_empty() {
            return;
        }
        let sysfs = self.ports.sysfs();
        for former in former_counts.into_values() {
            // The record stays if a function is still in use.
            let _ = former.restore(&sysfs);
        }
    }
}

/// Applies the settings of a router's virtual functions again to those that had vanished and are back, perhaps under other names.
///
/// # Errors
/// One line: the port refuses a setting.
pub(super) fn renew(claims: &mut [Claimed], spec: &Spec) -> Result<()> {
    for Claimed { place, claim, .. } in claims {
        let function = spec.functions.iter().find(|(of, _)| *of == *place);
        let inside = spec.wanted.interfaces.get(*place).map_or("", |own| own.name.as_str());
        function.map_or(Ok(()), |(_, function)| claim.renew(&function.wanted, inside))?;
    }
    Ok(())
}

/// Interface names of claimed virtual functions, by interface position.
pub(super) fn links(claims: &[Claimed]) -> impl Iterator<Item = (usize, String)> {
    claims.iter().map(|claimed| (claimed.place, claimed.claim.interface().to_owned()))
}

/// Makes a function look as if its interface were in another namespace, which it soon will be: the run that has locked it moves it there.
fn take_away(ports: &mut [Port], address: Address) {
    let functions = ports.iter_mut().flat_map(|port| port.functions.iter_mut());
    functions.filter(|function| function.address == address).for_each(|function| function.interface = None);
}

#[cfg(test)]
mod tests;
