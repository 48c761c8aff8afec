//! A TAP device as a port: what the kernel sends out of the interface comes from the [`TapSource`], and what the
//! [`TapSink`] takes arrives at the kernel as if from the wire. One system call a frame each way, no more: the driver
//! has no call for several. Before each frame goes a `struct virtio_net_hdr` (IFF_VNET_HDR), so that a checksum may be
//! left to be filled in and a frame may be as long as 64 KB, to be cut where it leaves the host.
//!
//! The device is not persistent: the kernel takes it away with its last descriptor.
//!
//! A macvtap ([`crate::macvtap`]) is served in the same way.

mod counters;
mod header;
mod health;
pub(crate) mod making;
pub(crate) mod place;
mod queue_limit;
mod sink;
mod source;
mod traits;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use netlink::Settings;
use port::Offloads;
use port::steer::Hash;

pub use counters::{ReadCounters, WriteCounters};
use header::Offer;
use health::Health;
use place::Home;
pub use queue_limit::QueueLimit;
use queue_limit::Wishes;
pub use sink::TapSink;
pub use source::TapSource;
pub use traits::{Spread, Traits};

use crate::membership::Membership;
use crate::netns::within;
use crate::request::Name;
use crate::undo::Armed;
use crate::{Error, LinkCounters, LinkTable, Links, Mac, Netns, steering};

/// Largest frame that a source shows which is not to be segmented, in octets.
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
    /// The bridge of the same namespace that it is put into before it is up: what is said at that moment is for the bridge.
    pub bridge: Option<&'a str>,
    /// Whose the device is.
    pub ownership: Ownership,
    /// Whether checksums and segmentation may be left to the kernel, and by it to us.
    pub offload: bool,
    /// How frames from the kernel are spread over several queues; none: by the kernel's own hash.
    pub hash: Option<Hash>,
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
            bridge: None,
            ownership: Ownership::New,
            offload: true,
            hash: None,
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
    traits: Traits,
    /// What takes away what does not go with the descriptors.
    undo: Option<Armed>,
    /// The bridge that it belongs into; only whoever opened the device knows.
    member: Option<Membership>,
    /// None where the descriptors came from another process, which keeps the device in order.
    home: Option<Arc<Home>>,
    /// Where who serves it wishes for another length of the kernel's queues, if that may be.
    wishes: Option<Wishes>,
    health: Arc<Health>,
}

/// What all ends of one device know together.
#[derive(Debug)]
struct Device {
    health: Arc<Health>,
    offer: Offer,
    /// What takes away what does not go with the descriptors.
    _undo: Option<Armed>,
}

/// One queue of a device.
#[derive(Debug)]
struct Queue {
    fd: OwnedFd,
    device: Arc<Device>,
}

impl Tap {
    /// Makes (or opens) the device and sets its MTU, queue length, address and state. Who waits for its name finds it as it is to
    /// be, and may move it at once. On an error nothing is left.
    pub fn open(name: &str, config: &TapConfig<'_>) -> Result<Self, Error> {
        check(config)?;
        within(config.netns, || making::open(name, config))
    }

    /// A device whose queues were opened by their own file.
    pub(crate) fn of_queues(
        name: &str,
        queues: Vec<OwnedFd>,
        traits: Traits,
        links: Links,
    ) -> Result<Self, Error> {
        let home = Some(Arc::new(Home::new(links)?));
        Ok(Self { home, ..Self::of(name, queues, traits, Health::new()?) })
    }

