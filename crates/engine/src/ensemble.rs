//! Running groups: routers that are one to everybody outside. A group's links, the work done for all members at once, which members are
//! alive, and which of them owns which queue.
//!
//! ```text
//!  link (TAP, port of a switch)             here                                    member
//!   queue 0..Q --> owned by members --> ARP to `Hosts` ------------- the rest ----> NIC
//!                                            |         ^   `---- replies of hosts -> NIC
//!                                            v         |
//!   any queue <---------------------- replies, one request --- ARP, probes taken out <-- NIC
//!
//!   likewise neighbour discovery, by `Nodes`
//!                                                      |
//!                      round (10 ms): a probe into each NIC; Judge -> Roster -> Assignment -> owners
//! ```
//!
//! Behind a balancer (`kind = "multistage"`) members have buckets of its table in place of queues, and a thread of the group reads the
//! link, or with `balancer = "vm"` a virtual machine ([`front`]), which is judged like members ([`machines`]). Decisions are made by
//! [`group`] and carried out here, independently of the members' engines: members forward probes by a route, and resolve neighbours by ARP
//! or, if they share one table, by questions at their desks (`neighbours`).

mod awaited;
mod balancers;
mod behind;
mod counters;
mod discovery;
mod ensembles;
mod front;
mod gateways;
mod hosts;
mod kinds;
mod known;
mod link;
mod machine_seat;
mod machines;
mod neighbours;
mod news;
mod nodes;
mod path;
mod quiet;
mod round;
mod seat;
mod segment;
mod service;
mod shape;
mod standstill;
mod timer;
mod trials;
mod voice;
mod way;

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use attach::{Attachment, NicRequirements};
use config::{Group, Nic, Plan};
use frame::{arp, ethernet, vlan};
use group::Probes;
use port::{Frame, Sink};
use ring::Bytes;
use switch::Switch;

use crate::counts::{CounterRegistration, CounterRegistry};
use crate::shortages::CommonShortage;
use crate::supplies::HostServices;
use crate::tables::Tables;
use balancers::Balancers;
pub use counters::{EnsembleCounters, GroupNicCounters, SeatCounters, WithheldCounters};
pub(crate) use ensembles::Ensembles;
pub(crate) use gateways::Gateway;
use gateways::Gateways;
use known::bit;
use link::{Held, Interface, Link};
use machine_seat::MachineSeat;
use machines::Machines;
use neighbours::Asked;
pub(crate) use news::News;
#[cfg(feature = "fuzz")]
pub use nodes::fuzz_discovery;
pub(crate) use quiet::ToMember;
use round::Board;
#[cfg(test)]
use seat::Aside;
use seat::{Member, Seat};
use segment::{Segment, untag};
use shape::{has_serving, may_become, shape};
use timer::{Bell, Timer};
use voice::Voice;
use way::Way;

/// Octets of a frame up to the end of its ARP packet.
const ARP_FRAME: usize = ethernet::HEADER + arp::LEN;

/// A running group. It ends with the last of its members.
pub(crate) struct Ensemble {
    core: Arc<Core>,
    /// The group, as in the plan when it started.
    group: Group,
    timer: Timer,
    _counting: CounterRegistration,
}

/// State that its timer and the threads of its members share.
struct Core {
    name: String,
    links: Vec<Link>,
    probes: Probes,
    /// Origin of its times. A group that replaces another one keeps its origin: both write times into one neighbour table.
    began: Instant,
    /// Numbers of the members to be parked.
    parked: Mutex<Range<u32>>,
    /// Existing members by number.
    members: Mutex<BTreeMap<u16, Weak<Member>>>,
    /// All members of the plan, served here or not, behind balancers that are virtual machines; else empty.
    enrolled: Mutex<Vec<Arc<Member>>>,
    board: Mutex<Board>,
    /// Number of the member that advertises the group as a router, or [`round::NO_LEAD`]. Here, so that threads that move frames do not
    /// wait for the board.
    lead: AtomicU32,
    /// Wakes the timer before the next round is due.
    bell: Bell,
    balancers: Balancers,
    /// Balancers, if they are virtual machines.
    machines: Option<Machines>,
    /// The neighbour table that its members share, if they do, and their desks.
    tables: Tables,
    asked: Mutex<Asked>,
    shortage: Mutex<CommonShortage>,
    gateways: Mutex<Gateways>,
    counters: EnsembleCounters,
}

