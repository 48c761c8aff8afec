//! A TAP device as a port: what the kernel sends out of the interface comes from the [`TapSource`], and what the
//! [`TapSink`] takes arrives at the kernel as if from the wire. One system call a frame each way, no more: the driver
//! has no call for several.
//!
//! The device is not persistent: the kernel takes it away with its last descriptor.

mod counters;
mod sink;
mod source;

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use counters::{ReadCounters, WriteCounters};
pub use sink::TapSink;
pub use source::TapSource;

use crate::request::{InterfaceRequest, Name};
use crate::{Error, Links, Mac, Netns};

/// Largest frame that a source shows, in octets.
pub const LARGEST_FRAME: usize = 2048;
/// Ethernet header with one VLAN tag, in octets.
const HEADERS: usize = 18;
/// Most queues of one device (`MAX_TAP_QUEUES` of the driver).
const MOST_QUEUES: usize = 256;

/// Whose the device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// A new device; it is an error if the name exists.
    #[default]
    New,
    /// The persistent device of this name if there is one, else a new one.
    NewOrExisting,
}

/// How to make a TAP.
#[derive(Clone, Debug)]
pub struct TapConfig<'a> {
    /// Queues, each with a source and a sink of its own: 1 to 256.
    pub queues: u16,
    /// Largest IP packet, in octets: 68 to 2030.
    pub mtu: u32,
    /// Frames that wait in the kernel for the source; what comes then is dropped there.
    pub queue_len: u32,
    /// The kernel's Ethernet address on the device; the kernel draws one if there is none.
    pub mac: Option<Mac>,
    /// Whether to set the device up.
    pub up: bool,
    /// Whose the device is.
    pub ownership: Ownership,
    /// The namespace it lies in; the calling thread's if there is none.
    pub netns: Option<&'a Netns>,
}

impl Default for TapConfig<'_> {
    fn default() -> Self {
        Self {
            queues: 1,
            mtu: 1500,
            queue_len: 1000,
            mac: None,
            up: true,
            ownership: Ownership::New,
            netns: None,
        }
    }
}

/// An open TAP: the descriptors of its queues.
///
/// It can be had twice ([`Tap::try_clone`]) and handed to another process ([`Tap::descriptors`],
/// [`Tap::from_descriptors`]): the device lives, and frames wait in it, until the last of them is dropped.
#[derive(Debug)]
pub struct Tap {
    name: String,
    /// At least one.
    queues: Vec<OwnedFd>,
    /// None where the descriptors came from another process, which keeps the device in order.
    links: Option<Links>,
}

/// What all ends of one device know together.
#[derive(Debug)]
struct Device {
    name: String,
    gone: AtomicBool,
    reported: AtomicBool,
}

/// One queue of a device.
#[derive(Debug)]
struct Queue {
    fd: OwnedFd,
    device: Arc<Device>,
}

impl Tap {
    /// Makes (or opens) the device and sets its MTU, queue length, address and state. On an error nothing is left.
    pub fn open(name: &str, config: &TapConfig<'_>) -> Result<Self, Error> {
        check(config)?;
        let kernel_name = Name::new(name)?;
        match config.netns {
            Some(netns) => netns.run(|| Self::open_here(name, kernel_name, config))?,
            None => Self::open_here(name, kernel_name, config),
        }
    }

    fn open_here(name: &str, kernel_name: Name, config: &TapConfig<'_>) -> Result<Self, Error> {
        let queues = (0..config.queues)
            .map(|number| open_queue(name, kernel_name, config, number == 0))
            .collect::<Result<_, Error>>()?;
        let links = Links::here()?;
        if let Some(mac) = config.mac {
            links.set_mac(name, mac)?;
        }
        links.set_mtu(name, config.mtu)?;
        links.set_queue_len(name, config.queue_len)?;
        if config.up {
            links.set_up(name, true)?;
        }
        Ok(Self { name: name.to_owned(), queues, links: Some(links) })
    }

