//! Routers set up by hand: a network namespace with two interfaces, addresses, a route and neighbours, all by ip(8). They are
//! the reference for the engine `kernel`.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Result, bail};
use uplink::Netns;

use super::links::{Link, ip, sides};
use super::text::{ENDS, mac, neighbours};
use crate::device;
use crate::rig::host_end::veth;

/// Creates the n-th router between its interfaces in `netns`. Returns the router's namespace.
pub(super) fn set_up(netns: &Netns, link: Link, router: usize) -> Result<Netns> {
    let inside = Netns::new()?;
    inside.settle(true)?;
    inside.set_sysctl("net.ipv4.conf.all.rp_filter", "0")?;
    for (side, (_, first, address)) in sides(router).iter().zip(ENDS) {
        interface(netns, &inside, link, side)?;
        inside.set_sysctl(&format!("net.ipv4.conf.{side}.rp_filter"), "0")?;
        ip(&inside, &format!("link set {side} address {}", frame::Mac(mac(first, router))))?;
        ip(&inside, &format!("address add {address}/24 dev {side}"))?;
        ip(&inside, &format!("link set {side} up"))?;
    }
    let [_, far] = sides(router);
    ip(&inside, &format!("route add default via {}", device::STATION))?;
    for (address, mac) in neighbours() {
        ip(&inside, &format!("neighbour replace {address} lladdr {} dev {far}", frame::Mac(mac)))?;
    }
    Ok(inside)
}

/// Creates one interface of the router, named after its side.
fn interface(netns: &Netns, inside: &Netns, link: Link, side: &str) -> Result<()> {
    match link {
        Link::Veth => veth((netns, &format!("{side}1")), (inside, side)),
        Link::Macvlan => {
            let there = format!("/proc/{}/fd/{}", std::process::id(), inside.as_fd().as_raw_fd());
            let words = format!("link add link {side}0 name {side} netns {there} type macvlan mode bridge");
            ip(netns, &words)
        }
        _ => bail!("by hand only veth pairs and macvlans are set up, not {}", link.name()),
    }
}