    /// A device that another process opened, by the descriptors of its queues in their order.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn from_descriptors(name: &str, queues: Vec<OwnedFd>, traits: Traits) -> Result<Self, Error> {
        Name::new(name)?;
        check_queues(queues.len())?;
        Ok(Self::of(name, queues, traits, Health::new()?))
    }

    fn of(name: &str, queues: Vec<OwnedFd>, traits: Traits, health: Arc<Health>) -> Self {
        let name = name.to_owned();
        Self { name, queues, traits, undo: None, member: None, home: None, wishes: None, health }
    }

    /// What is known of the device beside its descriptors.
    pub const fn traits(&self) -> &Traits {
        &self.traits
    }

    /// What the host did not give, where it can do without: one line.
    pub fn notice(&self) -> Option<String> {
        let Spread::Refused(why) = self.traits.spread() else { return None };
        let name = &self.name;
        Some(format!(
            "the kernel takes no program that spreads the frames of `{name}` over its queues ({why}): it spreads them by a hash of its own"
        ))
    }

    /// A device with which something is taken away when it is dropped.
    pub(crate) fn undone_by(self, undo: Armed) -> Self {
        Self { undo: Some(undo), ..self }
    }

    /// A device that is in a bridge.
    pub(crate) fn member_of(self, bridge: Membership) -> Self {
        Self { member: Some(bridge), ..self }
    }

    /// The bridge that it belongs into, if any; only whoever opened the device knows.
    pub fn membership(&self) -> Option<&Membership> {
        self.member.as_ref()
    }

    /// Says that no more than this is to be left to the device than it takes: whoever is behind it in the host can take less, or nothing
    /// is to be left.
    pub fn limit(&mut self, takes: Offloads) {
        self.traits.limit(takes);
    }

    /// The descriptors of its queues, to be sent to another process.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }

    /// Another handle on this device. Whoever reads first has the frame: only one of them is to be served at a time.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let queues = self.queues.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>();
        let queues =
            queues.map_err(|e| Error::system(format!("opening the TAP `{}` once more", self.name), e))?;
        let (member, home) = (self.member.clone(), self.home.clone());
        Ok(Self { member, home, ..Self::of(&self.name, queues, self.traits.clone(), self.health.clone()) })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the kernel counts for the interface: in the table of the namespace that it was made in, or else wherever it was moved.
    /// None: it is gone, or lies where we may not look.
    pub fn kernel_counters(&self, here: &LinkTable) -> Option<LinkCounters> {
        here.of(&self.name).or_else(|| place::counters(self.queues.first()?.as_fd()))
    }

    /// Gives the device the MTU, queue length and Ethernet address (none: it keeps that) of a TAP that is made so, wherever it lies by
    /// now; nothing where somebody else opened it, who sees to that.
    ///
    /// # Errors
    /// The device does not take them, or lies where we may not look.
    pub fn resize(&self, config: &TapConfig<'_>) -> Result<(), Error> {
        self.at_home(|links, name| links.set(name, &making::sizes(config), "changing"))
    }

    /// Has the kernel spread its frames over its queues by another hash, if it does so by ours; nothing where somebody else opened it.
    ///
    /// # Errors
    /// The kernel does not take the program.
    pub fn spread_by(&self, hash: Hash) -> Result<(), Error> {
        let (Some(_), Spread::Ours, Some(queue)) = (&self.home, self.traits.spread(), self.queues.first())
        else {
            return Ok(());
        };
        steering::steer(queue.as_fd(), self.queues.len(), hash)
            .map_err(|e| Error::system(format!("spreading the frames of `{}` by another hash", self.name), e))
    }

    /// Does something with the device by the name that it has now, where it lies now.
    fn at_home(&self, work: impl FnOnce(&Links, &str) -> Result<(), Error>) -> Result<(), Error> {
        let (Some(home), Some(queue)) = (&self.home, self.queues.first()) else { return Ok(()) };
        home.with(&self.name, queue.as_fd(), work)
    }

    /// A device whose server in another process may wish for another queue length.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_wishes(self) -> Result<Self, Error> {
        Ok(Self { wishes: Some(Wishes::new()?), ..self })
    }

    /// What is sent beside the queues where there are wishes: that other process wishes by it ([`QueueLimit`]).
    pub fn wishes(&self) -> Option<BorrowedFd<'_>> {
        self.wishes.as_ref().map(Wishes::writer)
    }

    /// Readable when there is a new wish.
    pub fn wished(&self) -> Option<BorrowedFd<'_>> {
        self.wishes.as_ref().map(Wishes::bell)
    }

    /// The queue length that was wished for last, if one was since this was asked. It waits for nobody.
    pub fn wish(&self) -> Option<u32> {
        self.wishes.as_ref().and_then(Wishes::last)
    }

    /// Fulfils a wish; nothing where somebody else opened the device.
    ///
    /// # Errors
    /// The device does not take it.
    pub fn fulfil(&self, frames: u32) -> Result<(), Error> {
        let wish = Settings::default().queue_len(frames);
        self.at_home(|links, name| links.set(name, &wish, "setting the queue length of"))
    }

    /// Whether the kernel still has the interface.
    pub fn is_there(&self) -> bool {
        self.queues.first().is_some_and(|queue| health::is_there(queue.as_fd()))
    }

    /// Puts another device in the place of one that was deleted, under whoever serves that.
    ///
    /// # Errors
    /// It has another number of queues.
    pub fn replace(&self, by: &Self) -> Result<(), Error> {
        let (has, found) = (self.queues.len(), by.queues.len());
        if has != found {
            let what = "the number of queues of the interface that is there again";
            return Err(Error::Range { what, found: found as u64, expected: "what it was before" });
        }
        let wrong = |e| Error::system(format!("taking up `{}` again", self.name), e);
        let mut queues = self.queues.iter().zip(&by.queues);
        queues.try_for_each(|(old, new)| health::take_over(old, new)).map_err(wrong)?;
        self.health.revive(&by.queues).map_err(wrong)
    }

    /// Takes over what belongs to the name, not to the device, from one that was deleted: who takes it away in the end,
    /// and where wishes come in.
    pub fn succeed(&mut self, old: &mut Self) {
        if let Some(mut undo) = old.undo.take() {
            undo.disarm();
        }
        self.wishes = old.wishes.take();
    }

    /// Source and sink of a device with one queue; further queues are closed. The device lives until both are dropped.
    pub fn split(mut self) -> (TapSource, Arc<TapSink>) {
        let device = Device::of(&mut self);
        let mut queues = self.queues;
        port(&device, 0, queues.swap_remove(0))
    }

    /// Source and sink of each queue. The device lives until the last of them is dropped.
    pub fn into_ports(mut self) -> Vec<(TapSource, Arc<TapSink>)> {
        let device = Device::of(&mut self);
        let queues = self.queues.into_iter().enumerate();
        queues.map(|(number, fd)| port(&device, number, fd)).collect()
    }
}

fn port(device: &Arc<Device>, number: usize, fd: OwnedFd) -> (TapSource, Arc<TapSink>) {
    let queue = Arc::new(Queue { fd, device: Arc::clone(device) });
    device.health.serves(number, &queue);
    (TapSource::new(Arc::clone(&queue)), Arc::new(TapSink::new(queue)))
}

impl Device {
    fn of(tap: &mut Tap) -> Arc<Self> {
        let (health, offer) = (tap.health.clone(), Offer::of(tap.traits.takes()));
        Arc::new(Self { health, offer, _undo: tap.undo.take() })
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

pub(crate) fn check_queues(count: usize) -> Result<(), Error> {
    if (1..=MOST_QUEUES).contains(&count) {
        return Ok(());
    }
    let found = count as u64;
    Err(Error::Range { what: "the number of queues of a TAP", found, expected: "1 to 256" })
}
