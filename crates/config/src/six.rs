//! IPv6 of a NIC: its addresses, and its router advertisements (`[router.nic.ra]`).

mod address;
mod advertise;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use crate::address::{Address6, Prefix6};
pub use advertise::Advertise;

pub(crate) use address::gateway;

use crate::keys::{Change, Entry, Value};
use crate::mac::Mac;
use crate::plan::Nic;
use crate::section::{Section, WithLine};

/// Most IPv6 addresses of a NIC, as the firmware's tables have room for.
const MOST_ADDRESSES: usize = bootinfo::MAX_ADDRESSES;
/// Length of the prefix of link-local addresses.
const LINK_LOCAL: u8 = 64;
/// Least MTU of IPv6 (RFC 8200, 5).
pub(crate) const LEAST_MTU: u32 = 1280;

/// IPv6 of a NIC or of a VLAN on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Six {
    /// Router's own addresses; without any it does not take part in IPv6. Its link-local address need not be among them:
    /// it is derived from the Ethernet address then.
    pub addresses: Vec<Address6>,
    /// Router advertisements; `None`: it sends none.
    pub advertise: Option<Advertise>,
}

impl Six {
    /// Has its link-local address be among its addresses, that of a NIC with this Ethernet address if the file gives none.
    pub(crate) fn name_link_local(&mut self, mac: Mac) {
        if !self.addresses.is_empty() && !self.has_link_local() {
            self.addresses.insert(0, Address6 { ip: mac.link_local(), len: LINK_LOCAL });
        }
    }

    /// Returns true if the file gives a link-local address.
    fn has_link_local(&self) -> bool {
        self.addresses.iter().any(|own| own.ip.is_unicast_link_local())
    }

    /// Returns true if there is no room for a link-local address beside those of the file.
    pub(crate) fn is_full(&self) -> bool {
        self.addresses.len() >= MOST_ADDRESSES && !self.has_link_local()
    }
}

/// Keys of a NIC about IPv6.
pub(crate) fn keys() -> Vec<Entry<Nic>> {
    vec![Entry::new(
        "ra.KEY",
        ("as below", "none"),
        "router advertisements to the hosts behind it",
        Change::Replaces,
        |nic| nic.six.advertise.as_ref().map(|wanted| Value::Text(wanted.to_string())),
    )]
}

/// Returns true if a text is meant as an IPv6 address or prefix.
pub(crate) fn is_six(text: &str) -> bool {
    text.contains(':')
}

/// Reads the IPv6 addresses among all addresses of a NIC, and its router advertisements.
pub(crate) fn read(section: &Section<'_>, mtu: u32) -> Six {
    let addresses = addresses(section);
    let advertise = advertise::read(section, &addresses);
    if !addresses.is_empty() && mtu < LEAST_MTU {
        let what = format!("{mtu} is too small for IPv6; write at least {LEAST_MTU}, or no IPv6 address");
        section.fault(section.line_of("mtu"), "mtu", what);
    }
    Six { addresses, advertise }
}

/// Reads the IPv6 addresses of the key `address`.
pub(crate) fn addresses(section: &Section<'_>) -> Vec<Address6> {
    let texts = section.texts("address", "\"192.0.2.1/24\"").into_iter().filter(|at| is_six(at.value));
    let texts: Vec<WithLine<&str>> = texts.collect();
    if let Some(extra) = texts.get(MOST_ADDRESSES) {
        let what = format!("{} IPv6 addresses are too many; a NIC has at most {MOST_ADDRESSES}", texts.len());
        section.fault(extra.line, "address", what);
    }
    let mut addresses: Vec<Address6> = Vec::new();
    for WithLine { value, line } in texts.into_iter().take(MOST_ADDRESSES) {
        match address::own(value) {
            Ok(address) if addresses.iter().any(|known| known.ip == address.ip) => {
                section.fault(line, "address", format!("{value:?} is there twice; remove one"));
            }
            Ok(address) => addresses.push(address),
            Err(what) => section.fault(line, "address", what),
        }
    }
    addresses
}
