//! How an interface that we make appears: under a name that nobody waits for until it is as it is to be, and then under its own,
//! up, at one stroke. Whoever waits for the name may move, rename or use the interface at once. What is done after it was made is
//! done by its index.

use netlink::{Netlink, Settings};

use crate::Error;

/// The name that an interface has until it appears as `name`: the same each time, so that one that was left behind is found.
pub(crate) fn name_before(name: &str) -> String {
    // FNV-1a.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    format!("rr~{hash:08x}")
}

/// Lets the interface with this index appear under its name, and with these settings.
///
/// # Errors
/// Another one has the name.
pub(crate) fn appear(kernel: &Netlink, index: u32, name: &str, settings: Settings) -> Result<(), Error> {
    kernel.set_link(index, &settings.name(name)).map_err(|e| match e.raw_os_error() {
        Some(libc::EEXIST) => Error::InUse { name: name.to_owned() },
        _ => Error::system(format!("naming the interface `{name}`"), e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Name;

    #[test]
    fn a_name_before_is_a_name_and_each_interface_has_its_own() {
        let names = ["edge.wan", "edge.lan", "a", "abcdefghijklmno"].map(name_before);
        for (n, name) in names.iter().enumerate() {
            assert!(Name::new(name).is_ok(), "{name}");
            assert!(!names[..n].contains(name), "{names:?}");
        }
        assert_eq!(name_before("edge.wan"), names[0]);
    }
}
