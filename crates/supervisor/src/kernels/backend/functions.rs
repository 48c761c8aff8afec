//! Virtual functions of kernel routers: which of them are claimed for a router, and under which names.

use anyhow::{Context, Result};
use attach::Function;
use netlink::Netlink;
use sriov::{Claim, FormerSettings, FunctionRequest, Sysfs};

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
            let Some(count) = count else { continue };
            let port = sysfs.port_of(&wish.interface)?;
            let used = others.iter().filter(|(_, of, _)| *of == port.address).map(|(_, _, number)| *number);
            for number in sriov::plan_function_count(&port, *count, &used.collect::<Vec<_>>())? {
                sysfs.set_function_count(&port, number)?;
            }
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
}

/// Interface names of claimed virtual functions, by interface position.
pub(super) fn links(claims: &[(usize, Claim)]) -> impl Iterator<Item = (usize, String)> {
    claims.iter().map(|(place, claim)| (*place, claim.interface().to_owned()))
}
