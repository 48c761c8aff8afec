//! The far side of a NIC: what it is plugged into. It stays while its router comes and goes, and when another router takes its place.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use config::{Attach, Nic, Plan, ReplayPace, Router, SocketSide, Spin, VhostThreads};
use nic_port::Receiver;
use port::{Bell, Frame, Offloads, Sink, Source};
use sandbox::Confinement;
use switch::Switch;
use uplink::{Door, Opened, Tap, Xdp, XdpConfig};
use vhost_user::backend::News;

use super::guest_port::GuestPort;
use super::links;
use super::peer::Handed;
use super::player::{self, Player};
use super::xdp::Interface;
use crate::capture::{self, Capture, Writer};
use crate::instance::About;
use crate::kernel_vhost::KernelNic;
use crate::supplies::{Plug, Supplies};
use crate::written;

/// What a NIC is plugged into.
pub(crate) struct Outlet {
    /// Which NIC: `router.nic`.
    label: String,
    attach: Attach,
    pub(crate) far: Far,
}

/// What lies beyond.
pub(crate) enum Far {
    /// Nothing.
    Nothing,
    /// A switch; each start of a router has a port of its own.
    Switch(Arc<Switch>),
    /// A TAP; each start of a router serves a duplicate.
    Tap(Tap),
    /// A capture file and the port that fills it.
    Capture {
        port: Arc<dyn Sink>,
        capture: Capture,
        /// Takes what is captured to the file.
        _writer: Writer,
        /// Whether somebody was told that it cannot be written.
        told: AtomicBool,
        /// What comes in, if something does.
        player: Option<Player>,
    },
    /// An interface by AF_XDP.
    Xdp(Interface),
    /// The port of a virtual machine of another program.
    Guest(Arc<GuestPort>),
    /// A peer that is handed the NIC's rings.
    Peer(Arc<Handed>),
    /// The kernel, which is handed the NIC's rings, and an interface.
    Kernel(Arc<KernelNic>),
    /// A port that came from outside.
    Port { source: Home, sink: Arc<dyn Sink> },
    /// Somebody else serves the NIC.
    Later,
}

impl Outlet {
    /// Finds or makes what a NIC of a plan's router is plugged into: a plug that was supplied for it, what is held for
    /// one with the same attachment, what was supplied, and else something new.
    pub(crate) fn find(
        (plan, router, nic): (&Plan, &Router, &Nic),
        switches: &[Arc<Switch>],
        supplies: &mut Supplies,
        held: &[Arc<Self>],
    ) -> Result<Arc<Self>> {
        let label = format!("{}.{}", router.name, nic.name);
        let far = match supplies.plugs.remove(&label) {
            Some(Plug::Port { source, sink }) => Far::Port { source: Home::new(source), sink },
            Some(Plug::Later) => Far::Later,
            None => match held.iter().find(|outlet| outlet.serves(&label, router, nic)) {
                Some(outlet) => return check_queues(outlet.queues(), router, nic).map(|()| outlet.clone()),
                None => match supplies.opened.remove(&label) {
                    Some(opened) => far((router, nic), opened, supplies)?,
                    None => open((plan, router, nic), switches, supplies)?,
                },
            },
        };
        Ok(Arc::new(Self { label, attach: nic.attach.clone(), far }))
    }

    /// Whether it can go on for this NIC. A plug belongs to its NIC, whatever the file says; a TAP or a capture to
    /// whoever names it.
    fn serves(&self, label: &str, router: &Router, nic: &Nic) -> bool {
        if matches!(self.far, Far::Kernel(_)) != (router.vhost == VhostThreads::Kernel) {
            return false;
        }
        match &self.far {
            Far::Port { .. } | Far::Later => self.label == label,
            Far::Guest(port) if !port.fits(nic) => false,
            Far::Tap(_)
            | Far::Capture { .. }
            | Far::Xdp(_)
            | Far::Guest(_)
            | Far::Peer(_)
            | Far::Kernel(_) => self.attach == nic.attach && (self.label == label || !nic.attach.is_common()),
            Far::Nothing | Far::Switch(_) => false,
        }
    }

    /// Queues of a device that was made with a number of them, and which it is.
    fn queues(&self) -> Option<(usize, String)> {
        match &self.far {
            Far::Tap(tap) => Some((tap.descriptors().len(), format!("the TAP `{}`", tap.name()))),
            Far::Kernel(nic) => {
                let tap = nic.tap();
                Some((tap.descriptors().len(), format!("the interface `{}`", tap.name())))
            }
            _ => None,
        }
    }

