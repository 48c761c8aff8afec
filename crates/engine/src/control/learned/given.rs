//! Static neighbours that somebody has entered in the namespace of a control plane, and the machines to which they are given.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use bootinfo::GivenNeighbour;
use config::learned::LearnedNeighbour;
use vmm::Machine;

/// See the module.
#[derive(Default)]
pub(super) struct Given {
    all: Vec<GivenNeighbour>,
    machines: Vec<Weak<Machine>>,
}

impl Given {
    /// Gives all machines these neighbours, in place of those before.
    pub(super) fn set(&mut self, neighbours: &[LearnedNeighbour]) {
        self.all = neighbours.iter().map(given).collect();
        self.forget_those_that_ended();
        let machines = self.machines.iter().filter_map(Weak::upgrade);
        machines.for_each(|machine| machine.give_neighbours(&self.all));
    }

    /// Gives them to another machine, which does not run yet, and those that follow.
    pub(super) fn adopt(&mut self, machine: &Arc<Machine>) {
        if !self.all.is_empty() {
            machine.shared().given.set(&self.all);
        }
        self.forget_those_that_ended();
        self.machines.push(Arc::downgrade(machine));
    }

    fn forget_those_that_ended(&mut self) {
        self.machines.retain(|machine| machine.strong_count() > 0);
    }
}

fn given(LearnedNeighbour { link, ip, mac }: &LearnedNeighbour) -> GivenNeighbour {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => *ip,
    };
    GivenNeighbour { nic: *link, ip: ip.to_bits(), mac: *mac }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_is_given_as_its_mapped_one() {
        let mac = [2, 0, 0, 0, 0, 9];
        let of = |ip: &str| given(&LearnedNeighbour { link: 3, ip: ip.parse().expect("an address"), mac });
        let four = GivenNeighbour { nic: 3, ip: 0xffff_c000_0209, mac };
        assert_eq!(of("192.0.2.9"), four);
        assert_eq!(of("fe80::9"), GivenNeighbour { ip: 0xfe80_u128 << 112 | 9, ..four });
    }
}
