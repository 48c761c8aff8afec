//! The neighbour table that members of a group share: they only read it, and this module alone writes it.
//!
//! ```text
//!  member: a packet for a host that is not in the table --> question at its desk (a ring that is overwritten)
//!  round:  at most so many questions of each member a second --> ARP request, one for all members
//!  network: ARP reply --> table --> all members; those that have asked are woken by a frame
//! ```
//!
//! Of a member nothing is trusted: its questions are checked; those beyond its rate stay at its desk until they are overwritten, and are
//! counted. Neighbours are kept fresh here, for all members at once.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bootinfo::{Hearers, Question};
use config::Group;
use frame::{Mac, arp};
use ledger::Counter;
use router::neighbours::{Ageing, REACHABLE};
use router::{Ip, Neighbour};
use vmm::{MemberDesk, NeighbourTable};

use super::link::Interface;
use super::seat::Member;
use super::segment::Segment;
use super::{Core, deliver};

/// Interval of checks of the desks: a packet to an unknown host waits up to this long, and then for the reply.
const LOOK: Duration = Duration::from_millis(10);
/// Questions of a member that are accepted in a second, and at once.
const RATE: u32 = 500;
const BURST: u32 = 64;
/// Attempts to change the table while threads that receive from the network hold its lock.
const ATTEMPTS: usize = 100;

/// Existing members by number.
pub(super) type Members = BTreeMap<u16, Arc<Member>>;

/// State of the members' questions and of the ageing of neighbours.
#[derive(Default)]
pub(super) struct Asked {
    desks: BTreeMap<u16, Listener>,
    ageing: Ageing,
    /// Time at which the table is to be aged, in milliseconds; `None`: once a neighbour has been added.
    due: Option<u64>,
    /// The table's count of added neighbours at the last check.
    arrivals: u32,
}

/// Listener at the desk of one member.
struct Listener {
    /// Its desk: a restarted member has another one.
    desk: Weak<MemberDesk>,
    hearers: Hearers,
    pace: Pace,
}

/// A token bucket: how much a member may ask now, in thousandths of a question.
#[derive(Clone, Copy, Debug)]
struct Pace {
    left: u64,
    filled: Duration,
}

impl Pace {
    const FULL: u64 = BURST as u64 * 1000;

    const fn new(now: Duration) -> Self {
        Self { left: Self::FULL, filled: now }
    }

    /// Returns the number of questions that may be accepted.
    fn allowed(&mut self, now: Duration) -> usize {
        let passed = ms(now).saturating_sub(ms(self.filled));
        if passed > 0 {
            self.filled = now;
            self.left = self.left.saturating_add(passed.saturating_mul(RATE.into())).min(Self::FULL);
        }
        (self.left / 1000) as usize
    }

    /// Takes tokens for this many accepted questions.
    fn take(&mut self, questions: u32) {
        self.left = self.left.saturating_sub(u64::from(questions) * 1000);
    }
}

const fn ms(now: Duration) -> u64 {
    now.as_millis() as u64
}

impl Core {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the neighbour table, if members share one.
    fn table(&self) -> Option<Arc<NeighbourTable>> {
        self.tables.neighbours(&self.name)
    }

    /// Enters the sender of an ARP packet from the network into the table that members share, if it was requested or is known.
    pub(super) fn note_neighbour(&self, segment: &Segment, packet: &arp::Packet, now: Duration) {
        let (ip, mac) = (packet.sender_ip, packet.sender_mac);
        let Some(table) = self.table() else { return };
        if segment.hosts().has_heard((ip, mac), now) {
            self.learn_neighbour(&table, Neighbour { nic: segment.number, ip: Ip::v4(ip), mac }, now);
        }
    }

