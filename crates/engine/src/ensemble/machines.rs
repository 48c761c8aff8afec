//! Balancers that are virtual machines, of all links of a group: which of them are alive, and which carries which link.
//!
//! They are judged like members: in each round an order enters each of their NICs, leaves by the other NIC of its link, and is taken out
//! there; forwarded frames are equal evidence. When a balancer is cut off, others carry its links.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use config::Group;
use frame::Mac;
use frame::order::Order;
use group::{Member as Number, Probe, State};

use super::balancers::owner;
use super::front::Front;
use super::path::Path;
use super::round::{Board, Last};
use super::seat::{Aside, Member};
use super::segment::Segment;
use super::{Core, News, Way};

/// The balancers of a group that are virtual machines.
pub(super) struct Machines {
    /// Wanted number.
    count: AtomicUsize,
    /// True if members are served elsewhere: only their frames that reach a balancer are seen here.
    is_before_others: bool,
    /// True if the group does duplicate address detection for its members: kernel routers would hear each other's.
    tries_addresses: bool,
    known: Mutex<BTreeMap<u16, Weak<Member>>>,
    board: Mutex<Board>,
    /// State of the paths behind balancers behind which one was cut.
    paths: Mutex<BTreeMap<u16, Path>>,
    /// Time of the last check of the paths, and whether a question was sent by each of them since.
    listened: Mutex<(Duration, bool)>,
    /// Turn counter by which the next balancers to be asked are chosen.
    turn: AtomicUsize,
}

/// Existing balancers by number.
type Live = BTreeMap<u16, Arc<Member>>;

impl Machines {
    /// Creates an empty set; `None` if the group's balancers are no virtual machines.
    pub(super) fn new(group: &Group) -> Option<Self> {
        let count = AtomicUsize::new(group.balancers() as usize);
        let (known, board) = (Mutex::default(), Mutex::new(Board::of_balancers()));
        let (paths, listened, turn) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        let tries_addresses = group.pattern.is_in_kernel();
        let is_before_others = tries_addresses || group.remote_members().next().is_some();
        group.has_machines().then_some(Self {
            count,
            is_before_others,
            tries_addresses,
            known,
            board,
            paths,
            listened,
            turn,
        })
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u16, Weak<Member>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if members are kernel routers, or on other hosts.
    pub(super) const fn is_before_others(&self) -> bool {
        self.is_before_others
    }

    /// Returns true if the group does duplicate address detection for its members, which are kernel routers.
    pub(super) const fn tries_addresses(&self) -> bool {
        self.tries_addresses
    }

    /// Locks the states of the paths behind them. Lock order: after the board.
    pub(super) fn paths(&self) -> MutexGuard<'_, BTreeMap<u16, Path>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the turn of the first to be asked, when this many are asked at a time.
    pub(super) fn turn(&self, asked: usize) -> usize {
        self.turn.fetch_add(asked, Ordering::Relaxed)
    }

    /// Notes whether a question was sent by each path.
    pub(super) fn note_asked(&self, was_asked: bool) {
        self.listened.lock().unwrap_or_else(PoisonError::into_inner).1 = was_asked;
    }

    /// Returns the time since the last call, and whether a question was sent by each path meanwhile.
    pub(super) fn listened(&self, now: Duration) -> (Duration, bool) {
        let mut listened = self.listened.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut listened.0, now);
        (now.saturating_sub(before), listened.1)
    }

    /// Returns the existing balancers.
    pub(super) fn live(&self) -> Live {
        let mut known = self.known();
        known.retain(|_, machine| machine.strong_count() > 0);
        known.iter().filter_map(|(number, machine)| Some((*number, machine.upgrade()?))).collect()
    }

    /// Returns the balancer with this number, if it exists.
    pub(super) fn get(&self, number: u16) -> Option<Arc<Member>> {
        self.known().get(&number)?.upgrade()
    }

