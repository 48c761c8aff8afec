//! Addresses of PCI devices.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Address of a PCI device. `0000:01:10.1` is domain, bus, device and function, all hexadecimal. It stays the same when an
/// interface is renamed or moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        parse(text).ok_or("not the address of a PCI device: expected e.g. 0000:01:10.1")
    }
}

fn parse(text: &str) -> Option<Address> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':')?;
    let number = |digits: &str, most: u32| {
        let plain = (1..=8).contains(&digits.len()) && digits.bytes().all(|octet| octet.is_ascii_hexdigit());
        let number = plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()?;
        (number <= most).then_some(number)
    };
    Some(Address {
        domain: number(domain, u32::MAX)?,
        bus: number(bus, 0xff)? as u8,
        device: number(device, 0x1f)? as u8,
        function: number(function, 7)? as u8,
    })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}