    /// Enters an IPv6 neighbour about which a message has come from the network, as for ARP.
    pub(super) fn note_node(&self, segment: &Segment, ip: u128, now: Duration) {
        let Some(table) = self.table() else { return };
        if let Some(mac) = segment.nodes().heard(ip, now) {
            self.learn_neighbour(&table, Neighbour { nic: segment.number, ip: Ip::v6(ip), mac }, now);
        }
    }

    fn learn_neighbour(&self, table: &NeighbourTable, neighbour: Neighbour, now: Duration) {
        if table.learn(neighbour, true, ms(now)) {
            self.counters.neighbours_replaced.add_shared(1);
        }
    }

    /// Returns the report that is due about a full table, which has room for `size` neighbours.
    pub(super) fn shortage(&self, now: Instant, size: u32) -> Option<String> {
        let mut shortage = self.shortage.lock().unwrap_or_else(PoisonError::into_inner);
        shortage.look(now, size, self.counters.neighbours_replaced.get())
    }

    /// Returns true if the stored address of an IPv6 neighbour may be used: it is in the table, if members share one.
    pub(super) fn is_node_known(&self, segment: &Segment, ip: u128) -> bool {
        self.table().is_none_or(|table| table.find(segment.number, Ip::v6(ip)).is_some())
    }

    /// Makes the static neighbours of a group the only ones in the table.
    pub(super) fn set_neighbours(&self, group: &Group) {
        let Some(table) = self.table() else { return };
        let four = |known: config::Neighbour| Neighbour {
            nic: known.nic as u8,
            ip: Ip::v4(known.address.to_bits()),
            mac: Mac(known.mac.0),
        };
        let six = |known: &config::forwarding::Neighbour6| Neighbour {
            nic: known.nic as u8,
            ip: Ip::v6(known.address.to_bits()),
            mac: Mac(known.mac.0),
        };
        let others = group.pattern.forwarding.neighbours6.iter().map(six);
        let wanted: Vec<Neighbour> = group.neighbours().into_iter().map(four).chain(others).collect();
        // A thread that holds the lock holds it for some microseconds, unless it is preempted.
        let _ = (0..ATTEMPTS).any(|_| table.set_static(&wanted));
    }

    /// Marks neighbours at these NICs, and in their VLANs, as doubtful, because other hosts may have their addresses by now: they are
    /// asked, and are used as before until they do not answer.
    pub(super) fn doubt_neighbours(&self, is_meant: impl Fn(usize) -> bool) {
        let Some(table) = self.table() else { return };
        let meant = self.links.iter().enumerate().filter(|(nic, _)| is_meant(*nic));
        for segment in meant.flat_map(|(_, link)| link.segments()) {
            let _ = (0..ATTEMPTS).any(|_| table.mark_doubtful(segment.number, ms(self.now())));
        }
        let mut asked = self.asked();
        asked.ageing.hurry();
        asked.due = Some(0);
    }

    /// Handles the members' questions, and keeps neighbours fresh; returns when to call again, if members share a table.
    pub(super) fn attend_neighbours(&self, members: &Members, now: Duration) -> Option<Duration> {
        let table = self.table()?;
        let mut asked = self.asked();
        asked.desks.retain(|number, _| members.contains_key(number));
        let mut questions: Vec<(u16, Question)> = Vec::new();
        for member in members.values() {
            if let Some(desk) = self.tables.desk(&member.name) {
                let listener = asked.listener(member.number, &desk, now);
                self.hear(listener, &desk, now, |question| questions.push((member.number, question)));
            }
        }
        let probes = asked.age(&table, now);
        drop(asked);
        for (member, question) in questions {
            self.answer((member, question), &table, (members, now));
        }
        for probe in probes {
            self.probe_neighbour(probe, (members, now));
        }
        self.attend_gateways(&table, (members, now));
        Some(now + LOOK)
    }

    /// Takes the questions of one member.
    fn hear(&self, listener: &mut Listener, desk: &MemberDesk, now: Duration, each: impl FnMut(Question)) {
        let most = listener.pace.allowed(now);
        let heard = listener.hearers.hear(desk, most, each);
        listener.pace.take(heard.taken);
        self.counters.questions.add(heard.taken.into());
        self.counters.questions_lost.add(heard.lost.into());
    }