impl Core {
    fn members(&self) -> MutexGuard<'_, BTreeMap<u16, Weak<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the existing members.
    fn live(&self) -> BTreeMap<u16, Arc<Member>> {
        let mut members = self.members();
        members.retain(|_, member| member.strong_count() > 0);
        members.iter().filter_map(|(number, member)| Some((*number, member.upgrade()?))).collect()
    }

    /// Returns the control plane at each link, if there is one.
    fn voices(&self) -> impl Iterator<Item = &Voice> {
        self.links.iter().filter_map(|link| link.voice.as_ref())
    }

    /// Returns the time since its origin.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Handles an ARP frame from the network at a NIC; returns true if it is handled here and not passed to the member. Replies leave by
    /// `out`.
    fn hears_network(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let Some((link, segment, packet)) = self.arp_of(nic, frame) else { return false };
        let now = self.now();
        let heard = segment.hosts().hear_network(&packet, now);
        if heard.goes_on {
            return false;
        }
        self.note_neighbour(segment, &packet, now);
        link.counters.arp_heard.add_shared(1);
        if let Some(mut answer) = heard.answer {
            let taken = segment.on_link(&mut answer, |octets| deliver(out, octets));
            link.counters.arp_answered.add_shared(taken);
        }
        self.tell((nic, segment), heard.told);
        true
    }

    /// Handles a member's ARP frame at a NIC; returns true if it is not passed to the network.
    fn hears_member(&self, (member, nic): (u16, usize), frame: &Frame<'_>) -> bool {
        let Some((link, segment, packet)) = self.arp_of(nic, frame) else { return false };
        let heard = segment.hosts().hear_member(member, &packet, self.now());
        self.tell((nic, segment), heard.told);
        let is_apart = self.machines.is_some();
        let counter = match heard.goes_on {
            false => &link.counters.arp_kept,
            true if is_apart && self.ask((nic, segment), &packet) == 0 => &link.counters.drop_asked,
            true => &link.counters.arp_asked,
        };
        counter.add_shared(1);
        !heard.goes_on || is_apart
    }

    /// Parses the ARP packet of a frame at a NIC; returns it with its link and segment.
    fn arp_of(&self, nic: usize, frame: &Frame<'_>) -> Option<(&Link, &Segment, arp::Packet)> {
        let mut octets = [0; ARP_FRAME + vlan::MOST * vlan::TAG];
        let len = frame.octets().copy_to_slice(&mut octets);
        let tags = vlan::Tags::parse(&octets[..len]).ok()?;
        let link = self.links.get(nic)?;
        let segment = link.segments().find(|segment| segment.has(&tags))?;
        let octets = untag(&mut octets[..len], &tags).filter(|_| tags.ethertype == ethernet::ARP)?;
        let packet = arp::Packet::parse(octets.get(ethernet::HEADER..)?).ok()?;
        Some((link, segment, packet))
    }

