//! `xdp:IF`: an interface of the host, used exclusively by AF_XDP.

use std::fs;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use port::Sink;
use port::steer::Hash;
use ring::BURST;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities};
use sandbox::Confinement;
use serde_json::{Value, json};
use uplink::xdp::{XdpKernelCounters, XdpPorts, XdpReadCounters, XdpWriteCounters};
use uplink::{Xdp, XdpConfig, XdpParts};

use crate::attach::interface;
use crate::interfaces::{self, is_known};
use crate::shared_source::SharedSource;
use crate::{
    Attachment, AttachmentProperties, DataPlaneChange, Finding, HandedOver, Health, HostInterfaces,
    HostResource, Kind, MissingRequirement, News, NicRequirements, Outside, Place, Ports, Restored,
    ServiceContext, State, Watched, Work, lack,
};

pub(crate) const KIND: Kind = Kind {
    read: interface,
    traits: |_| AttachmentProperties {
        changes_interfaces: true,
        is_on_interface: true,
        ..AttachmentProperties::default()
    },
    counts: &[
        ("xdp_kernel", XdpKernelCounters::FIELDS),
        ("xdp_read", XdpReadCounters::FIELDS),
        ("xdp_write", XdpWriteCounters::FIELDS),
    ],
    ..Kind::plain("xdp", Some("INTERFACE"), Place::Outside { look, open, serve })
};

fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
    let name = wanted.attach.name();
    is_known(name).and_then(|()| interfaces::xdp(name, wanted.queues)).map_err(lack)?;
    if let Some(lacks) = lacks_xdp() {
        return Ok((State::No, lacks));
    }
    let driver = fs::read_link(interfaces::interface(name).join("device/driver")).ok();
    Ok(match driver.as_deref().and_then(Path::file_name) {
        Some(driver) => {
            (State::Ok, format!("zero-copy if {} can, else one copy more", driver.to_string_lossy()))
        }
        None => (State::Note, "no device behind it: the kernel copies each frame once more".to_owned()),
    })
}

/// Returns why AF_XDP is not available, if it is not.
fn lacks_xdp() -> Option<String> {
    let may = capabilities(None).is_ok_and(|sets| {
        sets.effective.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN)
            && sets.effective.contains(CapabilitySet::NET_RAW)
    });
    if !may {
        return Some("not permitted: run as root (CAP_BPF, CAP_NET_RAW and CAP_NET_ADMIN)".to_owned());
    }
    match socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => None,
        Err(Errno::AFNOSUPPORT) => {
            Some("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use macvtap: or tap:".to_owned())
        }
        Err(error) => Some(format!("no AF_XDP socket can be had: {error}")),
    }
}

/// Opens the interface. For threads that never sleep the driver works when they poll, instead of by its
/// interrupts.
fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let busy_poll = wanted.is_polled.then_some(BURST as u16);
    let (mtu, queue_len) = (wanted.mtu, wanted.queue_len);
    let config = XdpConfig { mtu, queue_len, busy_poll, ..XdpConfig::default() };
    Ok(Box::new(Xdp::open(wanted.attach.name(), &config)?))
}

/// Adopts an interface that was opened elsewhere.
fn interface_of(handed: HandedOver) -> Result<Xdp> {
    let parts: XdpParts = handed.parts()?;
    Ok(Xdp::from_parts(parts, handed.descriptors)?)
}

fn serve(handed: HandedOver, _: &NicRequirements, _: Confinement) -> Result<Arc<dyn Attachment>> {
    Ok(Arc::new(Interface(Mutex::new(Open { xdp: interface_of(handed)?, lent: None }))))
}

impl HostResource for Xdp {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        (json!(self.parts()), self.descriptors().collect())
    }

    fn resize(&self, before: &NicRequirements, now: &NicRequirements) -> Option<Work> {
        let fits = Self::resize(self, now.mtu).map_err(anyhow::Error::from);
        (before.mtu != now.mtu).then(|| -> Work { Box::new(move || fits) })
    }

    /// The sockets of a dead data plane cannot be served again; they are closed and opened anew.
    fn turn(&mut self, turn: DataPlaneChange) -> Result<()> {
        self.release();
        match turn {
            DataPlaneChange::Ended => Ok(()),
            // The kernel may not have released the old sockets yet.
            DataPlaneChange::Begins(_) => Ok(self.renew()?),
        }
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        Some(Box::new(self.try_clone().ok()?))
    }
}

