//! Addresses of a router that another station on the link has.

use std::io;
use std::net::IpAddr;

use netlink::Address;

use super::Router;
use crate::{Error, six};

impl Router {
    /// Returns the router's IPv6 addresses that duplicate address detection has found at another station (RFC 4862, 5.4), with the
    /// names of their interfaces. The kernel does not use them.
    ///
    /// # Errors
    /// The kernel does not answer.
    pub fn duplicates(&self) -> Result<Vec<(String, IpAddr)>, Error> {
        let speakers = || self.wanted.interfaces.iter().filter(|interface| six::takes_part(interface));
        if speakers().next().is_none() {
            return Ok(Vec::new());
        }
        let asking = |e: io::Error| Error::refused(&self.wanted.name, "reading its addresses", e);
        let mut found: Vec<Address> = self.own.kernel.all().map_err(asking)?;
        found.retain(|address| address.is_duplicate);
        let of_interface = |name: &str| {
            let index = self.own.index(name).ok();
            let own = found.iter().filter(|address| Some(address.index) == index);
            own.map(|address| (name.to_owned(), address.prefix.ip)).collect::<Vec<_>>()
        };
        Ok(speakers().flat_map(|interface| of_interface(&interface.name)).collect())
    }
}
