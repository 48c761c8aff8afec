//! Many routers that are one outside, as they run here: a group's links, what is done for all members at once, who is alive, and who owns
//! which queue.
//!
//! ```text
//!  link (TAP, port of a switch)             here                                    member
//!   queue 0..Q --> owned by members --> ARP is heard by `Hosts` ---- the rest ----> NIC
//!                                            |         ^   `---- what hosts say --> NIC
//!                                            v         |
//!   any queue <---------------------- answers, one question --- ARP, probes taken out <-- NIC
//!
//!   likewise neighbour discovery, by `Nodes`
//!                                                      |
//!                      round (10 ms): a probe into each NIC; Judge -> Roster -> Assignment -> owners
//! ```
//!
//! Behind a balancer (`kind = "multistage"`) members have buckets of its table in the place of queues, and a thread of the group reads the
//! link; or, with `balancer = "vm"`, a virtual machine does ([`front`]), which is judged like members are ([`machines`]). What is decided is
//! decided by [`group`]; this is what carries it out. It knows nothing of a member's engine, and changes nothing in it: members forward
//! probes by a route, and ask for neighbours by ARP, or where they have one table of them by their desks (`neighbours`).

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
use link::{Held, Link};
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

/// A group that runs here. It goes with the last of its members.
pub(crate) struct Ensemble {
    core: Arc<Core>,
    /// As the plan had it when it began.
    group: Group,
    timer: Timer,
    _counting: CounterRegistration,
}

/// What its timer and the threads of its members share.
struct Core {
    name: String,
    links: Vec<Link>,
    probes: Probes,
    /// What times are counted from. A group that takes the place of another one counts on: both write times into one neighbour table.
    began: Instant,
    /// Numbers of those that are to be parked.
    parked: Mutex<Range<u32>>,
    /// Those that there are, by number.
    members: Mutex<BTreeMap<u16, Weak<Member>>>,
    /// Behind balancers that are virtual machines all members are there that the plan has, served here or not.
    enrolled: Mutex<Vec<Arc<Member>>>,
    board: Mutex<Board>,
    /// Number of the member that advertises the group as a router, so that none that moves frames waits for the board; or [`round::NO_LEAD`].
    lead: AtomicU32,
    /// Has the timer come before the next round is due.
    bell: Bell,
    balancers: Balancers,
    /// Balancers that are virtual machines; none: they are not.
    machines: Option<Machines>,
    /// Its neighbour table, where its members have one in common, and their desks.
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

    /// Those that there are.
    fn live(&self) -> BTreeMap<u16, Arc<Member>> {
        let mut members = self.members();
        members.retain(|_, member| member.strong_count() > 0);
        members.iter().filter_map(|(number, member)| Some((*number, member.upgrade()?))).collect()
    }

    /// The control plane at each link, if there is one.
    fn voices(&self) -> impl Iterator<Item = &Voice> {
        self.links.iter().filter_map(|link| link.voice.as_ref())
    }

    /// What has passed since it began.
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// The network has sent an ARP frame to a NIC; whether it was for us and not for the member that has it. What is answered leaves
    /// by `out`.
    fn hears_network(&self, nic: usize, frame: &Frame<'_>, out: &dyn Sink) -> bool {
        let Some((link, segment, packet)) = self.arp_of(nic, frame) else { return false };
        let now = self.now();
        let heard = segment.hosts().hear_network(&packet, now);
        if heard.goes_on {
            return false;
        }
        self.note_neighbour(nic, &packet, now);
        link.counters.arp_heard.add_shared(1);
        if let Some(mut answer) = heard.answer {
            let taken = segment.on_link(&mut answer, |octets| deliver(out, octets));
            link.counters.arp_answered.add_shared(taken);
        }
        self.tell((nic, segment), heard.told);
        true
    }

    /// A member has sent an ARP frame by a NIC; whether that stays here.
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

    /// The ARP packet of a frame at a NIC, and where it is heard.
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