impl Watched for Xdp {
    fn look(&self, host: &HostInterfaces) -> Health {
        let cable = host.links.as_ref().and_then(|links| self.cable(links));
        Health { is_there: self.is_there(), is_in_place: true, cable, lost: None }
    }

    fn restore(&self) -> Result<Restored> {
        bail!("it belongs nowhere")
    }
}

/// An interface being served. The lock is held during calls that wait for the kernel, and for I/O threads.
struct Interface(Mutex<Open>);

/// The open interface, and its ports once they were requested. The ports are kept when their router goes:
/// frames wait in them, and the kernel is given their memory only once.
struct Open {
    xdp: Xdp,
    lent: Option<Lent>,
}

struct Lent {
    threads: usize,
    sources: Vec<SharedSource>,
    read: Vec<Arc<XdpReadCounters>>,
    /// The ports without their sources.
    ports: XdpPorts,
}

impl Interface {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attachment for Interface {
    /// Each thread gets its share of the interface's queues, as far as they go. The NIC spreads frames over
    /// its queues by its own hash.
    fn ports(&self, service: &ServiceContext<'_>) -> Result<Ports> {
        let mut open = self.lock();
        let Open { xdp, lent } = &mut *open;
        let lent = match lent {
            Some(lent) => lent,
            none => none.insert(Lent::new(xdp, service.threads)?),
        };
        ensure!(
            lent.threads == service.threads,
            "the interface `{}` is served by {} threads while the run lasts, not {}: start the run anew",
            xdp.name(),
            lent.threads,
            service.threads
        );
        // What is for a control plane is found among the frames, of which the kernel drops any.
        lent.ports.overflow(service.wanted.has_control);
        let sources = lent.sources.iter().map(|home| home.lend().context("its port is still in use"));
        let sources = sources.collect::<Result<_>>()?;
        let (read, written, kernel) =
            (lent.read.clone(), lent.ports.sinks.clone(), lent.ports.health.counters());
        let outside = Outside::counting(move |visit| {
            let (all_read, all_written) = Default::default();
            read.iter().for_each(|queue| XdpReadCounters::add_all(&all_read, queue));
            written.iter().for_each(|sink| XdpWriteCounters::add_all(&all_written, &sink.counters()));
            visit("xdp.read", &all_read);
            visit("xdp.write", &all_written);
            visit("xdp.kernel", &*kernel);
        });
        let sinks = lent.ports.sinks.iter().map(|sink| sink.clone() as Arc<dyn Sink>).collect();
        let is_spread = service.wanted.hash == Hash::Flow;
        Ok(Ports { sources, is_spread, sinks, outside, ..Ports::default() })
    }

    /// Reads the kernel's counters, and checks whether the interface still exists. Does not wait for the
    /// lock.
    fn news(&self) -> Option<News> {
        let open = self.0.try_lock().ok()?;
        let health = &open.lent.as_ref()?.ports.health;
        health.look();
        health.take_trouble().map(News::of_link)
    }

    fn replace(&self, by: HandedOver) -> Result<()> {
        let by = interface_of(by)?;
        let mut open = self.lock();
        if let Some(lent) = &open.lent {
            lent.ports.revival.replace(&by)?;
        }
        open.xdp = by;
        Ok(())
    }

    fn state(&self) -> Option<(&'static str, String)> {
        // Does not wait for a thread that is opening or replacing it.
        Some(("xdp", self.0.try_lock().ok()?.xdp.parts().way()))
    }
}

impl Lent {
    fn new(xdp: &Xdp, threads: usize) -> Result<Self> {
        let mut ports = xdp.ports(threads)?;
        let read = ports.sources.iter().map(|source| source.counters()).collect();
        let sources = ports.sources.drain(..).map(|source| SharedSource::new(Box::new(source))).collect();
        Ok(Self { threads, sources, read, ports })
    }
}
