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
use std::os::fd::{AsFd, OwnedFd};
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
const MOST_QUEUES: u16 = 256;

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

/// An open TAP.
#[derive(Debug)]
pub struct Tap {
    name: String,
    first: (TapSource, Arc<TapSink>),
    others: Vec<(TapSource, Arc<TapSink>)>,
    links: Links,
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
        let device = Arc::new(Device {
            name: name.to_owned(),
            gone: AtomicBool::new(false),
            reported: AtomicBool::new(false),
        });
        let open = |first| {
            let fd = open_queue(name, kernel_name, config, first)?;
            let queue = Arc::new(Queue { fd, device: Arc::clone(&device) });
            Ok((TapSource::new(Arc::clone(&queue)), Arc::new(TapSink::new(queue))))
        };
        let first = open(true)?;
        let others = (1..config.queues).map(|_| open(false)).collect::<Result<_, Error>>()?;
        let links = Links::here()?;
        if let Some(mac) = config.mac {
            links.set_mac(name, mac)?;
        }
        links.set_mtu(name, config.mtu)?;
        links.set_queue_len(name, config.queue_len)?;
        if config.up {
            links.set_up(name, true)?;
        }
        Ok(Self { name: name.to_owned(), first, others, links })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interfaces of the namespace the device lies in.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The kernel's Ethernet address on the device.
    pub fn mac(&self) -> Result<Mac, Error> {
        self.links.mac(&self.name)
    }

    /// Source and sink of a device with one queue; further queues are closed. The device lives until both are dropped.
    pub fn split(self) -> (TapSource, Arc<TapSink>) {
        self.first
    }

    /// Source and sink of each queue. The device lives until the last of them is dropped.
    pub fn into_ports(self) -> Vec<(TapSource, Arc<TapSink>)> {
        std::iter::once(self.first).chain(self.others).collect()
    }
}

impl Device {
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
    if !(1..=MOST_QUEUES).contains(&config.queues) {
        let found = config.queues.into();
        return Err(Error::Range { what: "the number of queues of a TAP", found, expected: "1 to 256" });
    }
    Ok(())
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