    /// Tells members what a neighbour says, where there is something to tell.
    fn tell<const N: usize>(&self, (nic, segment): (usize, &Segment), told: Option<(u64, [u8; N])>) {
        let Some((to, mut spoken)) = told else { return };
        for (number, member) in self.live() {
            if to & bit(number) != 0 {
                segment.on_link(&mut spoken, |octets| self.put_into(&member, nic, octets));
            }
        }
    }

    /// Puts a frame into a NIC of a member, if that is served; where it has an address of its own, for that.
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

    /// Follows those settings of its group that may change while it runs.
    fn follow(&self, group: &Group) {
        self.balancers.follow(group);
        self.machines.iter().for_each(|machines| machines.follow(group));
        self.enrol(group);
        self.spread_by(group.spread);
        *self.parked.lock().unwrap_or_else(PoisonError::into_inner) = group.parked_members();
        self.pull(group, |_| true);
        self.set_neighbours(group);
        self.set_gateways(group);
        // Members that are to wake are not kept waiting for the next round.
        self.bell.ring();
    }

    /// Adds a member that is not there.
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

    /// Has those members be there that a group has, and balancers know their addresses, where these are virtual machines.
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

    /// Pulls cables out and plugs them in as its group has them, as far as they are meant.
    fn pull(&self, group: &Group, is_meant: impl Fn(&Nic) -> bool) {
        for (link, nic) in self.links.iter().zip(&group.pattern.nics).filter(|(_, nic)| is_meant(nic)) {
            link.set_pulled(nic.is_pulled());
        }
    }
}

/// The ARP packet of a frame that has one.
fn packet_of(frame: &Frame<'_>) -> Option<arp::Packet> {
    let octets = frame.octets().read::<ARP_FRAME>(0)?;
    arp::Packet::parse(&octets[ethernet::HEADER..]).ok()
}

/// Sends one frame; how many were taken.
fn deliver(sink: &dyn Sink, octets: &mut [u8]) -> u64 {
    sink.deliver(&[Frame::new(Bytes::from_slice(octets))]) as u64
}

/// A member of a group with the addresses that it has behind balancers.
fn group_member(group: &Group, number: u32) -> Option<Member> {
    let stations = group.stations(number).map(|station| frame::Mac(station.0)).collect();
    Some(Member::new(&group.member(number), u16::try_from(number).ok()?, stations))
}

impl Ensemble {
    /// Finds or makes what the NICs of a group are plugged into, and begins to look after members. What goes on from one that was
    /// there `before` it is plugged into nothing else.
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

    /// What there is of a group before anybody looks after it.
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

    /// Whether it can be this group: members come and go, the settings that [`Core::follow`] knows change, and all else stays for its
    /// life.
    fn is_of(&self, group: &Group) -> bool {
        shape(&self.group) == shape(group)
    }

    /// The group in a plan, if it can be that.
    fn wanted<'p>(&self, plan: &'p Plan) -> Option<&'p Group> {
        plan.group(&self.group.name).filter(|group| self.is_of(group))
    }

    /// What one of its NICs is plugged into, if that can go on for a NIC that wants this, and its shadow.
    fn held(&self, nic: &str, wanted: &NicRequirements) -> Held {
        let known = self.core.links.iter().find(|link| link.nic == nic);
        let held =
            |link: &Link| Held { at: link.way.held(wanted), shadow: link.voice.as_ref().map(Voice::shadow) };
        known.map(held).unwrap_or_default()
    }

    /// What a NIC of a member is plugged into; `at`: it has that for itself.
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

    /// What a NIC of a balancer is plugged into that is a virtual machine; `at`: the interconnection, and the NIC's address there.
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
        // What stands before balancers that are virtual machines hears for all members, and so keeps them.
        self.core.fronts().for_each(|(_, front)| front.close());
    }
}

/// A number that nobody can guess: who could would answer for a member.
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
