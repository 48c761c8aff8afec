//! TAP in a bridge of the host's kernel. The bridge belongs to the host, and stays; the TAP leaves it when
//! the kernel removes the TAP.

use netlink::Settings;

use crate::membership::Membership;
use crate::netns::within;
use crate::{Error, Links, Tap, TapConfig};

/// Creates the TAP `name` and adds it to `bridge`, in the same namespace.
///
/// # Errors
/// One line: there is no such bridge, the name is taken, or permission is missing. Nothing is left behind.
pub fn open(name: &str, bridge: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    within(config.netns, || {
        let config = TapConfig { bridge: Some(bridge), netns: None, ..config.clone() };
        Ok(Tap::open(name, &config)?.member_of(Membership::in_kernel(name, bridge)))
    })
}

/// Adds the TAP `name` to `bridge`, both in the calling thread's namespace.
pub(crate) fn join(links: &Links, name: &str, bridge: &str) -> Result<(), Error> {
    put_in(links, (name, links.index(name)?), bridge)
}

/// Adds an interface, by its index, to a bridge; its name is for error messages.
pub(crate) fn put_in(links: &Links, (name, member): (&str, u32), bridge: &str) -> Result<(), Error> {
    let settings = Settings::default().master(links.index(bridge)?);
    links.kernel().set_link(member, &settings).map_err(|e| match e.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL) => Error::Refused {
            what: format!("cannot put `{name}` into `{bridge}`"),
            why: format!("`{bridge}` is no bridge; make one with `ip link add NAME type bridge`"),
        },
        _ => Error::system(format!("putting `{name}` into the bridge `{bridge}`"), e),
    })
}