    /// Looks after what has to be looked after about ten times a second; what is to be told of it.
    pub(crate) fn look_after(&self) -> Option<(About, String)> {
        let of_peer = |process| About::Peer { process };
        let (about, news) = match &self.far {
            Far::Xdp(interface) => (About::Router, interface.look_after()),
            Far::Capture { player: Some(player), .. } => (About::Router, player.news()),
            Far::Guest(port) => {
                let news = port.look_after()?;
                let process = if let News::Served(process) = news { process } else { None };
                (of_peer(process), Some(news.to_string()))
            }
            Far::Peer(peer) => (of_peer(peer.process()), peer.news()),
            _ => return None,
        };
        Some((about, news?))
    }

    /// Whether somebody is at the other end of its cable, where that comes and goes.
    pub(crate) fn link(&self) -> Option<bool> {
        match &self.far {
            Far::Guest(port) => Some(port.is_there()),
            Far::Peer(peer) => Some(peer.is_there()),
            _ => None,
        }
    }

    /// Whether a router that starts should wait a little, so that its driver is offered what the peer can do that is handed
    /// its rings.
    pub(crate) fn awaits_peer(&self) -> bool {
        matches!(&self.far, Far::Peer(peer) if !peer.is_there())
    }

    /// The receiver of the NIC's rings, another program or the kernel.
    pub(crate) fn hands(&self) -> Option<Hands> {
        match &self.far {
            Far::Peer(peer) => Some(Hands::Peer(peer.clone())),
            Far::Kernel(kernel) => Some(Hands::Kernel(kernel.clone())),
            _ => None,
        }
    }

    /// Whether it is what the NIC `label` (`edge.wan`) is plugged into.
    pub(crate) fn is_of(&self, label: &str) -> bool {
        self.label == label
    }

    /// Puts a link in the place of one that was deleted, under whoever serves that.
    pub(crate) fn replace(&self, by: &Opened) -> Result<()> {
        match (&self.far, by) {
            (Far::Tap(old), Opened::Tap(new)) => Ok(old.replace(new)?),
            (Far::Kernel(kernel), Opened::Tap(new)) => kernel.replace(new),
            (Far::Xdp(interface), Opened::Xdp(new)) => interface.replace(new),
            _ => bail!("{} has no link", self.label),
        }
    }

    /// Whether it is a capture that cannot be written any more, or can again, since this was asked last.
    pub(crate) fn capture_news(&self) -> Option<CaptureNews> {
        let Far::Capture { capture, told, .. } = &self.far else { return None };
        let fails = capture.has_failed();
        let news = if fails { CaptureNews::Fails } else { CaptureNews::GoesOn };
        (told.swap(fails, Ordering::Relaxed) != fails).then_some(news)
    }
}

/// What is to be told of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureNews {
    /// Its file cannot be written.
    Fails,
    /// Its file is written again.
    GoesOn,
}

/// The receiver of a NIC's rings.
#[derive(Clone)]
pub(crate) enum Hands {
    /// A peer.
    Peer(Arc<Handed>),
    /// The kernel.
    Kernel(Arc<KernelNic>),
}

impl Hands {
    /// Features that the device model may offer, and who takes over what its driver sets up.
    pub(crate) fn terms(&self) -> (u64, Arc<dyn Receiver>) {
        match self {
            Self::Peer(peer) => {
                let (offer, receiver) = peer.terms();
                (offer.features, receiver)
            }
            Self::Kernel(kernel) => kernel.terms(),
        }
    }
}

fn is_handed(nic: &Nic) -> bool {
    matches!(nic.attach, Attach::VhostUserFrontend { .. })
}

fn open(
    (plan, router, nic): (&Plan, &Router, &Nic),
    switches: &[Arc<Switch>],
    supplies: &mut Supplies,
) -> Result<Far> {
    if let Attach::Switch(index) = &nic.attach {
        let name = plan.switches.get(*index).map(|switch| switch.name.as_str());
        let switch = switches.iter().find(|switch| Some(switch.name()) == name);
        return Ok(Far::Switch(switch.context("a switch that is not there")?.clone()));
    }
    match open_uplink(router, nic)? {
        Some(opened) => far((router, nic), opened, supplies),
        None => Ok(Far::Nothing),
    }
}

/// What lies beyond what was opened.
fn far((router, nic): (&Router, &Nic), opened: Opened, supplies: &mut Supplies) -> Result<Far> {
    let confinement = supplies.confinement;
    let label = format!("{}.{}", router.name, nic.name);
    Ok(match opened {
        Opened::Tap(tap) if router.vhost == VhostThreads::Kernel => {
            Far::Kernel(KernelNic::new((router, nic), tap, supplies)?)
        }
        Opened::Tap(tap) => Far::Tap(tap),
        Opened::Capture(file) => captured(&label, file, None, confinement)?,
        Opened::Replay { capture, replay, recorded } => {
            let player = Player::start(&label, replay, recorded, confinement)?;
            captured(&label, capture, Some(player), confinement)?
        }
        Opened::Xdp(xdp) => Far::Xdp(Interface::new(xdp)),
        Opened::Door(door) if is_handed(nic) => Far::Peer(Handed::new(&label, door, confinement)?),
        Opened::Door(door) => Far::Guest(GuestPort::new(router, nic, door, confinement)?),
    })
}

