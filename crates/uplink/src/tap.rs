//! TAP device as a port: frames that the kernel sends out of the interface come from the [`TapSource`], and
//! frames accepted by the [`TapSink`] arrive at the kernel as if from the wire. Each frame costs one system
//! call in each direction: the driver has no call for several frames. Before each frame there is a
//! `struct virtio_net_hdr` (IFF_VNET_HDR), so that a checksum may be left to be filled in and a frame may be
//! as long as 64 KB, to be segmented where it leaves the host.
//!
//! The device is not persistent: the kernel removes it with its last descriptor. One that was there before stays, and gets its MTU, queue
//! length and state back.
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
use place::OriginNetns;
use queue_limit::QueueLengthRequests;
pub use queue_limit::QueueLimit;
pub use sink::TapSink;
use source::Share;
pub use source::TapSource;
pub use traits::{Spread, Traits};

use crate::macvtap::copies;
use crate::membership::Membership;
use crate::netns::within;
use crate::request::{self, Name};
use crate::undo::UndoGuard;
use crate::{Error, LinkCounters, LinkTable, Links, Mac, Netns, steering};

/// Maximum octets of a frame that a source shows without segmentation offload: a jumbo frame of the largest MTU of a NIC.
pub const LARGEST_FRAME: usize = 9216 + HEADERS;
/// Ethernet header with two VLAN tags, in octets.
const HEADERS: usize = 22;
/// Maximum number of queues of one device (`MAX_TAP_QUEUES` of the driver).
const MOST_QUEUES: usize = 256;

/// Permission to use an existing device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ownership {
    /// A new device; an error if the name exists.
    #[default]
    New,
    /// The existing persistent device of this name, or else a new one.
    NewOrExisting,
}

/// Configuration of a TAP.
#[derive(Clone, Debug)]
pub struct TapConfig<'a> {
    /// Number of queues, each with a source and a sink of its own: 1 to 256.
    pub queues: u16,
    /// MTU in octets: 68 to 9216.
    pub mtu: u32,
    /// Maximum number of frames that wait in the kernel for the source; further ones are dropped there.
    pub queue_len: u32,
    /// The kernel's MAC address on the device; `None`: the kernel chooses one.
    pub mac: Option<Mac>,
    /// True to set the device up.
    pub up: bool,
    /// Bridge of the same namespace that the device joins before it is set up: frames that the host sends at
    /// that moment are for the bridge.
    pub bridge: Option<&'a str>,
    /// Permission to use an existing device.
    pub ownership: Ownership,
    /// True if offloads (checksum, segmentation) may be left to the kernel, and by it to us.
    pub offload: bool,
    /// Hash by which frames from the kernel are spread over several queues; `None`: the kernel's own.
    pub hash: Option<Hash>,
    /// True if they are dealt out one by one instead, where `hash` would be used.
    pub in_turn: bool,
    /// True if frames of routing protocols, and of what these rest on, get a queue of their own behind the others, so that they do
    /// not wait, and are not lost, in a flood of others: only of a new device, and if the kernel takes the program that selects it.
    /// At a macvtap that queue has copies of those without a VLAN tag.
    pub urgent: bool,
    /// Its network namespace; `None`: the calling thread's.
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
            in_turn: false,
            urgent: false,
            netns: None,
        }
    }
}

/// An open TAP: the descriptors of its queues.
///
/// It can be duplicated ([`Tap::try_clone`]) and handed to another process ([`Tap::descriptors`],
/// [`Tap::from_descriptors`]): the device lives, and frames wait in it, until the last handle is dropped.
#[derive(Debug)]
pub struct Tap {
    name: String,
    /// At least one.
    queues: Vec<OwnedFd>,
    traits: Traits,
    /// Removes host state that does not disappear with the descriptors.
    undo: Option<UndoGuard>,
    /// The bridge that it belongs to; only known to the process that opened the device.
    member: Option<Membership>,
    /// `None` if the descriptors came from another process, which maintains the device.
    home: Option<Arc<OriginNetns>>,
    /// Channel for requests to change the kernel's queue length, if enabled.
    requests: Option<QueueLengthRequests>,
    health: Arc<Health>,
}

/// State shared by all ends of one device.
#[derive(Debug)]
struct Device {
    health: Arc<Health>,
    offer: Offer,
    /// Removes host state that does not disappear with the descriptors.
    _undo: Option<UndoGuard>,
}

/// One queue of a device.
#[derive(Debug)]
struct Queue {
    fd: OwnedFd,
    device: Arc<Device>,
}

impl Tap {
    /// Creates (or opens) the device and sets its MTU, queue length, address and state. The device appears
    /// under its name only when it is fully configured, so other programs that wait for the name may move it
    /// at once. An error leaves nothing behind.
    pub fn open(name: &str, config: &TapConfig<'_>) -> Result<Self, Error> {
        check(config)?;
        within(config.netns, || making::open(name, config))
    }

