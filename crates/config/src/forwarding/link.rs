//! Links of a router by which its routes lead: NICs, then interfaces for VLANs, as they are numbered in its firmware.

use super::{Destination, Interface};
use crate::address::Address;
use crate::plan::{Nic, Router};
use crate::six::Six;

/// What routes need to know of a NIC or interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) addresses: Vec<Address>,
    pub(crate) six: Six,
    /// Its VRF.
    pub(crate) vrf: Option<String>,
    /// Set if it is in another VRF than what is read.
    pub(crate) elsewhere: Option<Elsewhere>,
}

/// What is kept of a link of another VRF.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    pub(crate) networks: Vec<Destination>,
}

/// Returns all links in the order of their numbers.
pub(crate) fn links(nics: &[Nic], interfaces: &[Interface]) -> Vec<Link> {
    let all = nics.iter().map(|nic| (&nic.vrf, &nic.name, &nic.addresses, &nic.six));
    let vlans = interfaces.iter().map(|own| (&own.vrf, &own.name, &own.addresses, &own.six));
    let link = |(vrf, name, addresses, six): (&Option<String>, &String, &Vec<Address>, &Six)| Link {
        name: name.clone(),
        addresses: addresses.clone(),
        six: six.clone(),
        vrf: vrf.clone(),
        elsewhere: None,
    };
    all.chain(vlans).map(link).collect()
}

impl Router {
    /// Name of the NIC or interface with this number, by which a route leads.
    pub fn link_name(&self, number: usize) -> Option<&str> {
        let after = number.checked_sub(self.nics.len());
        match after {
            None => self.nics.get(number).map(|nic| nic.name.as_str()),
            Some(at) => self.forwarding.interfaces.get(at).map(|own| own.name.as_str()),
        }
    }
}