    /// A device that another process opened, by the descriptors of its queues in their order.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn from_descriptors(name: &str, queues: Vec<OwnedFd>) -> Result<Self, Error> {
        Name::new(name)?;
        check_queues(queues.len())?;
        Ok(Self { name: name.to_owned(), queues, links: None })
    }

    /// The descriptors of its queues, to be sent to another process.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }

    /// The same device once more. Whoever reads first has the frame: only one of them is to be served at a time.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let queues = self.queues.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
        let queues =
            queues.map_err(|e| Error::system(format!("opening the TAP `{}` once more", self.name), e))?;
        Ok(Self { name: self.name.clone(), queues, links: None })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interfaces of the namespace the device lies in; only whoever opened the device has them.
    pub fn links(&self) -> Option<&Links> {
        self.links.as_ref()
    }

    /// Gives the device another MTU and queue length; nothing where somebody else opened it, who sees to that.
    ///
    /// # Errors
    /// The device does not take them, or lies in another namespace by now.
    pub fn resize(&self, mtu: u32, queue_len: u32) -> Result<(), Error> {
        let Some(links) = &self.links else { return Ok(()) };
        if links.mtu(&self.name)? != mtu {
            links.set_mtu(&self.name, mtu)?;
        }
        links.set_queue_len(&self.name, queue_len)
    }

    /// Source and sink of a device with one queue; further queues are closed. The device lives until both are dropped.
    pub fn split(self) -> (TapSource, Arc<TapSink>) {
        let Self { name, mut queues, .. } = self;
        port(&Device::named(&name), queues.swap_remove(0))
    }

    /// Source and sink of each queue. The device lives until the last of them is dropped.
    pub fn into_ports(self) -> Vec<(TapSource, Arc<TapSink>)> {
        let device = Device::named(&self.name);
        self.queues.into_iter().map(|fd| port(&device, fd)).collect()
    }
}

fn port(device: &Arc<Device>, fd: OwnedFd) -> (TapSource, Arc<TapSink>) {
    let queue = Arc::new(Queue { fd, device: Arc::clone(device) });
    (TapSource::new(Arc::clone(&queue)), Arc::new(TapSink::new(queue)))
}

impl Device {
    fn named(name: &str) -> Arc<Self> {
        let (gone, reported) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { name: name.to_owned(), gone, reported })
    }

    /// Notes that the interface was deleted under us.
    fn vanish(&self) {
        self.gone.store(true, Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// The sentence that says so, the first time it is asked for.
    fn take_trouble(&self) -> Option<String> {
        let first = self.is_gone() && !self.reported.swap(true, Relaxed);
        first.then(|| {
            format!("the interface `{}` was deleted; its port is dead until the next start", self.name)
        })
    }
}

fn check(config: &TapConfig<'_>) -> Result<(), Error> {
    let largest = (LARGEST_FRAME - HEADERS) as u32;
    if !(68..=largest).contains(&config.mtu) {
        return Err(Error::Range {
            what: "the MTU of a TAP",
            found: config.mtu.into(),
            expected: "68 to 2030",
        });
    }
    check_queues(config.queues.into())
}

fn check_queues(count: usize) -> Result<(), Error> {
    if (1..=MOST_QUEUES).contains(&count) {
        return Ok(());
    }
    let found = count as u64;
    Err(Error::Range { what: "the number of queues of a TAP", found, expected: "1 to 256" })
}

fn open_queue(name: &str, kernel_name: Name, config: &TapConfig<'_>, first: bool) -> Result<OwnedFd, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")
        .map_err(|e| match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => Error::NoDriver,
            _ => Error::system("opening /dev/net/tun", e),
        })?;
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI;
    if config.queues > 1 {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    if first && config.ownership == Ownership::New {
        flags |= libc::IFF_TUN_EXCL;
    }
    let mut request = InterfaceRequest::new(kernel_name, &(flags as u16).to_ne_bytes());
    request.send(file.as_fd(), libc::TUNSETIFF).map_err(|e| refusal(name, e))?;
    Ok(file.into())
}

/// What the driver's answer to TUNSETIFF means.
fn refusal(name: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Error::InUse { name: name.to_owned() },
        Some(libc::EINVAL) => Error::NotTap { name: name.to_owned() },
        _ => Error::system(format!("making the TAP `{name}`"), error),
    }
}
