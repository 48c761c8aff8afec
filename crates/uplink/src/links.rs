//! Interfaces of one network namespace: their state, addresses, neighbours and routes. The requests to the
//! kernel are in the crate `netlink`; this module adds error messages.

mod counters;

use std::io;
use std::net::Ipv4Addr;

use netlink::{Link, Mac, Netlink, Prefix, Settings};

pub use counters::{LinkCounters, LinkTable};

use crate::Error;
use crate::request::Name;

/// The interfaces of the network namespace in which this was opened, even if it is used in another one.
#[derive(Debug)]
pub struct Links {
    kernel: Netlink,
}

impl Links {
    /// Opens the interfaces of the calling thread's namespace.
    pub fn here() -> Result<Self, Error> {
        Netlink::open()
            .map(|kernel| Self { kernel })
            .map_err(|e| Error::system("opening a socket to the kernel's interfaces", e))
    }

    /// Returns the netlink socket.
    pub(crate) const fn kernel(&self) -> &Netlink {
        &self.kernel
    }

    /// Sets an interface up or down.
    pub fn set_up(&self, name: &str, up: bool) -> Result<(), Error> {
        let doing = if up { "setting up" } else { "setting down" };
        self.set(name, &Settings::default().up(up), doing)
    }

    /// Sets the MTU, in octets.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), Error> {
        self.set(name, &Settings::default().mtu(mtu), "setting the MTU of")
    }

    /// Returns the MTU, in octets.
    pub fn mtu(&self, name: &str) -> Result<u32, Error> {
        self.link(name, "reading the MTU of").map(|link| link.mtu)
    }

    /// Returns the MAC address.
    pub fn mac(&self, name: &str) -> Result<Mac, Error> {
        let doing = "reading the Ethernet address of";
        let none = || Error::Refused { what: format!("{doing} `{name}`"), why: "it has none".to_owned() };
        self.link(name, doing)?.mac.ok_or_else(none)
    }

    /// Adds an IPv4 address to the interface; the kernel adds the route to the network by itself.
    pub fn add_address(&self, name: &str, ip: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let (prefix, index) = (network(ip, prefix)?, self.index(name)?);
        self.kernel
            .add_address(index, prefix)
            .map_err(|e| Error::system(format!("adding the address {prefix} to `{name}`"), e))
    }

    /// Adds a static neighbour, which needs no ARP.
    pub fn add_neighbour(&self, name: &str, ip: Ipv4Addr, mac: Mac) -> Result<(), Error> {
        self.kernel
            .add_neighbour(self.index(name)?, ip.into(), mac)
            .map_err(|e| Error::system(format!("adding the neighbour {ip} on `{name}`"), e))
    }

    /// Adds a route through a gateway on a connected network.
    pub fn add_route(&self, to: Ipv4Addr, prefix: u8, via: Ipv4Addr) -> Result<(), Error> {
        let to = network(to, prefix)?;
        self.kernel
            .add_route(to, via.into())
            .map_err(|e| Error::system(format!("adding the route {to} via {via}"), e))
    }

    /// Returns the interface's index.
    pub fn index(&self, name: &str) -> Result<u32, Error> {
        self.link(name, "looking for").map(|link| link.index)
    }

    /// Returns true if the namespace has an interface of this name.
    pub fn exists(&self, name: &str) -> Result<bool, Error> {
        match self.index(name) {
            Ok(_) => Ok(true),
            Err(Error::NoInterface { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Returns an interface; `doing` is the operation for error messages.
    pub(crate) fn link(&self, name: &str, doing: &str) -> Result<Link, Error> {
        told(name, doing, |name| self.kernel.link(name))
    }

    /// Changes an interface; `doing` is the operation for error messages.
    pub(crate) fn set(&self, name: &str, settings: &Settings, doing: &str) -> Result<(), Error> {
        told(name, doing, |name| self.kernel.set_link(name, settings))
    }
}

/// Makes a request about an interface, after checking its name.
fn told<T>(name: &str, doing: &str, ask: impl FnOnce(&str) -> io::Result<T>) -> Result<T, Error> {
    Name::new(name)?;
    ask(name).map_err(|e| Error::system(format!("{doing} `{name}`"), e))
}

fn network(ip: Ipv4Addr, len: u8) -> Result<Prefix, Error> {
    let wrong = || Error::Range { what: "a prefix length", found: len.into(), expected: "0 to 32" };
    Prefix::new(ip, len).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
