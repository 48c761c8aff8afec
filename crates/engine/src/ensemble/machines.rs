//! Balancers that are virtual machines, of all links of a group: who is alive, and who carries which link.
//!
//! They are judged like members: in each round an order goes through each of their NICs, out of the other one of its link, and is taken out
//! there; frames that pass count as much. One that is cut leaves its links to the others.

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

/// The balancers of a group, where they are virtual machines.
pub(super) struct Machines {
    /// How many there are to be.
    count: AtomicUsize,
    /// Whether members are served elsewhere, of which only what reaches a balancer is seen here.
    is_before_others: bool,
    /// Whether members do not try the group's IPv6 addresses before they use them: kernel routers hear each other.
    tries_addresses: bool,
    known: Mutex<BTreeMap<u16, Weak<Member>>>,
    board: Mutex<Board>,
    /// What is behind those behind which a path was cut.
    paths: Mutex<BTreeMap<u16, Path>>,
    /// When paths were listened to last, and whether something was sent by them since.
    listened: Mutex<(Duration, bool)>,
    /// Number of the balancer that is asked next.
    turn: AtomicUsize,
}

/// Those that there are.
type Live = BTreeMap<u16, Arc<Member>>;

impl Machines {
    /// None yet; `None`: those of the group are no machines.
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

    /// Whether members are kernel routers, or on other hosts.
    pub(super) const fn is_before_others(&self) -> bool {
        self.is_before_others
    }

    /// Whether the group tries its IPv6 addresses for its members, which are kernel routers.
    pub(super) const fn tries_addresses(&self) -> bool {
        self.tries_addresses
    }

    /// What is known of the paths behind them. To be taken after the board.
    pub(super) fn paths(&self) -> MutexGuard<'_, BTreeMap<u16, Path>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of whoever is asked first, of so many that are asked at a time.
    pub(super) fn turn(&self, asked: usize) -> usize {
        self.turn.fetch_add(asked, Ordering::Relaxed)
    }

    /// Whether something was sent by all paths.
    pub(super) fn note_asked(&self, was_asked: bool) {
        self.listened.lock().unwrap_or_else(PoisonError::into_inner).1 = was_asked;
    }

    /// What has passed since this was called last, and whether something was sent by all paths.
    pub(super) fn listened(&self, now: Duration) -> (Duration, bool) {
        let mut listened = self.listened.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut listened.0, now);
        (now.saturating_sub(before), listened.1)
    }

    /// Those that there are.
    pub(super) fn live(&self) -> Live {
        let mut known = self.known();
        known.retain(|_, machine| machine.strong_count() > 0);
        known.iter().filter_map(|(number, machine)| Some((*number, machine.upgrade()?))).collect()
    }

    /// The one of this number, if there is one.
    pub(super) fn get(&self, number: u16) -> Option<Arc<Member>> {
        self.known().get(&number)?.upgrade()
    }

    /// The one of this number, which is plugged into so many places.
    pub(super) fn find(&self, (name, number): (&str, u16), places: usize) -> Arc<Member> {
        let mut known = self.known();
        known.get(&number).and_then(Weak::upgrade).unwrap_or_else(|| {
            let machine = Arc::new(Member::new(name, number, vec![Mac::default(); places]));
            known.insert(number, Arc::downgrade(&machine));
            machine
        })
    }

    /// There are to be so many.
    pub(super) fn follow(&self, group: &Group) {
        self.count.store(group.balancers() as usize, Ordering::Relaxed);
    }

    /// What has happened to them since this was asked last, by router.
    pub(super) fn take_news(&self) -> Vec<(String, News)> {
        let news = self.board().take_news();
        let live = self.live();
        let named = |(number, news): (Number, News)| Some((live.get(&number.0)?.name.clone(), news));
        news.into_iter().filter_map(named).collect()
    }
}

impl Core {
    /// The balancers at a link, where they are virtual machines.
    pub(super) fn front(&self, nic: usize) -> Option<&Arc<Front>> {
        match &self.links.get(nic)?.way {
            Way::Machines(front) => Some(front),
            Way::Owned(_) | Way::Balanced(_) => None,
        }
    }

    pub(super) fn fronts(&self) -> impl Iterator<Item = (usize, &Arc<Front>)> {
        (0..self.links.len()).filter_map(move |nic| Some((nic, self.front(nic)?)))
    }

    /// Ends the rounds of balancers that are due, and begins the next ones; when to come again, if there is any.
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

    /// Tells balancers of tables that they do not know, without waiting for the next round.
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

    /// Sends an order into each NIC of a balancer, or into those whose link it does not know the table of; which NICs these are, one bit
    /// each. `None`: none of them is served.
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

    /// An order has passed a balancer that had entered at this place, or something that looks like one.
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

    /// Has links be carried by balancers that can, and tells the interconnection where their neighbours are from now on.
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

    /// Tells the interconnection that all known neighbours of a link are behind its carrier.
    fn announce_all(&self, nic: usize) {
        let (Some(link), Some(front)) = (self.links.get(nic), self.front(nic)) else { return };
        for (number, segment) in link.segments().enumerate() {
            let (known, known_six) = (segment.hosts().stations(), segment.nodes().stations());
            let fixed = link.fixed.iter().filter(|(of, _)| *of == number).map(|(_, mac)| *mac);
            let told = front.announce(segment, known.into_iter().chain(known_six).chain(fixed), true);
            link.counters.announced.add_shared(told);
        }
    }

    /// Tells the interconnection that a neighbour that has spoken is behind the carrier of its link.
    pub(super) fn announce(&self, (nic, segment): (usize, &Segment), station: Option<frame::Mac>) {
        let (Some(link), Some(front)) = (self.links.get(nic), self.front(nic)) else { return };
        let told = front.announce(segment, station, false);
        link.counters.announced.add_shared(told);
    }

    /// Has balancers carry nothing any more, as far as they are meant; whether there are any that could before.
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

    /// Those that were cut are watched again, as far as they are meant.
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

    /// How a balancer is, in one line, and how many links it carries.
    pub(super) fn state_of_machine(&self, number: u16) -> Option<String> {
        let state = self.machines.as_ref()?.board().state(Number(number))?.name();
        let carried = self.fronts().filter(|(_, front)| front.is_carrier(number)).count();
        Some(format!("{state}, {carried} of {} links", self.links.len()))
    }
}