/// Opens what a NIC is plugged into outside; nothing where it is plugged into nothing, or into something of this program.
///
/// # Errors
/// One line that says what the host does not give.
pub fn open_uplink(router: &Router, nic: &Nic) -> Result<Option<Opened>> {
    Ok(Some(match &nic.attach {
        Attach::Switch(_) | Attach::Null => return Ok(None),
        Attach::Tap(_) | Attach::Bridge(_) | Attach::Ovs(_) | Attach::Macvtap { .. } => {
            Opened::Tap(links::open(router, nic)?.context("a link of no kind")?)
        }
        Attach::Pcap { file, replay: None } => Opened::Capture(
            written::create(file).with_context(|| format!("cannot write {}", file.display()))?,
        ),
        Attach::Xdp(interface) => Opened::Xdp(Xdp::open(interface, &xdp_config(router, nic))?),
        Attach::VhostUserBackend { path, side } | Attach::VhostUserFrontend { path, side } => Opened::Door(
            match side {
                SocketSide::Listen => Door::listen(path),
                SocketSide::Connect => Door::connect(path),
            }
            .map_err(uplink::Error::from)?,
        ),
        Attach::Pcap { file, replay: Some(from) } => Opened::Replay {
            replay: player::open(&from.file)?,
            capture: written::create(file).with_context(|| format!("cannot write {}", file.display()))?,
            recorded: from.pace == ReplayPace::Recorded,
        },
    }))
}

/// Whether what was opened has as many queues as the NIC needs: a device has those that it was made with.
///
/// # Errors
/// It has not.
pub fn check_queues(opened: Option<(usize, String)>, router: &Router, nic: &Nic) -> Result<()> {
    let Some((has, what)) = opened else { return Ok(()) };
    let wanted = router.outer_queues(nic);
    ensure!(
        has == wanted,
        "{what} has {has} queues while the run lasts, not {wanted}: choose another name, or start the run anew"
    );
    Ok(())
}

fn captured(label: &str, file: File, player: Option<Player>, confinement: Confinement) -> Result<Far> {
    let (port, capture, writer) = capture::into(label, file, confinement)?;
    Ok(Far::Capture { port, capture, _writer: writer, told: AtomicBool::new(false), player })
}

/// How the interface of a NIC is to be had. Threads that never sleep have the driver work when they poll, and not by its
/// interrupts beside them.
fn xdp_config(router: &Router, nic: &Nic) -> XdpConfig<'static> {
    let busy_poll = (router.spin == Spin::Always).then_some(ring::BURST as u16);
    XdpConfig { mtu: nic.mtu, queue_len: nic.queue_len.most(), busy_poll, ..XdpConfig::default() }
}

/// Where a source waits while nobody polls it.
#[derive(Clone)]
pub(crate) struct Home(Arc<Mutex<Option<Box<dyn Source>>>>);

impl Home {
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        Self(Arc::new(Mutex::new(Some(source))))
    }

    /// Lends the source to a thread; it comes back when that thread drops it. None while it is away.
    pub(crate) fn lend(&self) -> Option<Box<dyn Source>> {
        let source = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Box::new(Lent { source: Some(source), home: self.clone() }))
    }
}

/// A source that goes home when it is dropped.
struct Lent {
    /// None only while it is being dropped.
    source: Option<Box<dyn Source>>,
    home: Home,
}

impl Source for Lent {
    fn drain(&mut self, budget: usize, take: &mut dyn FnMut(&[Frame<'_>])) -> usize {
        self.source.as_mut().map_or(0, |source| source.drain(budget, take))
    }

    fn waits(&self) -> bool {
        self.source.as_ref().is_none_or(|source| source.waits())
    }

    fn arm(&mut self) -> bool {
        self.source.as_mut().is_some_and(|source| source.arm())
    }

    fn disarm(&mut self) {
        if let Some(source) = &mut self.source {
            source.disarm();
        }
    }

    fn bell(&self) -> Bell<'_> {
        self.source.as_ref().map_or(Bell::None, |source| source.bell())
    }

    fn tend(&mut self) {
        if let Some(source) = &mut self.source {
            source.tend();
        }
    }

    fn timer(&self) -> Bell<'_> {
        self.source.as_ref().map_or(Bell::None, |source| source.timer())
    }

    fn settle(&mut self, takes: Offloads) {
        if let Some(source) = &mut self.source {
            source.settle(takes);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.source.take();
    }
}
