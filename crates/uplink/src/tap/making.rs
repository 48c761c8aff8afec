//! Creation of a TAP, until it appears under its name.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use netlink::{Netlink, Settings};
use port::Offloads;

use super::traits::{Spread, Traits};
use super::{Ownership, Tap, TapConfig, header};
use crate::rename_into_place::{name_before, rename_into_place};
use crate::request::{InterfaceRequest, Name};
use crate::undo::UndoGuard;
use crate::{Error, Links, bridge, steering};

/// Creates (or opens) a device in the calling thread's namespace.
pub(super) fn open(name: &str, config: &TapConfig<'_>) -> Result<Tap, Error> {
    Name::new(name)?;
    let links = Links::here()?;
    let is_new = config.ownership == Ownership::New || !links.exists(name)?;
    let before = if is_new { name_before(name) } else { name.to_owned() };
    let count = config.queues + u16::from(is_urgent(config, is_new));
    let mut queues = (0..count)
        .map(|number| open_queue(name, (before.as_str(), count), is_new && number == 0))
        .collect::<Result<Vec<_>, Error>>()?;
    // Whatever fails from here on, a device that was there before gets back what it had.
    let mut former = if is_new { None } else { former(&links, name, &queues)? };
    let traits = settle(name, &mut queues, config)?;
    if let Some(former) = former.as_mut().filter(|_| *traits.spread() == Spread::Ours) {
        former.note_steering();
    }
    let index = links.index(&before)?;
    let failed = |doing: &str, e| Error::system(format!("{doing} `{name}`"), e);
    links
        .kernel()
        .set_link(index, &sizes(config))
        .map_err(|e| failed("setting MTU, queue length and Ethernet address of", e))?;
    if let Some(bridge) = config.bridge {
        bridge::put_in(&links, (name, index), bridge)?;
    }
    let state = if config.up { Settings::default().up(true) } else { Settings::default() };
    rename_into_place(links.kernel(), index, name, state)?;
    let tap = Tap::of_queues(name, queues, traits, links)?;
    Ok(match former {
        Some(former) => tap.undone_by(former),
        None => tap,
    })
}

/// Returns the guard that gives a device that was there before its settings back.
fn former(links: &Links, name: &str, queues: &[OwnedFd]) -> Result<Option<UndoGuard>, Error> {
    let Some(queue) = queues.first() else { return Ok(None) };
    let link = links.link(name, "reading the settings of")?;
    let wrong = |e| Error::system(format!("keeping the settings of `{name}`"), e);
    let (queue, kernel) = (queue.try_clone().map_err(wrong)?, Netlink::open().map_err(wrong)?);
    let settings = Settings::default().mtu(link.mtu).queue_len(link.queue_len).up(link.up);
    Ok(Some(UndoGuard::of_settings(kernel, link.index, settings, queue)))
}

/// Returns true if urgent frames are to have a queue of their own: nobody else may rely on the number of queues of a new device.
fn is_urgent(config: &TapConfig<'_>, is_new: bool) -> bool {
    config.urgent && is_new && !config.in_turn
}

/// Returns the settings of a device from its creation.
pub(crate) fn sizes(config: &TapConfig<'_>) -> Settings {
    let sizes = Settings::default().mtu(config.mtu).queue_len(config.queue_len);
    match config.mac {
        Some(mac) => sizes.mac(mac),
        None => sizes,
    }
}

/// Opens one more of the queues of the device, which is still called `before`, or creates the device.
fn open_queue(name: &str, (before, queues): (&str, u16), makes: bool) -> Result<OwnedFd, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(|e| match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => Error::NoDriver,
            _ => Error::system("opening /dev/net/tun", e),
        })?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    if makes {
        flags |= libc::IFF_TUN_EXCL;
    }
    let mut request = InterfaceRequest::new(Name::new(before)?, &(flags as u16).to_ne_bytes());
    request.send(file.as_fd(), libc::TUNSETIFF).map_err(|e| refusal(name, e))?;
    Ok(file.into())
}

/// Initialises a device that was just opened: headers of a known size, and no offloads left to us until a
/// consumer accepts them; returns the offloads that may be left to the device.
pub(crate) fn offloads(name: &str, queues: &[OwnedFd], wanted: bool) -> Result<Offloads, Error> {
    let wrong = |e| Error::system(format!("settling the offloads of `{name}`"), e);
    let mut takes = Offloads::NONE;
    for queue in queues {
        header::set_size(queue.as_fd()).map_err(wrong)?;
        takes = header::able(queue.as_fd()).map_err(wrong)?;
    }
    Ok(if wanted { takes } else { Offloads::NONE })
}

/// Sets up offloads, and spreading of frames by our hash if the kernel supports it; without that there is no queue for urgent ones.
fn settle(name: &str, queues: &mut Vec<OwnedFd>, config: &TapConfig<'_>) -> Result<Traits, Error> {
    let takes = offloads(name, queues, config.offload)?;
    let (plain, hash) = (usize::from(config.queues), config.hash.unwrap_or_default());
    if let Some(first) = queues.first().filter(|_| queues.len() > plain) {
        if steering::steer_urgent(first.as_fd(), plain, hash).is_ok() {
            return Ok(Traits::new(takes, Spread::Ours).with_urgent_queue());
        }
        queues.truncate(plain);
    }
    let (Some(hash), Some(first)) = (config.hash.filter(|_| queues.len() > 1), queues.first()) else {
        return Ok(Traits::new(takes, Spread::Kernel));
    };
    let steered = if config.in_turn {
        steering::deal(first.as_fd(), queues.len())
    } else {
        steering::steer(first.as_fd(), queues.len(), hash)
    };
    Ok(Traits::new(
        takes,
        match steered {
            Ok(()) => Spread::Ours,
            Err(why) => Spread::refused(&why),
        },
    ))
}

/// Translates the driver's answer to TUNSETIFF.
fn refusal(name: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Error::InUse { name: name.to_owned() },
        Some(libc::EINVAL) => Error::NotTap { name: name.to_owned() },
        _ => Error::system(format!("making the TAP `{name}`"), error),
    }
}