    /// Returns the interface of this number: NICs come first, then VLANs.
    fn interface(&self, number: usize) -> Option<Interface<'_>> {
        if let Some(link) = self.links.get(number) {
            return Some((number, link, &link.plain));
        }
        let links = self.links.iter().enumerate();
        let mut all = links.flat_map(|(nic, link)| link.segments().map(move |segment| (nic, link, segment)));
        all.find(|(.., segment)| usize::from(segment.number) == number)
    }

    /// Delivers a neighbour's message to members, if there is one.
    fn tell<const N: usize>(&self, (nic, segment): (usize, &Segment), told: Option<(u64, [u8; N])>) {
        let Some((to, mut spoken)) = told else { return };
        for (number, member) in self.live() {
            if to & bit(number) != 0 {
                segment.on_link(&mut spoken, |octets| self.put_into(&member, nic, octets));
            }
        }
    }

    /// Delivers a frame to a NIC of a member, if it is served, with the NIC's own Ethernet address as the destination, if it has one.
    fn put_into(&self, member: &Member, nic: usize, octets: &mut [u8]) {
        let front = self.front(nic);
        if front.is_some() {
            behind::address(octets, member.station(nic));
        }
        let taken = member.deliver(nic, octets);
        self.count_told(nic, taken.or_else(|| front?.send_inside(octets)));
    }

    fn count_told(&self, nic: usize, taken: Option<u64>) {
        if let (Some(link), Some(taken)) = (self.links.get(nic), taken) {
            let counter = if taken > 0 { &link.counters.told } else { &link.counters.drop_told };
            counter.add_shared(1);
        }
    }

    /// Adopts those settings of its group that may change while it runs.
    fn follow(&self, group: &Group) {
        self.balancers.follow(group);
        self.machines.iter().for_each(|machines| machines.follow(group));
        self.enrol(group);
        self.spread_by(group.spread);
        *self.parked.lock().unwrap_or_else(PoisonError::into_inner) = group.parked_members();
        self.pull(group, |_| true);
        self.set_neighbours(group);
        self.set_gateways(group);
        // Members that are to wake do not wait for the next round.
        self.bell.ring();
    }

    /// Adds a member.
    fn add_member(&self, group: &Group, (name, number): (&str, u16)) -> Option<Arc<Member>> {
        let member = if self.machines.is_some() {
            let member = Arc::new(group_member(group, number.into())?);
            self.enrolled().push(member.clone());
            member
        } else {
            let stations = self.links.iter().map(|link| link.mac).collect();
            Arc::new(Member::new(name, number, stations))
        };
        self.members().insert(number, Arc::downgrade(&member));
        Some(member)
    }

    fn enrolled(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.enrolled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adopts the members of a group, and their addresses for the balancers' tables, if balancers are virtual machines.
    fn enrol(&self, group: &Group) {
        if self.machines.is_none() {
            return;
        }
        let mut enrolled = self.enrolled();
        let known = |number: u32| enrolled.iter().find(|own| u32::from(own.number) == number).cloned();
        let member = |number: u32| known(number).or_else(|| Some(Arc::new(group_member(group, number)?)));
        let now: Vec<Arc<Member>> =
            (0..group.members).chain(group.remote_members()).filter_map(member).collect();
        for (nic, link) in self.links.iter().enumerate() {
            if let Way::Machines(front) = &link.way {
                front.know(now.iter().map(|member| (member.number, member.station(nic))).collect());
            }
        }
        *self.members() = now.iter().map(|member| (member.number, Arc::downgrade(member))).collect();
        *enrolled = now;
    }

    /// Adopts for the selected NICs whether their cables are pulled.
    fn pull(&self, group: &Group, is_meant: impl Fn(&Nic) -> bool) {
        for (link, nic) in self.links.iter().zip(&group.pattern.nics).filter(|(_, nic)| is_meant(nic)) {
            link.set_pulled(nic.is_pulled());
        }
    }
}

/// Parses the ARP packet of a frame.
fn packet_of(frame: &Frame<'_>) -> Option<arp::Packet> {
    let octets = frame.octets().read::<ARP_FRAME>(0)?;
    arp::Packet::parse(&octets[ethernet::HEADER..]).ok()
}

/// Sends one frame; returns the number of frames accepted.
fn deliver(sink: &dyn Sink, octets: &mut [u8]) -> u64 {
    sink.deliver(&[Frame::new(Bytes::from_slice(octets))]) as u64
}

/// Creates a member of a group with the addresses that it has behind balancers.
fn group_member(group: &Group, number: u32) -> Option<Member> {
    let stations = group.stations(number).map(|station| frame::Mac(station.0)).collect();
    Some(Member::new(&group.member(number), u16::try_from(number).ok()?, stations))
}

impl Ensemble {
    /// Finds or creates the attachments of a group's NICs, and begins to look after members. An attachment of the group that was there
    /// `before` stays in use.
    fn start(
        group: &Group,
        found: (&[Arc<Switch>], &mut HostServices, Option<&Self>),
        counts: &CounterRegistry,
    ) -> Result<Arc<Self>> {
        let confinement = found.1.confinement;
        let core = Self::core(group, found)?;
        let timer = Timer::start(&core, confinement)?;
        let registration = counts.add(counters::Counter { core: core.clone(), meter: timer.meter() });
        Ok(Arc::new(Self { core, group: group.clone(), timer, _counting: registration }))
    }