    /// Returns the balancer with this number, which has this many NICs, and creates it if necessary.
    pub(super) fn find(&self, (name, number): (&str, u16), places: usize) -> Arc<Member> {
        let mut known = self.known();
        known.get(&number).and_then(Weak::upgrade).unwrap_or_else(|| {
            let machine = Arc::new(Member::new(name, number, vec![Mac::default(); places]));
            known.insert(number, Arc::downgrade(&machine));
            machine
        })
    }

    /// Adopts the number of balancers of a changed group.
    pub(super) fn follow(&self, group: &Group) {
        self.count.store(group.balancers() as usize, Ordering::Relaxed);
    }

    /// Takes the events since the last call, with the router of each.
    pub(super) fn take_news(&self) -> Vec<(String, News)> {
        let news = self.board().take_news();
        let live = self.live();
        let named = |(number, news): (Number, News)| Some((live.get(&number.0)?.name.clone(), news));
        news.into_iter().filter_map(named).collect()
    }
}

impl Core {
    /// Returns the balancers at a link, if they are virtual machines.
    pub(super) fn front(&self, nic: usize) -> Option<&Arc<Front>> {
        match &self.links.get(nic)?.way {
            Way::Machines(front) => Some(front),
            Way::Owned(_) | Way::Balanced(_) => None,
        }
    }

    pub(super) fn fronts(&self) -> impl Iterator<Item = (usize, &Arc<Front>)> {
        (0..self.links.len()).filter_map(move |nic| Some((nic, self.front(nic)?)))
    }

    /// Ends the balancers' rounds that are due and begins the next ones; returns when to call again, if there are balancers.
    pub(super) fn round_of_machines(&self, now: Duration) -> Option<Duration> {
        let machines = self.machines.as_ref()?;
        let live = machines.live();
        let mut board = machines.board();
        board.hear(&live, now);
        board.bury(&live, now);
        let mut orders = board.judge(&live, now, &self.counters);
        orders.extend(board.enrol(&live, now));
        let usable = self.usable_cables(now);
        for Probe { member: number, number: order } in orders {
            let Some(machine) = live.get(&number.0) else { continue };
            let passed = machine.passed();
            let needs = board.needs(number, passed);
            let entered = self.order(machine, order, (needs, &usable));
            board.send(number, Last { number: order, passed, entered: entered.filter(|_| needs) });
        }
        self.judge_paths(machines, &mut board, (now, &usable));
        self.deal_links(machines, &board, now);
        board.due()
    }

    /// Sends new tables to balancers that do not know them, without waiting for the next round.
    pub(super) fn tell_machines(&self, now: Duration) {
        let Some(machines) = &self.machines else { return };
        let usable = self.usable_cables(now);
        let board = machines.board();
        for machine in machines.live().values() {
            if let Some(last) = board.last(Number(machine.number)) {
                self.order(machine, last, (false, &usable));
            }
        }
    }

    /// Sends an order into each NIC of a balancer, or only into those of links whose current table it does not know; returns the NICs that
    /// accepted it, one bit each. `None`: none of them is served.
    fn order(&self, machine: &Member, number: u32, (to_all, usable): (bool, &[u8])) -> Option<u32> {
        if usable.is_empty() {
            return Some(0);
        }
        let mut entered: u32 = 0;
        for (nic, front) in self.fronts().filter(|(nic, _)| usable.contains(&(*nic as u8))) {
            for place in [nic, self.links.len() + nic] {
                let is_known = machine.known(place) == front.generation();
                if is_known && !to_all {
                    continue;
                }
                let (mut octets, len) = front.order(number, is_known);
                if machine.deliver(place, &mut octets[..len]).is_some() {
                    entered |= 1 << place;
                }
            }
        }
        (entered != 0).then_some(entered)
    }

