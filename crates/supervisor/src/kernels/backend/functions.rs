//! Virtual functions of kernel routers: which of them are claimed for a router, and under which names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use anyhow::{Context, Result};
use attach::Function;
use netlink::Netlink;
use sriov::{Address, Claim, CountRecord, FormerCount, FormerSettings, FunctionRequest, PortSettings, Sysfs};

use super::{HostBackend, Remains};
use crate::kernels::plan::Spec;

/// Claimed virtual functions of a router, by interface position.
pub(super) type Claims = Vec<(usize, Claim)>;

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
    /// Directory of the records of numbers of functions that runs have changed.
    records: PathBuf,
    /// Those of the ports of which this run uses functions.
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
pub(super) fn held(wanted: &[(usize, Function)], claims: &[(usize, Claim)]) -> Vec<HeldFunction> {
    let held = |(place, function): &(usize, Function)| {
        let former = claims.iter().find(|(of, _)| of == place)?.1.former();
        let wish = FunctionRequest { held: Some(former.address), ..function.wish.clone() };
        Some(HeldFunction { wish, port: former.port, number: former.number })
    };
    wanted.iter().filter_map(held).collect()
}

impl Functions {
    /// Starts without claims. Numbers of functions are recorded in `records`, which other runs use as well.
    pub(super) fn new(ports: Box<dyn Ports>, records: PathBuf) -> Self {
        Self { ports, records, former_counts: BTreeMap::new() }
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
                (Ok(port), _) => port.address,
                (Err(_), None) => continue,
                (Err(refusal), Some(_)) => return Err(refusal.into()),
            };
            let used = others.iter().filter(|held| held.port == port).map(|held| held.number);
            self.set_count(&sysfs, (port, *count), &used.collect::<Vec<_>>(), journal)?;
        }
        let own = wanted.iter().map(|(_, function)| function.wish.clone());
        let wishes: Vec<FunctionRequest> = others.iter().map(|held| held.wish.clone()).chain(own).collect();
        let assigned = sriov::assign(&sysfs.ports(), &wishes)?;
        let mut claims = Vec::new();
        for (place, function) in wanted {
            let assigned = assigned.iter().find(|assigned| assigned.nic == function.wish.nic);
            let assigned = assigned.with_context(|| format!("no function for {}", function.wish.nic))?;
            let mut told = |former: &FormerSettings| journal(Remains::Function(former));
            let claim = Claim::take(&sysfs, self.ports.settings()?, assigned, &function.wanted, &mut told)?;
            claims.push((*place, claim));
        }
        Ok(claims)
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
                let record = CountRecord { port, folder: self.records.clone() };
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
pub(super) fn renew(claims: &mut [(usize, Claim)], spec: &Spec) -> Result<()> {
    for (place, claim) in claims {
        let function = spec.functions.iter().find(|(of, _)| *of == *place);
        let inside = spec.wanted.interfaces.get(*place).map_or("", |own| own.name.as_str());
        function.map_or(Ok(()), |(_, function)| claim.renew(&function.wanted, inside))?;
    }
    Ok(())
}

/// Interface names of claimed virtual functions, by interface position.
pub(super) fn links(claims: &[(usize, Claim)]) -> impl Iterator<Item = (usize, String)> {
    claims.iter().map(|(place, claim)| (*place, claim.interface().to_owned()))
}

#[cfg(test)]
mod tests;
