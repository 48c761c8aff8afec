//! A TAP that is put into a bridge of the host's kernel. The bridge is somebody else's, and stays; the TAP leaves it when
//! the kernel takes the TAP away.

use crate::membership::Membership;
use crate::netlink::{Message, Netlink};
use crate::{Error, Links, Tap, TapConfig};

/// Makes the TAP `name` and puts it into `bridge`, in the same namespace.
///
/// # Errors
/// One line: there is no such bridge, the name is taken, no rights. Nothing is left then.
pub fn open(name: &str, bridge: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    match config.netns {
        Some(netns) => netns.run(|| open_here(name, bridge, config))?,
        None => open_here(name, bridge, config),
    }
}

fn open_here(name: &str, bridge: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    let config = TapConfig { bridge: Some(bridge), netns: None, ..config.clone() };
    Ok(Tap::open(name, &config)?.member_of(Membership::in_kernel(name, bridge)))
}

/// Puts the TAP `name` into `bridge`, both of the calling thread's namespace.
pub(crate) fn join(links: &Links, name: &str, bridge: &str) -> Result<(), Error> {
    let (member, index) = (links.index(name)?, links.index(bridge)?);
    let kernel =
        Netlink::open().map_err(|e| Error::system("opening a socket to the kernel's interfaces", e))?;
    put_in(&kernel, (name, member), (bridge, index))
}

/// Puts an interface into a bridge, each by its index; their names are for what is said.
pub(crate) fn put_in(
    kernel: &Netlink,
    (name, member): (&str, u32),
    (bridge, index): (&str, u32),
) -> Result<(), Error> {
    let message =
        Message::link(libc::RTM_SETLINK, 0, member, 0).with(libc::IFLA_MASTER, &index.to_ne_bytes());
    kernel.ask(&message).map_err(|e| match e.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::EINVAL) => Error::Refused {
            what: format!("cannot put `{name}` into `{bridge}`"),
            why: format!("`{bridge}` is no bridge; make one with `ip link add NAME type bridge`"),
        },
        _ => Error::system(format!("putting `{name}` into the bridge `{bridge}`"), e),
    })
}