    /// Answers a question of a member: asks the network, once for all members, or wakes the member if the answer is there already.
    fn answer(
        &self,
        (member, Question { nic, ip }): (u16, Question),
        table: &NeighbourTable,
        (members, now): (&Members, Duration),
    ) {
        let interface = self.interface(nic.into());
        let interface = interface.filter(|(.., segment)| segment.hosts().may_be_asked(ip));
        let Some(interface @ (at, link, segment)) = interface else {
            self.counters.questions_refused.add(1);
            return;
        };
        let is_known = table.find(nic, Ip::v4(ip)).is_some();
        let (heard, mut question) = {
            let mut hosts = segment.hosts();
            (hosts.ask((member, ip), is_known, now), hosts.question(ip, Mac::BROADCAST))
        };
        self.tell((at, segment), heard.told);
        if heard.goes_on {
            self.send_question((interface, &link.counters.arp_asked), &mut question, members);
        }
    }

    /// Sends a request to a neighbour to see whether it is still there.
    fn probe_neighbour(&self, neighbour: Neighbour, (members, now): (&Members, Duration)) {
        let Some(interface @ (_, link, segment)) = self.interface(neighbour.nic.into()) else { return };
        let Some(ip) = neighbour.ip.as_v4() else {
            let mut question = {
                let mut nodes = segment.nodes();
                nodes.expect(neighbour.ip.bits(), now);
                nodes.question(neighbour.ip.bits(), neighbour.mac)
            };
            self.send_question((interface, &link.counters.nd_asked), &mut question, members);
            return;
        };
        let mut question = {
            let mut hosts = segment.hosts();
            hosts.expect(ip, now);
            hosts.question(ip, neighbour.mac)
        };
        self.send_question((interface, &link.counters.arp_asked), &mut question, members);
    }

    /// Sends a request by an interface, through the sink of any member, or at the link itself if balancers are virtual machines; counts it
    /// in `asked`. Returns true if it was sent.
    pub(super) fn send_question(
        &self,
        ((nic, link, segment), asked): (Interface<'_>, &Counter),
        question: &mut [u8],
        members: &Members,
    ) -> bool {
        let out = || members.values().find_map(|member| member.out(nic));
        let sent = segment.on_link(question, |octets| match self.front(nic) {
            Some(front) => front.send_outside(octets),
            None => out().map_or(0, |out| deliver(&*out, octets)),
        });
        let counter = if sent > 0 { asked } else { &link.counters.drop_asked };
        counter.add_shared(1);
        sent > 0
    }
}

impl Asked {
    /// Returns the listener at the desk of a member.
    fn listener(&mut self, member: u16, desk: &Arc<MemberDesk>, now: Duration) -> &mut Listener {
        let new =
            || Listener { desk: Arc::downgrade(desk), hearers: Hearers::new(desk), pace: Pace::new(now) };
        let known = self.desks.entry(member).or_insert_with(new);
        if !std::ptr::eq(known.desk.as_ptr(), Arc::as_ptr(desk)) {
            *known = new();
        }
        known
    }

    /// Ages the table if that is due; returns neighbours that are to be asked.
    fn age(&mut self, table: &NeighbourTable, now: Duration) -> Vec<Neighbour> {
        let mut probes = Vec::new();
        let arrivals = table.arrivals();
        if std::mem::replace(&mut self.arrivals, arrivals) != arrivals {
            let due = ms(now).saturating_add(REACHABLE);
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
        if self.due.is_some_and(|due| due <= ms(now)) {
            self.due = table.age(&mut self.ageing, ms(now), &mut |neighbour| probes.push(neighbour));
        }
        probes
    }
}

#[cfg(test)]
mod tests;
