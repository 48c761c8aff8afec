//! Macvtap: a station of its own on an interface of the host, whose frames are read and written like those of
//! a TAP. Frames that arrive for its address wait in a queue of the kernel, of the length of the device's
//! `txqueuelen`: the ingress queue of seed paper 000, section 3.6.
//!
//! Opened several times it has several queues, over which the kernel spreads frames by its own hash (or that
//! of the hardware); it cannot be steered by a program like a TAP. So urgent frames find their way past the others as copies
//! ([`TapConfig::urgent`]).
//!
//! A macvtap is an interface that exists until it is deleted: see [`crate::Undo`].

pub(crate) mod copies;
mod node;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netlink::{Kind, Netlink, Settings};

use crate::netns::within;
use crate::rename_into_place::{name_before, rename_into_place};
use crate::request::{InterfaceRequest, Name, ioctl};
use crate::tap::making::{offloads, sizes};
use crate::tap::{Spread, TapConfig, Traits};
use crate::undo::{Undo, UndoGuard};
use crate::{Error, Links, Tap};

pub use netlink::MacvtapMode as Mode;

/// `TUNSETSNDBUF`: `_IOW('T', 212, int)`.
const SET_SEND_BUFFER: libc::c_ulong = 0x4004_54d4;
/// Group of our interfaces, set from their creation, by which one that was left behind is told from those of
/// others (`ip link show group 29298`).
pub(crate) const GROUP: u32 = 0x7272;
/// Alias of the interface, for human readers.
const ALIAS: &str = "ringroad";

/// Creates a macvtap in this mode on the interface `lower`, and opens its queues. Its MTU is at most that of
/// the interface; in mode passthru it has the address of the interface. It is deleted when the returned
/// device is dropped, or by its [`Undo`].
///
/// # Errors
/// One line: there is no such interface, it cannot carry a macvtap, the name is taken, or permission is
/// missing. Nothing is left behind.
pub fn open(name: &str, on: (&str, Mode), config: &TapConfig<'_>) -> Result<Tap, Error> {
    crate::tap::check_queues(config.queues.into())?;
    let kernel_name = Name::new(name)?;
    within(config.netns, || open_here((name, kernel_name), on, config))
}

fn open_here(
    (name, kernel_name): (&str, Name),
    (lower, mode): (&str, Mode),
    config: &TapConfig<'_>,
) -> Result<Tap, Error> {
    let links = Links::here()?;
    let kernel = links.kernel();
    let below = links.index(lower)?;
    Undo::of_macvtap(name).now();
    if links.exists(name)? {
        return Err(Error::InUse { name: name.to_owned() });
    }
    let before = name_before(name);
    // Armed in advance: if a later step fails, the interface is deleted without needing a new descriptor.
    let mut undo = UndoGuard::of_link(open_kernel()?, &before);
    let kind = Kind::Macvtap { lower: below, mode };
    kernel.make_link(kind, &settings(&before, mode, config)).map_err(|e| {
        undo.disarm();
        refusal((name, lower), config, &links, e)
    })?;
    let index = links.index(&before)?;
    undo.found(index);
    kernel
        .set_link(index, &Settings::default().alias(ALIAS))
        .map_err(|e| Error::system(format!("marking `{name}`"), e))?;
    let device = node::find(&before, index)?;
    let mut queues = (0..config.queues)
        .map(|_| open_queue(name, kernel_name, &device, config.queues > 1))
        .collect::<Result<Vec<_>, Error>>()?;
    let traits = Traits::new(offloads(name, &queues, config.offload)?, Spread::Kernel);
    let state = Settings::default().up(true).all_multicast(true);
    rename_into_place(kernel, index, name, state)?;
    let copies = if config.urgent { copies::open(index).ok() } else { None };
    let traits = if copies.is_some() { traits.with_urgent_copies() } else { traits };
    queues.extend(copies);
    Ok(Tap::of_queues(name, queues, traits, links)?.undone_by(undo))
}

fn open_kernel() -> Result<Netlink, Error> {
    Netlink::open().map_err(|e| Error::system("opening a socket to the kernel's interfaces", e))
}

/// Settings that it has from its creation.
fn settings(name: &str, mode: Mode, config: &TapConfig<'_>) -> Settings {
    let mac = config.mac.filter(|_| mode != Mode::Passthru);
    sizes(&TapConfig { mac, ..config.clone() }).name(name).group(GROUP)
}

/// Translates the kernel's answer to the creation.
fn refusal((name, lower): (&str, &str), config: &TapConfig<'_>, links: &Links, error: io::Error) -> Error {
    let why = match error.raw_os_error() {
        Some(libc::EEXIST) => return Error::InUse { name: name.to_owned() },
        Some(libc::EOPNOTSUPP) => {
            "this kernel has no macvtap: load the driver (`modprobe macvtap`)".to_owned()
        }
        Some(libc::EBUSY) => format!("`{lower}` is in a bridge, bond or Open vSwitch; take it out of there"),
        Some(libc::EADDRINUSE) => {
            format!("another station on `{lower}` has the same Ethernet address; choose another `mac`")
        }
        Some(libc::EINVAL) if links.mtu(lower).is_ok_and(|mtu| config.mtu > mtu) => {
            format!("its MTU of {} is more than that of `{lower}`; set `mtu` to that", config.mtu)
        }
        Some(libc::EINVAL) => format!(
            "`{lower}` takes none in this mode: it is no Ethernet interface, or has macvtaps or macvlans of the other kind (passthru or not)"
        ),
        _ => return Error::system(format!("making the macvtap `{name}` on `{lower}`"), error),
    };
    Error::Refused { what: format!("cannot make the macvtap `{name}` on `{lower}`"), why }
}

fn open_queue(name: &str, kernel_name: Name, device: &node::Device, several: bool) -> Result<OwnedFd, Error> {
    let queue = device.open()?;
    let multi = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | multi;
    let mut request = InterfaceRequest::new(kernel_name, &(flags as u16).to_ne_bytes());
    let mut buffer = libc::c_int::MAX;
    let settled = request.send(queue.as_fd(), libc::TUNSETIFF).and_then(|()| {
        // SAFETY: the request reads an `int`.
        unsafe { ioctl(queue.as_fd(), SET_SEND_BUFFER, &mut buffer) }
    });
    settled.map_err(|e| Error::system(format!("opening a queue of the macvtap `{name}`"), e)).map(|()| queue)
}
