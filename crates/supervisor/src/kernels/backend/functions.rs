//! Virtual functions of kernel routers: which of them are claimed for a router, and under which names.

use std::collections::btree_map::Entry;

use anyhow::{Context, Result};
use attach::Function;
use netlink::Netlink;
use sriov::{Claim, CountRecord, FormerCount, FormerSettings, FunctionRequest, Sysfs};

use super::{HostBackend, Remains};
use crate::kernels::plan::Spec;

impl HostBackend {
    /// Claims the virtual functions of a router. Other routers of the run keep theirs.
    pub(super) fn claim(&mut self, spec: &Spec) -> Result<Vec<(usize, Claim)>> {
        if spec.functions.is_empty() {
            return Ok(Vec::new());
        }
        let sysfs = Sysfs::here();
        let others = self.routers.values().flat_map(|held| {
            let has = |place: usize| held.claims.iter().find(|(of, _)| *of == place).map(|(_, claim)| claim);
            held.spec.functions.iter().filter_map(move |(place, function)| {
                let former = has(*place)?.former();
                Some((
                    FunctionRequest { held: Some(former.address), ..function.wish.clone() },
                    former.port,
                    former.number,
                ))
            })
        });
        let others: Vec<(FunctionRequest, sriov::Address, u32)> = others.collect();
        for (_, Function { wish, count, .. }) in &spec.functions {
            let port = match (sysfs.port_of(&wish.interface), count) {
                (Ok(port), _) => port.address,
                (Err(_), None) => continue,
                (Err(refusal), Some(_)) => return Err(refusal.into()),
            };
            let used = others.iter().filter(|(_, of, _)| *of == port).map(|(_, _, number)| *number);
            self.set_function_count(&sysfs, port, *count, &used.collect::<Vec<_>>())?;
        }
        let own = spec.functions.iter().map(|(_, function)| function.wish.clone());
        let wishes: Vec<FunctionRequest> = others.into_iter().map(|(wish, ..)| wish).chain(own).collect();
        let assigned = sriov::assign(&sysfs.ports(), &wishes)?;
        let mut claims = Vec::new();
        for (place, function) in &spec.functions {
            let assigned = assigned.iter().find(|assigned| assigned.nic == function.wish.nic);
            let assigned = assigned.with_context(|| format!("no function for {}", function.wish.nic))?;
            let kernel = Netlink::open().context("a socket to the host's interfaces")?;
            let mut told = |former: &FormerSettings| (self.journal)(Remains::Function(former));
            let claim = Claim::take(&sysfs, kernel, assigned, &function.wanted, &mut told)?;
            claims.push((*place, claim));
        }
        Ok(claims)
    }

    /// Gives a port this number of functions; `None`: it keeps its number. The number from before the first change is restored at the end
    /// of the run; so is that of another run that has changed it and ends before this one.
    fn set_function_count(
        &mut self,
        sysfs: &Sysfs,
        port: sriov::Address,
        count: Option<u32>,
        used: &[u32],
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
                (self.journal)(Remains::Count(&record));
                place.insert(found.map_or_else(|| FormerCount::make(&record), Ok)?)
            }
        };
        Ok(former.set(sysfs, count, used)?)
    }

    /// Restores the numbers of functions of all ports. The functions have been returned before.
    pub(super) fn restore_function_counts(&mut self) {
        let former_counts = std::mem::take(&mut self.former_counts);
        if former_counts.is_empty() {
            return;
        }
        let sysfs = Sysfs::here();
        for former in former_counts.into_values() {
            // The record stays if a function is still in use.
            let _ = former.restore(&sysfs);
        }
    }
}

/// Interface names of claimed virtual functions, by interface position.
pub(super) fn links(claims: &[(usize, Claim)]) -> impl Iterator<Item = (usize, String)> {
    claims.iter().map(|(place, claim)| (*place, claim.interface().to_owned()))
}
