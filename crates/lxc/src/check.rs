//! Validation of a container's values before they become lines of LXC's configuration, where a line feed or a `#` would change
//! their meaning.

use std::collections::BTreeSet;

use crate::{Container, Error, Link, Nic, Root};

/// Longest interface name, in octets.
const NAME: usize = 15;
/// Valid MTUs: the minimum of IPv4, and the maximum of `lxc.net.N.mtu`.
const MTU: std::ops::RangeInclusive<u32> = 68..=65535;

/// Checks that each value of a container can be written to LXC's configuration.
///
/// # Errors
/// One line: an invalid or duplicate name, a multicast Ethernet address, or an init that is not given by its path.
pub fn check(container: &Container) -> Result<(), Error> {
    plain("the name of a container", &container.name, 64)?;
    plain("the host name of a container", &container.host_name, 64)?;
    if let Root::Folder { path, init } = &container.root {
        let path = path.to_str().unwrap_or_default();
        whole_line("the root of a container", path)?;
        started(init)?;
    }
    let mut inside = BTreeSet::new();
    let mut outside = BTreeSet::new();
    for nic in &container.nics {
        interface(nic)?;
        if !inside.insert(nic.name.as_str()) || !outside.insert(outer(nic)) {
            return Err(fault("the name of an interface", &nic.name, "a unique name, inside and outside"));
        }
    }
    Ok(())
}

/// Name of a NIC's other end or lower interface outside. It is unique, except that several macvlans may share a lower interface.
fn outer(nic: &Nic) -> (&str, &str) {
    match &nic.link {
        Link::Veth { peer } => (peer, ""),
        Link::Phys { link } => (link, ""),
        Link::Macvlan { parent, .. } => (parent, &nic.name),
    }
}

fn interface(nic: &Nic) -> Result<(), Error> {
    plain("the name of an interface", &nic.name, NAME)?;
    let (Link::Veth { peer: outer } | Link::Macvlan { parent: outer, .. } | Link::Phys { link: outer }) =
        &nic.link;
    plain("the name of an interface", outer, NAME)?;
    if let Some(mac) = nic.mac.filter(|mac| mac[0] & 1 != 0) {
        return Err(fault("the address of an interface", &format!("{mac:02x?}"), "a unicast address"));
    }
    match nic.mtu.filter(|mtu| !MTU.contains(mtu)) {
        Some(mtu) => Err(fault("the MTU of an interface", &mtu.to_string(), "68 to 65535")),
        None => Ok(()),
    }
}

/// Checks that a name is safe everywhere: as a file name, in a path, as a command line argument.
fn plain(what: &'static str, name: &str, most: usize) -> Result<(), Error> {
    let fits = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_');
    if begins && name.len() <= most && name.bytes().all(fits) {
        return Ok(());
    }
    Err(fault(what, name, "at most 64 letters, digits, `.`, `_` and `-` (15 for an interface)"))
}

/// Checks for an absolute path in one line, without characters that LXC would interpret.
fn whole_line(what: &'static str, path: &str) -> Result<(), Error> {
    let odd = |letter: char| letter.is_control() || letter == '#';
    if path.starts_with('/') && path.len() > 1 && !path.contains(odd) && path.trim() == path {
        return Ok(());
    }
    Err(fault(what, path, "a path from `/`, without line feeds, `#`, or blanks at its end"))
}

fn started(init: &[String]) -> Result<(), Error> {
    let odd = |letter: char| letter.is_control() || letter.is_whitespace() || "#\"'\\".contains(letter);
    let shown = init.join(" ");
    let is_path = init.first().is_some_and(|first| first.starts_with('/'));
    if is_path && init.iter().all(|word| !word.is_empty() && !word.contains(odd)) {
        return Ok(());
    }
    Err(fault("the init of a container", &shown, "a path from its root, and words without blanks or quotes"))
}

fn fault(what: &'static str, found: &str, expected: &'static str) -> Error {
    // Control characters are escaped, so that the error stays on one line.
    Error::Fault { what, found: found.escape_debug().to_string(), expected }
}
