//! Atomic appearance of an interface: it is created under a temporary name, configured by its index, and then
//! renamed and set up in one step. Other programs that wait for its name may move, rename or use it at once.

use netlink::{Netlink, Settings};

use crate::Error;

/// Returns the temporary name of an interface until it appears as `name`: the same each time, so that one
/// that was left behind is found.
pub(crate) fn name_before(name: &str) -> String {
    // FNV-1a.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    format!("rr~{hash:08x}")
}

/// Renames the interface with this index to its name, together with these settings.
///
/// # Errors
/// Another interface has the name.
pub(crate) fn rename_into_place(
    kernel: &Netlink,
    index: u32,
    name: &str,
    settings: Settings,
) -> Result<(), Error> {
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
