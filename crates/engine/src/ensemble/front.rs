//! Balancers that are virtual machines, at one link of a group: which of them carries its frames, and by which table it chooses members.
//!
//! ```text
//!  link --> shelf --> NIC of the carrier [ virtual machine ] NIC --> interconnection --> members
//!  link <------------ NIC of the carrier [ virtual machine ] NIC <-- interconnection <-- members
//! ```
//!
//! One balancer at a time carries them. Any other can take over: it continues at the shelf where the first one was, and it is announced to
//! the interconnection that the neighbours of the link are behind it now.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use anyhow::{Context, Result};
use attach::{Attachment, Entry, NicRequirements, Outside, Ports, ServiceContext};
use config::Spread;
use frame::order::{self, CHOICES, LONGEST, NOBODY, Order, Table};
use frame::{Mac, ethernet};
use group::{Member as Number, Shares, rounds};
use port::{Frame, Shelf, Sink, Source};
use ring::Bytes;

use super::secret;
use super::segment::Segment;

/// Stands for no balancer.
const NONE: u32 = u32::MAX;
/// Time for which a former carrier may still send frames that it has out of the link.
const GRACE: Duration = Duration::from_millis(100);
/// Largest duration that a round adds to a silence: a later one means that this thread was kept from its CPU.
const ROUND: Duration = Duration::from_millis(15);
/// Silence of a link from which on, until [`SILENT`], it is unknown whether members or the path behind the carrier are at fault.
const IN_DOUBT: Duration = Duration::from_millis(20);
/// Silence of a link after which the path behind its carrier counts as cut.
pub(super) const SILENT: Duration = Duration::from_millis(200);
/// Reverse ARP (RFC 903): sent by a station that has moved, so that switches learn where it is. No reply is wanted here.
const RARP: u16 = 0x8035;

/// The balancers at one link.
pub(super) struct Front {
    pub(super) link: Arc<dyn Attachment>,
    /// Requirements of the group.
    pub(super) wanted: NicRequirements,
    spread: Mutex<Spread>,
    /// None until the first balancer is served.
    open: Mutex<Option<Open>>,
    told: Mutex<Told>,
    /// Generation of the table, never 0.
    generation: AtomicU32,
    carrier: AtomicU32,
    /// The carrier before it, and the time, in microseconds, until which its frames may leave.
    former: AtomicU32,
    grace: AtomicU64,
    /// True if the carrier is known to forward.
    is_carried: AtomicBool,
    /// True once a carrier has had a table that names members.
    is_ready: AtomicBool,
    /// True if a frame has come from members through the carrier since the last round.
    is_heard: AtomicBool,
    /// Microseconds for which none has come although some were expected.
    silence: AtomicU64,
    /// Where each balancer is plugged into the interconnection.
    inside: Mutex<BTreeMap<u16, Inside>>,
}

/// Queues of the link.
pub(super) type Queues = Vec<Box<dyn Source>>;

/// Ports of the link.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) shelf: Arc<Shelf>,
    pub(super) sinks: Vec<Arc<dyn Sink>>,
    pub(super) outside: Outside,
}

/// Data from which the balancers' table is made, and the table.
struct Told {
    /// Addresses of the members, by number.
    stations: BTreeMap<u16, Mac>,
    choice: Choice,
    table: Table,
}

/// Assignment of buckets or turns, by the members' numbers.
enum Choice {
    Buckets(Vec<Option<u16>>),
    Turns(Vec<u16>),
}

/// Where a balancer's inner NIC is plugged into the interconnection.
#[derive(Clone)]
struct Inside {
    /// Valid as long as the balancer is served.
    sink: Weak<dyn Sink>,
    /// The address of that NIC.
    station: Mac,
}

impl Open {
    /// Assigns all queues of the link to a balancer.
    fn assign(&self, reader: Option<u16>) {
        (0..self.shelf.queues()).for_each(|queue| self.shelf.assign(queue, reader));
    }
}