    /// Creates a device whose queues were opened by a device file of their own (macvtap).
    pub(crate) fn of_queues(
        name: &str,
        queues: Vec<OwnedFd>,
        traits: Traits,
        links: Links,
    ) -> Result<Self, Error> {
        let home = Some(Arc::new(OriginNetns::new(links)?));
        let health = Health::new(traits.has_urgent_copies())?;
        Ok(Self { home, ..Self::of(name, queues, traits, health) })
    }

    /// Adopts a device that another process opened, by the descriptors of its queues in order.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn from_descriptors(name: &str, queues: Vec<OwnedFd>, traits: Traits) -> Result<Self, Error> {
        Name::new(name)?;
        check_queues(queues.len())?;
        let health = Health::new(traits.has_urgent_copies())?;
        Ok(Self::of(name, queues, traits, health))
    }

    fn of(name: &str, queues: Vec<OwnedFd>, traits: Traits, health: Arc<Health>) -> Self {
        let name = name.to_owned();
        Self { name, queues, traits, undo: None, member: None, home: None, requests: None, health }
    }

    /// Returns the properties of the device that do not follow from its descriptors.
    pub const fn traits(&self) -> &Traits {
        &self.traits
    }

    /// Describes in one line what the host has refused, if the device works without it.
    pub fn notice(&self) -> Option<String> {
        let Spread::Refused(why) = self.traits.spread() else { return None };
        let name = &self.name;
        Some(format!(
            "the kernel takes no program that spreads the frames of `{name}` over its queues ({why}): it spreads them by a hash of its own"
        ))
    }

    /// Attaches an undo action, which is carried out when the device is dropped.
    pub(crate) fn undone_by(self, undo: UndoGuard) -> Self {
        Self { undo: Some(undo), ..self }
    }

    /// Records the bridge that the device is in.
    pub(crate) fn member_of(self, bridge: Membership) -> Self {
        Self { member: Some(bridge), ..self }
    }

    /// Returns the bridge that it belongs to, if any; only known to the process that opened the device.
    pub fn membership(&self) -> Option<&Membership> {
        self.member.as_ref()
    }

    /// Restricts the offloads that may be left to the device: its consumer in the host supports fewer, or
    /// none are wanted.
    pub fn limit(&mut self, takes: Offloads) {
        self.traits.limit(takes);
    }

    /// Returns the descriptors of its queues, to be sent to another process.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(AsFd::as_fd)
    }

    /// Returns another handle to this device. A frame goes to whichever handle reads first, so only one of
    /// them may be served at a time.
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

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kernel's counters of the interface: from the table of the namespace in which it was
    /// created, or from the namespace that it was moved to. `None`: it was deleted, or is in a namespace that
    /// we may not enter.
    pub fn kernel_counters(&self, here: &LinkTable) -> Option<LinkCounters> {
        here.of(&self.name).or_else(|| place::counters(self.queues.first()?.as_fd()))
    }

    /// Sets MTU, queue length and MAC address (`None`: unchanged) as for a new TAP, in whatever namespace the
    /// device is now. Does nothing if another process opened it, which does this itself.
    ///
    /// # Errors
    /// The device does not accept them, or is in a namespace that we may not enter.
    pub fn resize(&self, config: &TapConfig<'_>) -> Result<(), Error> {
        self.at_home(|links, name| links.set(name, &making::sizes(config), "changing"))
    }

    /// Changes the hash by which the kernel spreads frames over its queues, if our hash is in use. Does
    /// nothing if another process opened the device.
    ///
    /// # Errors
    /// The kernel does not take the program.
    pub fn spread_by(&self, hash: Hash) -> Result<(), Error> {
        let is_urgent = self.traits.has_urgent_queue();
        self.steer("by another hash", |queue, queues| {
            if is_urgent {
                steering::steer_urgent(queue, queues - 1, hash)
            } else {
                steering::steer(queue, queues, hash)
            }
        })
    }

    /// Has the kernel deal its frames out to its queues one by one, whatever flows they are of, if it spreads them by a hash of ours:
    /// frames of a flow may overtake each other then. [`Tap::spread_by`] ends it.
    ///
    /// # Errors
    /// The kernel does not take the program.
    pub fn spread_in_turn(&self) -> Result<(), Error> {
        // That of urgent frames stays apart, and gets none: they wait with the others.
        let apart = usize::from(self.traits.has_urgent_queue());
        self.steer("one by one", |queue, queues| steering::deal(queue, queues - apart))
    }

    /// Has another program spread its frames, where one of ours does; nothing where somebody else opened it.
    fn steer(
        &self,
        how: &str,
        steer: impl FnOnce(BorrowedFd<'_>, usize) -> io::Result<()>,
    ) -> Result<(), Error> {
        let (Some(_), Spread::Ours, Some(queue)) = (&self.home, self.traits.spread(), self.queues.first())
        else {
            return Ok(());
        };
        steer(queue.as_fd(), self.queues.len())
            .map_err(|e| Error::system(format!("spreading the frames of `{}` {how}", self.name), e))
    }

    /// Does something with the device by its current name, in its current namespace.
    fn at_home(&self, work: impl FnOnce(&Links, &str) -> Result<(), Error>) -> Result<(), Error> {
        let (Some(home), Some(queue)) = (&self.home, self.queues.first()) else { return Ok(()) };
        home.with(&self.name, queue.as_fd(), work)
    }

    /// Enables requests for another queue length from the process that serves it.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn with_requests(self) -> Result<Self, Error> {
        Ok(Self { requests: Some(QueueLengthRequests::new()?), ..self })
    }

    /// Returns the descriptor to be sent along with the queues if requests are enabled; the other process
    /// writes them to it ([`QueueLimit`]).
    pub fn requests(&self) -> Option<BorrowedFd<'_>> {
        self.requests.as_ref().map(QueueLengthRequests::writer)
    }

    /// Returns a descriptor that is readable when there is a new request.
    pub fn request_bell(&self) -> Option<BorrowedFd<'_>> {
        self.requests.as_ref().map(QueueLengthRequests::bell)
    }

    /// Returns the last requested queue length, if there was a request since the last call. Never blocks.
    pub fn last_request(&self) -> Option<u32> {
        self.requests.as_ref().and_then(QueueLengthRequests::last)
    }

    /// Carries out a request; does nothing if another process opened the device.
    ///
    /// # Errors
    /// The device does not accept it.
    pub fn set_queue_len(&self, frames: u32) -> Result<(), Error> {
        let wish = Settings::default().queue_len(frames);
        self.at_home(|links, name| links.set(name, &wish, "setting the queue length of"))
    }

    /// Shows the kernel the cable of the interface as plugged in or pulled out; a new device has it plugged in.
    ///
    /// # Errors
    /// The interface was deleted, or the kernel is older than 5.0.
    pub fn set_carrier(&self, is_there: bool) -> Result<(), Error> {
        let Some(queue) = self.queues.first() else { return Ok(()) };
        request::set_carrier(queue.as_fd(), is_there)
            .map_err(|e| Error::system(format!("changing the carrier of `{}`", self.name), e))
    }

    /// Returns true if the interface still exists.
    pub fn is_there(&self) -> bool {
        self.queues.first().is_some_and(|queue| health::is_there(queue.as_fd()))
    }

    /// Replaces a deleted device by another one, under the threads that serve it. If that has no queue for urgent frames, they wait
    /// with the others.
    ///
    /// # Errors
    /// The number of queues differs.
    pub fn replace(&self, by: &Self) -> Result<(), Error> {
        let (has, found) = (self.plain_queues(), by.plain_queues());
        if has != found {
            let what = "the number of queues of the interface that is there again";
            return Err(Error::Range { what, found: found as u64, expected: "what it was before" });
        }
        let wrong = |e| Error::system(format!("taking up `{}` again", self.name), e);
        let of = |number: usize| by.queues.get(number).or_else(|| by.queues.first());
        for (number, old) in self.queues.iter().enumerate() {
            of(number).map_or(Ok(()), |new| health::take_over(old, new)).map_err(wrong)?;
        }
        self.health.set_copies(by.traits.has_urgent_copies());
        self.health.revive(of).map_err(wrong)
    }

    /// Returns how many urgent frames were lost because the queue for copies of them was full, since the device was opened here.
    pub fn lost_copies(&self) -> u64 {
        let queue = self.queues.last().filter(|_| self.traits.has_urgent_copies());
        self.health.add_lost_copies(queue.map_or(0, |queue| copies::lost(queue.as_fd())))
    }

    /// Number of queues without that for urgent frames.
    fn plain_queues(&self) -> usize {
        self.queues.len() - usize::from(self.traits.has_urgent_queue())
    }

    /// Takes over from a deleted device what belongs to the name and not to the device: the undo action and
    /// the channel for requests. A queue for urgent frames that the deleted one did not have is closed: nobody would read it.
    pub fn inherit(&mut self, old: &mut Self) {
        if let Some(mut undo) = old.undo.take() {
            undo.disarm();
        }
        self.requests = old.requests.take();
        if self.traits.has_urgent_queue() && !old.traits.has_urgent_queue() {
            self.queues.pop();
            self.traits = self.traits.clone().without_urgent_queue();
        }
    }

    /// Returns source and sink of a device with one queue; further queues are closed. The device lives until
    /// both are dropped.
    pub fn split(mut self) -> (TapSource, Arc<TapSink>) {
        let device = Device::of(&mut self);
        let mut queues = self.queues;
        port(&device, 0, queues.swap_remove(0))
    }

    /// Returns source and sink of each queue. The device lives until the last of them is dropped.
    pub fn into_ports(mut self) -> Vec<(TapSource, Arc<TapSink>)> {
        let device = Device::of(&mut self);
        let last = if self.traits.has_urgent_copies() { self.queues.len().checked_sub(1) } else { None };
        let share = |number: usize| match last {
            None => Share::All,
            Some(last) if number == last => Share::Copies,
            Some(_) => Share::NotCopied,
        };
        let queues = self.queues.into_iter().enumerate();
        let open = |(number, fd)| {
            let (source, sink) = port(&device, number, fd);
            (source.with(share(number)), sink)
        };
        queues.map(open).collect()
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
            expected: "68 to 9216",
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