    /// Creates the shared state of a group, before its timer.
    fn core(
        group: &Group,
        (switches, supplies, before): (&[Arc<Switch>], &mut HostServices, Option<&Self>),
    ) -> Result<Arc<Core>> {
        let find = |nic: &Nic| {
            let held = before.map(|before| before.held(&nic.name, &group.wanted(nic))).unwrap_or_default();
            Link::new((group, nic), held, switches, supplies)
                .with_context(|| format!("group {}, NIC {}", group.name, nic.name))
        };
        let links = group.pattern.nics.iter().map(find).collect::<Result<Vec<_>>>()?;
        let core = Arc::new(Core {
            name: group.name.clone(),
            board: Mutex::new(Board::new(links.iter().map(|link| link.way.places()))),
            lead: AtomicU32::new(round::NO_LEAD),
            bell: Bell::default(),
            links,
            probes: Probes::new(secret()),
            began: before.map_or_else(Instant::now, |before| before.core.began),
            parked: Mutex::new(group.parked_members()),
            members: Mutex::default(),
            enrolled: Mutex::default(),
            balancers: Balancers::new(group, supplies.confinement),
            machines: Machines::new(group),
            tables: supplies.tables.clone(),
            asked: Mutex::default(),
            shortage: Mutex::default(),
            gateways: Mutex::default(),
            counters: EnsembleCounters::default(),
        });
        core.enrol(group);
        core.set_neighbours(group);
        core.set_gateways(group);
        core.doubt_neighbours(|_| true);
        Ok(core)
    }

    /// Returns true if it can become this group: members and the settings that [`Core::follow`] adopts may change, everything else is fixed
    /// while it runs.
    fn is_of(&self, group: &Group) -> bool {
        shape(&self.group) == shape(group)
    }

    /// Returns the group in a plan, if it can become that.
    fn wanted<'p>(&self, plan: &'p Plan) -> Option<&'p Group> {
        plan.group(&self.group.name).filter(|group| self.is_of(group))
    }

    /// Returns the attachment of one of its NICs, if it can stay in use for a NIC with these requirements, and its shadow.
    fn held(&self, nic: &str, wanted: &NicRequirements) -> Held {
        let known = self.core.links.iter().find(|link| link.nic == nic);
        let held =
            |link: &Link| Held { at: link.way.held(wanted), shadow: link.voice.as_ref().map(Voice::shadow) };
        known.map(held).unwrap_or_default()
    }

    /// Creates the attachment of a NIC of a member; `at`: its own attachment, if it has one.
    fn seat(
        self: &Arc<Self>,
        (name, number): (&str, u16),
        nic: usize,
        at: Option<Arc<dyn Attachment>>,
    ) -> Option<Arc<dyn Attachment>> {
        self.core.links.get(nic)?;
        let known = self.core.members().get(&number).and_then(Weak::upgrade);
        let member = match known {
            Some(known) => known,
            None => self.core.add_member(&self.group, (name, number))?,
        };
        Some(Arc::new(Seat { ensemble: self.clone(), member, nic, at }))
    }

    /// Creates the attachment of a NIC of a balancer that is a virtual machine; `inside`: the interconnection, and the NIC's address there.
    fn machine_seat(
        self: &Arc<Self>,
        (name, number): (&str, u16),
        nic: usize,
        inside: Option<(Arc<dyn Attachment>, frame::Mac)>,
    ) -> Option<Arc<dyn Attachment>> {
        let machine = self.core.machines.as_ref()?.find((name, number), 2 * self.core.links.len());
        Some(Arc::new(MachineSeat { ensemble: self.clone(), machine, nic, inside }))
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        self.core.balancers.stop();
        // The ports before balancers that are virtual machines act for all members, and so keep them alive.
        self.core.fronts().for_each(|(_, front)| front.close());
    }
}

/// Returns a number that cannot be guessed: whoever guessed it could answer for a member.
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