impl Front {
    pub(super) fn new(link: Arc<dyn Attachment>, wanted: NicRequirements, spread: Spread) -> Self {
        let choice = Choice::Buckets(Vec::new());
        Self {
            link,
            wanted,
            spread: Mutex::new(spread),
            open: Mutex::default(),
            told: Mutex::new(Told { stations: BTreeMap::new(), choice, table: Table::EMPTY }),
            // Random, so that a balancer of an earlier process does not have it.
            generation: AtomicU32::new(secret() as u32 | 1),
            carrier: AtomicU32::new(NONE),
            former: AtomicU32::new(NONE),
            grace: AtomicU64::new(0),
            is_carried: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            is_heard: AtomicBool::new(false),
            silence: AtomicU64::new(0),
            inside: Mutex::default(),
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inside(&self) -> MutexGuard<'_, BTreeMap<u16, Inside>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the ports of the link, if it is open.
    pub(super) fn open(&self) -> Option<Open> {
        self.slot().clone()
    }

    /// Opens the link for the first balancer that is served. `heard` wraps its queues; it gets the sink of the link, and the one for frames
    /// of the group's control plane.
    pub(super) fn begin(
        &self,
        site: &ServiceContext<'_>,
        heard: impl FnOnce(Queues, [&Arc<dyn Sink>; 2]) -> Result<Queues>,
    ) -> Result<Open> {
        let mut slot = self.slot();
        if let Some(open) = &*slot {
            return Ok(open.clone());
        }
        // Wrappers before a balancer's NIC do not apply to the link.
        let entry = |_: Entry, sink: Arc<dyn Sink>| sink;
        let site = ServiceContext { wanted: &self.wanted, threads: 1, queues: site.queues, entry: &entry };
        let Ports { sources, sinks, urgent, control, outside, .. } = self.link.ports(&site)?;
        let source = sources.into_iter().next().context("a link from which nothing comes")?;
        let out = sinks.first().context("a link that takes nothing")?;
        let queues = [source].into_iter().chain(urgent).collect();
        let queues = heard(queues, [out, control.as_ref().unwrap_or(out)])?;
        let open = Open { shelf: Shelf::new(queues), sinks, outside };
        open.assign(self.reader());
        Ok(slot.insert(open).clone())
    }

    /// Closes the link once all balancers are gone.
    pub(super) fn close(&self) {
        let open = self.slot().take();
        open.into_iter().for_each(|open| open.outside.leave());
    }

    /// Returns the balancer that carries frames of the link; `None`: none can.
    pub(super) fn carrier(&self) -> Option<u16> {
        u16::try_from(self.carrier.load(Ordering::Acquire)).ok()
    }

    /// Returns true if this balancer carries frames of the link.
    #[inline]
    pub(super) fn is_carrier(&self, number: u16) -> bool {
        self.carrier.load(Ordering::Relaxed) == u32::from(number)
    }

    /// Returns true if frames that a balancer sends out of the link may leave: those of the carrier, and for a moment of the former one.
    #[inline]
    pub(super) fn lets_out(&self, number: u16) -> bool {
        self.is_carrier(number) || self.former.load(Ordering::Relaxed) == u32::from(number)
    }

    /// Returns true if the carrier is known to forward, so that members can be judged by frames that pass it.
    pub(super) fn is_carried(&self) -> bool {
        self.is_carried.load(Ordering::Relaxed)
    }

    /// Sets the balancer that is to carry frames, whenever a round of any balancer or member ends; returns the previous one. To be called
    /// by one thread at a time.
    pub(super) fn carry(&self, carrier: Option<u16>, is_carried: bool, now: Duration) -> Option<u16> {
        self.is_carried.store(is_carried && carrier.is_some(), Ordering::Relaxed);
        let carrier = carrier.map_or(NONE, u32::from);
        let before = self.carrier.swap(carrier, Ordering::AcqRel);
        if before != carrier {
            self.former.store(before, Ordering::Relaxed);
            self.grace.store((now + GRACE).as_micros() as u64, Ordering::Relaxed);
            self.forget_silence();
        } else if now.as_micros() as u64 >= self.grace.load(Ordering::Relaxed) {
            self.former.store(NONE, Ordering::Relaxed);
        }
        self.read();
        u16::try_from(before).ok()
    }

    /// Notes that a frame has come from members through the carrier.
    #[inline]
    pub(super) fn hear(&self) {
        // Mostly it is set already.
        if !self.is_heard.load(Ordering::Relaxed) {
            self.is_heard.store(true, Ordering::Relaxed);
        }
    }

    /// Ends a round in which frames were expected; returns for how long none has come.
    pub(super) fn listen(&self, round: Duration) -> Duration {
        let silence = match self.is_heard.swap(false, Ordering::Relaxed) {
            true => Duration::ZERO,
            false => self.silence() + round.min(ROUND),
        };
        self.silence.store(silence.as_micros() as u64, Ordering::Relaxed);
        silence
    }

    /// Ends a silence, because no frames are expected.
    pub(super) fn forget_silence(&self) {
        self.silence.store(0, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        Duration::from_micros(self.silence.load(Ordering::Relaxed))
    }

    /// Returns true while it is unknown whether members or the path behind the carrier are at fault for missing frames.
    pub(super) fn is_in_doubt(&self) -> bool {
        (IN_DOUBT..SILENT).contains(&self.silence())
    }

    /// Lets the carrier read the link once there is a member that frames can go to: until then they wait where they are.
    fn read(&self) {
        if let Some(open) = &*self.slot() {
            open.assign(self.reader());
        }
    }

    fn reader(&self) -> Option<u16> {
        self.carrier().filter(|_| self.is_ready.load(Ordering::Relaxed) && self.is_spread())
    }

    fn is_spread(&self) -> bool {
        self.told().table.choices.iter().any(|choice| *choice != NOBODY)
    }

    /// Notes the generation of the carrier's table: if it is the current one and names members, the carrier may read the link.
    pub(super) fn note_known(&self, generation: u32) {
        if !self.is_ready.load(Ordering::Relaxed) && generation == self.generation() && self.is_spread() {
            self.is_ready.store(true, Ordering::Relaxed);
            self.read();
        }
    }

    /// Sets the Ethernet addresses of the members.
    pub(super) fn know(&self, stations: BTreeMap<u16, Mac>) {
        let mut told = self.told();
        if told.stations != stations {
            told.stations = stations;
            self.renew(&mut told);
        }
    }

    /// Sets how frames are spread from the next deal on; returns true if this is a change.
    pub(super) fn spread_by(&self, spread: Spread) -> bool {
        let mut own = self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *own, spread) != spread
    }

    /// Assigns buckets to members, or turns of a round by their shares.
    pub(super) fn deal(&self, owners: &[Option<Number>], shares: &Shares) {
        let spread = *self.spread.lock().unwrap_or_else(PoisonError::into_inner);
        let choice = match spread {
            Spread::Flow => Choice::Buckets(owners.iter().map(|owner| owner.map(|owner| owner.0)).collect()),
            Spread::RoundRobin => {
                Choice::Turns(rounds::round(shares, CHOICES).iter().map(|member| member.0).collect())
            }
        };
        let mut told = self.told();
        told.choice = choice;
        self.renew(&mut told);
        drop(told);
        self.read();
    }

    /// Makes the table anew; the next orders carry it to balancers if it has changed.
    fn renew(&self, told: &mut Told) {
        let table = told.table();
        if table != told.table {
            told.table = table;
            let next = self.generation.load(Ordering::Relaxed).wrapping_add(1).max(1);
            self.generation.store(next, Ordering::Release);
        }
    }

    /// Returns the generation of the table that balancers should have.
    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Creates an order with this number, and with the table if the balancer does not have it; returns it with its length.
    pub(super) fn order(&self, number: u32, is_known: bool) -> ([u8; LONGEST], usize) {
        let told = self.told();
        let mut octets = [0; LONGEST];
        let order = Order { generation: self.generation(), number, known: 0 };
        let len = order.write((!is_known).then_some(&told.table), &mut octets);
        (octets, len)
    }

    /// Notes where a balancer's inner NIC with this address is plugged in.
    pub(super) fn plug_inside(&self, number: u16, sink: &Arc<dyn Sink>, station: Mac) {
        self.inside().insert(number, Inside { sink: Arc::downgrade(sink), station });
    }

    /// Sends a frame out of the link; returns the number of frames accepted.
    pub(super) fn send_outside(&self, octets: &mut [u8]) -> u64 {
        let sink = self.slot().as_ref().and_then(|open| open.sinks.first().cloned());
        sink.map_or(0, |sink| send(&*sink, octets))
    }

    /// Sends a frame into the interconnection at the carrier's port; returns the number of frames accepted. `None`: there is no carrier.
    pub(super) fn send_inside(&self, octets: &mut [u8]) -> Option<u64> {
        let inside = self.inside().get(&self.carrier()?).cloned()?;
        Some(send(&*inside.sink.upgrade()?, octets))
    }

    /// Announces to the interconnection that these stations of one VLAN, or without a tag, are behind the carrier: Open vSwitch learns
    /// addresses for each VLAN. The frames are for the carrier's own NIC, which is announced first if it is new, so that no member gets
    /// them. Returns the number of frames accepted.
    pub(super) fn announce(
        &self,
        segment: &Segment,
        stations: impl IntoIterator<Item = Mac>,
        is_new: bool,
    ) -> u64 {
        let carrier = self.carrier().and_then(|carrier| self.inside().get(&carrier).cloned());
        let way = carrier.and_then(|inside| Some((inside.sink.upgrade()?, inside.station)));
        let Some((sink, station)) = way else { return 0 };
        let says = |source: Mac, destination: Mac| {
            let mut octets = [0; ethernet::SHORTEST];
            octets[..ethernet::HEADER]
                .copy_from_slice(&ethernet::Header { destination, source, ethertype: RARP }.octets());
            segment.on_link(&mut octets, |octets| send(&*sink, octets))
        };
        let first = if is_new { says(station, Mac::BROADCAST) } else { 0 };
        first + stations.into_iter().map(|other| says(other, station)).sum::<u64>()
    }
}

impl Told {
    fn table(&self) -> Table {
        let index = |number: u16| self.stations.keys().position(|own| *own == number);
        let choice = |number: Option<u16>| {
            let at = number.and_then(index).filter(|at| *at < order::MOST_MEMBERS);
            at.and_then(|at| u8::try_from(at).ok()).unwrap_or(NOBODY)
        };
        let members = self.stations.len().min(order::MOST_MEMBERS);
        let mut table = Table { members, ..Table::EMPTY };
        table.stations.iter_mut().zip(self.stations.values()).for_each(|(place, station)| *place = *station);
        let choices = table.choices.iter_mut();
        match &self.choice {
            Choice::Buckets(owners) => {
                choices.zip(owners).for_each(|(place, owner)| *place = choice(*owner));
            }
            Choice::Turns(turns) if turns.is_empty() => {}
            Choice::Turns(turns) => {
                choices.zip(turns).for_each(|(place, member)| *place = choice(Some(*member)));
                (table.in_turn, table.turns) = (true, turns.len().min(CHOICES));
            }
        }
        table
    }
}

/// Sends one frame; returns the number of frames accepted.
fn send(sink: &dyn Sink, octets: &mut [u8]) -> u64 {
    sink.deliver(&[Frame::new(Bytes::from_slice(octets))]) as u64
}