    /// Handles an order that has passed a balancer and had entered at NIC `place`, or a frame that looks like one.
    pub(super) fn hears_order(&self, machine: &Member, (nic, place): (usize, usize), octets: &[u8]) {
        let Some(counters) = self.links.get(nic).map(|link| &link.counters) else { return };
        match Order::read(octets) {
            Some(order) => {
                machine.note_order(place, (order.number, order.known));
                counters.orders_back.add_shared(1);
            }
            None => counters.drop_forged.add_shared(1),
        }
    }

    /// Assigns links to balancers that can carry them, and announces to the interconnection where their neighbours are from now on.
    fn deal_links(&self, machines: &Machines, board: &Board, now: Duration) {
        let able: Vec<usize> = board.able().map(usize::from).collect();
        let count = machines.count.load(Ordering::Relaxed);
        for (nic, front) in self.fronts() {
            let carrier = owner(nic, &able, count);
            let is_carried = carrier.is_some_and(|carrier| board.serves(carrier));
            let machine = carrier.and_then(|carrier| machines.get(carrier));
            machine.into_iter().for_each(|machine| front.note_known(machine.known(nic)));
            let before = front.carry(carrier, is_carried, now);
            if before == carrier {
                continue;
            }
            self.counters.links_moved.add_shared(u64::from(before.is_some()));
            if carrier.is_some() {
                self.announce_all(nic);
            }
        }
    }

    /// Announces to the interconnection that all known neighbours of a link are behind its carrier.
    fn announce_all(&self, nic: usize) {
        let (Some(link), Some(front)) = (self.links.get(nic), self.front(nic)) else { return };
        for (number, segment) in link.segments().enumerate() {
            let (known, known_six) = (segment.hosts().stations(), segment.nodes().stations());
            let fixed = link.fixed.iter().filter(|(of, _)| *of == number).map(|(_, mac)| *mac);
            let told = front.announce(segment, known.into_iter().chain(known_six).chain(fixed), true);
            link.counters.announced.add_shared(told);
        }
    }

    /// Announces to the interconnection that a neighbour from which a frame has come is behind the carrier of its link.
    pub(super) fn announce(&self, (nic, segment): (usize, &Segment), station: Option<frame::Mac>) {
        let (Some(link), Some(front)) = (self.links.get(nic), self.front(nic)) else { return };
        let told = front.announce(segment, station, false);
        link.counters.announced.add_shared(told);
    }

    /// Takes the links away from the selected balancers; returns true if any of them could carry links before.
    pub(super) fn cut(&self, is_meant: impl Fn(&str) -> bool) -> bool {
        let Some(machines) = &self.machines else { return false };
        let (live, now) = (machines.live(), self.now());
        let mut board = machines.board();
        let mut any = false;
        for machine in live.values().filter(|machine| is_meant(&machine.name)) {
            machine.set_aside(Aside::Planned);
            let number = Number(machine.number);
            if board.state(number) != Some(State::Leaving) {
                board.part_with(number, now);
                any = true;
            }
        }
        self.deal_links(machines, &board, now);
        any
    }

    /// Watches the selected balancers again after [`Core::cut`].
    pub(super) fn mend(&self, is_meant: impl Fn(&str) -> bool) {
        let Some(machines) = &self.machines else { return };
        let (live, now) = (machines.live(), self.now());
        let mut board = machines.board();
        for machine in live.values().filter(|machine| is_meant(&machine.name)) {
            machine.take_back(Aside::Planned);
            let number = Number(machine.number);
            if !machine.is_aside() {
                board.restart(number, machine.passed(), now);
            }
        }
    }

    /// Describes the state of a balancer in one line, with the number of links that it carries.
    pub(super) fn state_of_machine(&self, number: u16) -> Option<String> {
        let state = self.machines.as_ref()?.board().state(Number(number))?.name();
        let carried = self.fronts().filter(|(_, front)| front.is_carrier(number)).count();
        Some(format!("{state}, {carried} of {} links", self.links.len()))
    }
}
