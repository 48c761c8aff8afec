//! Back ends on other hosts behind tunnels (`tunnels`): each NIC of such a back end is at the other end of a UDP tunnel, which begins at a
//! port of the switch between balancers and back ends.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use attach::NicRequirements;

use super::{Group, GroupKind, machines, outside};
use crate::fault::Fault;
use crate::plan::{Attach, KernelPath, KernelPort, Nic, Plan, Router};

/// Kind of attachment of a tunnel.
const KIND: &str = "udp";
/// Example of a tunnel in a file.
pub(super) const EXAMPLE: &str = "\"udp:192.0.2.1:4800-198.51.100.1:4800\"";

/// Parses a tunnel: its ends for the first NIC.
pub(super) fn read(text: &str) -> Result<Attach, String> {
    match Attach::read(text) {
        Ok(attach) if attach.kind() == KIND => Ok(attach),
        Err(what) if text.starts_with("udp:") => Err(what),
        _ => Err(format!("{text:?} is no tunnel; write e.g. {EXAMPLE}")),
    }
}

/// Returns both ends of a tunnel; `None`: the attachment is no tunnel.
fn ends(attach: &Attach) -> Option<(SocketAddr, SocketAddr)> {
    let (local, remote) = attach.name().split_once('-').filter(|_| attach.kind() == KIND)?;
    Some((local.parse().ok()?, remote.parse().ok()?))
}

/// Returns a tunnel as seen from its other end.
pub(super) fn reversed(tunnel: &Attach) -> Option<Attach> {
    let (local, remote) = ends(tunnel)?;
    read(&format!("{KIND}:{remote}-{local}")).ok()
}

/// Returns the tunnel of the NIC with this number: those of a back end have consecutive ports. `None`: there are no such ports.
pub(super) fn of_nic(tunnel: &Attach, nic: usize) -> Option<Attach> {
    let (mut local, mut remote) = ends(tunnel)?;
    for end in [&mut local, &mut remote] {
        end.set_port(end.port().checked_add(u16::try_from(nic).ok()?)?);
    }
    read(&format!("{KIND}:{local}-{remote}")).ok()
}

impl Group {
    /// Returns the tunnels of the file, each with the number of the back end behind it.
    fn tunnels(&self) -> impl Iterator<Item = (u32, &Attach)> {
        let tunnels: &[Attach] = match &self.kind {
            GroupKind::Parallel => &[],
            GroupKind::Multistage(stages) => &stages.tunnels,
        };
        self.remote_members().zip(tunnels)
    }

    /// Returns the NICs of back ends behind tunnels: the number of the back end, the NIC of the pattern with its number, and its tunnel.
    fn behind_tunnels(&self) -> impl Iterator<Item = (u32, (usize, &Nic), Attach)> {
        let nics = &self.pattern.nics;
        self.tunnels().flat_map(move |(number, tunnel)| {
            let nics = nics.iter().enumerate();
            nics.filter_map(move |(at, nic)| Some((number, (at, nic), of_nic(tunnel, at)?)))
        })
    }

    /// Returns the tunnel to a NIC of a member, by both numbers; `None`: the member is not behind one.
    pub fn tunnel(&self, number: u32, nic: usize) -> Option<Attach> {
        let (_, tunnel) = self.tunnels().find(|(own, _)| *own == number)?;
        of_nic(tunnel, nic)
    }

    /// Returns the requirements of the tunnels to back ends.
    fn tunnelled(&self) -> impl Iterator<Item = NicRequirements> {
        self.behind_tunnels().map(move |(number, (_, nic), attach)| NicRequirements {
            router: self.member(number),
            attach,
            mtu: nic.mtu,
            has_control: false,
            ..self.machine(0).wanted(&machines::outside(nic))
        })
    }

    fn tunnel_ports(&self) -> impl Iterator<Item = KernelPort> {
        self.behind_tunnels().map(move |(number, (at, nic), _)| KernelPort {
            router: self.member(number),
            nic: nic.name.clone(),
            switch: self.inner_switch(nic),
            path: KernelPath::Tunnel(at as u16),
            of_group: true,
        })
    }
}

impl Plan {
    /// Returns the ports of switches at which tunnels to back ends on other hosts begin.
    pub fn tunnel_ports(&self) -> impl Iterator<Item = KernelPort> {
        self.groups.iter().flat_map(Group::tunnel_ports)
    }

    /// Returns the requirements of the tunnels to back ends, each with the index of a router that has the lines of its group in the file.
    pub fn tunnelled(&self) -> impl Iterator<Item = (usize, NicRequirements)> {
        self.groups.iter().flat_map(move |group| {
            let is_its = |router: &Router| router.group() == Some(group.name.as_str());
            let index = self.routers.iter().position(is_its).unwrap_or_default();
            group.tunnelled().map(move |wanted| (index, wanted))
        })
    }
}

/// Reports tunnels that begin at the same end as another tunnel: the kernel gives an end to one socket only. Two NICs at the same tunnel
/// are reported as for any attachment.
pub(crate) fn verify(plan: &Plan, faults: &mut Vec<Fault>) {
    let local = |attach: &Attach| ends(attach).map(|(local, _)| local);
    let mut taken: HashMap<SocketAddr, &Attach> = HashMap::new();
    for (index, router) in outside(plan) {
        for (number, nic) in router.nics.iter().enumerate() {
            let Some(end) = local(&nic.attach) else { continue };
            if **taken.entry(end).or_insert(&nic.attach) != nic.attach {
                let what = format!("{end} is the end of another tunnel already; choose another port");
                faults.push(Fault::of_nic(index, number, "attach", what));
            }
        }
    }
    let mut taken: HashSet<SocketAddr> = taken.into_keys().collect();
    for (index, wanted) in plan.tunnelled() {
        if let Some(end) = local(&wanted.attach).filter(|end| !taken.insert(*end)) {
            let what = format!(
                "{end} is the end of another tunnel already; each takes as many ports as the group has NICs, so choose others"
            );
            faults.push(Fault::new(index, "tunnels", what));
        }
    }
}
