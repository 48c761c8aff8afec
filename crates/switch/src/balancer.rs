//! The balancer: a sink that spreads what comes over several others, each of which takes all frames of the flows that are its.
//!
//! It is what a group of routers is on a switch: one port, behind which each member has a queue of its own. What members send enters
//! the switch by that port, so that they are one station with one address.
//!
//! ```text
//!  switch or link --> deliver --> bucket of the flow --> table --> member 0's queue
//!                                   (256 of them)           \----> member 1's queue
//! ```
//!
//! The owner of each bucket is decided elsewhere and told by [`Balancer::spread`] as a whole. Several threads may deliver at the same time: each
//! has a lane, with the table as it found it, which it looks up anew when that has changed. No step takes a lock for a frame, or
//! allocates for a burst.
//!
//! The books: in_frames = out_frames + drop_full + drop_no_member, here and as the sum over members.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};

use frame::offload::Offloads;
use ledger::{Counter, counters};
use port::offload::{deliver_known, needed};
use port::steer::{self, BUCKETS, Hash};
use port::{Frame, Frames, Sink, octets};
use ring::BURST;

/// Most members of one balancer.
pub const MOST_MEMBERS: usize = steer::MOST;

/// Threads that deliver at the same time without a line in common.
const LANES: usize = 16;

/// In a table: nobody.
const NOBODY: u8 = u8::MAX;
const _: () = assert!(MOST_MEMBERS <= NOBODY as usize);

counters! {
    /// What came to a balancer, and what became of it.
    pub struct BalancerCounters {
        /// Frames that came: those that went to members, and those that were dropped.
        in_frames,
        /// Octets of those frames.
        in_bytes,
        /// Frames that members have taken.
        out_frames,
        /// Frames, among those, that were spread one by one, so that those of a flow may overtake each other.
        out_in_turn,
        /// Frames lost because the queue of the member that they are for was full.
        drop_full,
        /// Frames lost because no member has their flow.
        drop_no_member,
    }

    /// What went to one member of a balancer.
    pub struct MemberCounters {
        /// Frames that it has taken.
        out_frames,
        /// Octets of those frames.
        out_bytes,
        /// Frames lost because its queue was full.
        drop_full,
    }
}

/// Something on lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart<T>(T);

/// What one lane counts.
struct Books {
    counters: BalancerCounters,
    /// Frames of each bucket.
    loads: [Counter; BUCKETS],
}

impl Default for Books {
    fn default() -> Self {
        Self { counters: BalancerCounters::default(), loads: std::array::from_fn(|_| Counter::new()) }
    }
}

/// Where frames go.
struct Member {
    number: u16,
    name: String,
    sink: Arc<dyn Sink>,
    /// By lanes, and what came by none.
    books: [Apart<MemberCounters>; LANES + 1],
}

/// Whom frames go to.
enum Choice {
    /// The member of each bucket, by its place in the list.
    ByFlow(Box<[u8; BUCKETS]>),
    /// The members in their order, over and over.
    InTurn(Vec<u8>),
}

/// The members and the table at one moment.
struct Table {
    generation: u64,
    members: Vec<Arc<Member>>,
    choice: Choice,
}

/// What was asked for.
struct Wanted {
    members: Vec<Arc<Member>>,
    owners: Owners,
}

/// Member of each bucket, or of each turn, by its number.
enum Owners {
    Buckets(Vec<Option<u16>>),
    Turns(Vec<u16>),
}

/// What a thread needs from burst to burst.
#[derive(Default)]
struct Lane {
    table: Option<Arc<Table>>,
    turn: usize,
}

/// Spreads frames over members.
pub struct Balancer {
    hash: Hash,
    wanted: Mutex<Wanted>,
    table: RwLock<Arc<Table>>,
    generation: AtomicU64,
    lanes: [Apart<Mutex<Lane>>; LANES],
    /// By lanes, and what came by none.
    books: [Apart<Books>; LANES + 1],
}

/// The next thread's lane.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread looks for a lane first.
    static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % LANES;
}

impl Balancer {
    /// A balancer without members, that tells flows apart in this way.
    pub fn new(hash: Hash) -> Self {
        let (members, owners) = (Vec::new(), Owners::Buckets(Vec::new()));
        let table =
            Table { generation: 0, members: Vec::new(), choice: Choice::ByFlow(Box::new([NOBODY; BUCKETS])) };
        Self {
            hash,
            wanted: Mutex::new(Wanted { members, owners }),
            table: RwLock::new(Arc::new(table)),
            generation: AtomicU64::new(0),
            lanes: Default::default(),
            books: std::array::from_fn(|_| Apart::default()),
        }
    }

    /// Adds a member; false if there is one of this number, or there are [`MOST_MEMBERS`]. It gets nothing until frames are spread anew.
    pub fn add(&self, number: u16, name: &str, sink: Arc<dyn Sink>) -> bool {
        let mut wanted = self.wanted();
        let is_there = wanted.members.iter().any(|member| member.number == number);
        if is_there || wanted.members.len() >= MOST_MEMBERS {
            return false;
        }
        let books = std::array::from_fn(|_| Apart::default());
        wanted.members.push(Arc::new(Member { number, name: name.to_owned(), sink, books }));
        self.publish(&wanted);
        true
    }

    /// Removes a member; false if there is none of this number. What it still has is dropped as nobody's. Waits for bursts that are under
    /// way, and does not touch the member's sink afterwards; so it must not be called by a sink that is being delivered to.
    pub fn remove(&self, number: u16) -> bool {
        let mut wanted = self.wanted();
        let Some(at) = wanted.members.iter().position(|member| member.number == number) else { return false };
        let removed = wanted.members.remove(at);
        self.publish(&wanted);
        drop(wanted);
        for Apart(lane) in &self.lanes {
            lane.lock().unwrap_or_else(PoisonError::into_inner).table = None;
        }
        // Who found no lane holds the table while it delivers.
        drop(self.table.write());
        drop(removed);
        true
    }

    /// Spreads frames by flow from now on: `owners` are the numbers of the members that have the buckets, [`BUCKETS`] of them. What is
    /// missing there, or has a number that no member has, is nobody's.
    pub fn spread(&self, owners: &[Option<u16>]) {
        let mut wanted = self.wanted();
        wanted.owners = Owners::Buckets(owners.to_vec());
        self.publish(&wanted);
    }

    /// Spreads frames one by one from now on, in this order of members, over and over. Frames of a flow may overtake each other.
    pub fn spread_in_turn(&self, order: &[u16]) {
        let mut wanted = self.wanted();
        wanted.owners = Owners::Turns(order.to_vec());
        self.publish(&wanted);
    }

    /// What came, and what became of it.
    pub fn counters(&self) -> BalancerCounters {
        let sum = BalancerCounters::default();
        self.books.iter().for_each(|Apart(books)| sum.add_all(&books.counters));
        sum
    }

    /// Frames of each bucket, since the balancer was made.
    pub fn loads(&self) -> [u64; BUCKETS] {
        let of = |bucket: usize| self.books.iter().map(|Apart(books)| books.loads[bucket].get()).sum::<u64>();
        std::array::from_fn(of)
    }

    /// Calls `visit` with the name and the counters of each member.
    pub fn each_member(&self, visit: &mut dyn FnMut(&str, &MemberCounters)) {
        // Not under the lock: whoever visits may take its time.
        let members = self.wanted().members.clone();
        for member in members {
            let sum = MemberCounters::default();
            member.books.iter().for_each(|Apart(books)| sum.add_all(books));
            visit(&member.name, &sum);
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> RwLockReadGuard<'_, Arc<Table>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what is wanted be what is done from the next burst of each thread on. By one thread at a time, which has what is wanted.
    fn publish(&self, wanted: &Wanted) {
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let (members, choice) = (wanted.members.clone(), wanted.choice());
        let table = Arc::new(Table { generation, members, choice });
        let mut current = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, table);
        self.generation.store(generation, Ordering::Release);
        drop(current);
        // What only it had goes while nobody waits for the table.
        drop(before);
    }

    fn enter(&self, burst: &[Frame<'_>]) {
        let own = OWN.with(|own| *own);
        for number in (own..own + LANES).map(|number| number % LANES) {
            let mut lane = match self.lanes[number].0.try_lock() {
                Ok(lane) => lane,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => continue,
            };
            let Lane { table, turn } = &mut *lane;
            let pass = Pass { balancer: self, table: self.renewed(table), lane: number };
            return pass.deliver(burst, turn);
        }
        // Nobody keeps the turn of those; each burst begins with the first.
        let table = self.current();
        Pass { balancer: self, table: &table, lane: LANES }.deliver(burst, &mut 0);
    }

    /// The table as it is now, in a lane's own place.
    #[inline]
    fn renewed<'t>(&self, table: &'t mut Option<Arc<Table>>) -> &'t Table {
        let now = self.generation.load(Ordering::Acquire);
        if table.as_ref().is_none_or(|table| table.generation != now) {
            *table = None;
        }
        table.get_or_insert_with(|| self.current().clone())
    }
}

impl Wanted {
    fn choice(&self) -> Choice {
        let place = |number: u16| self.members.iter().position(|member| member.number == number);
        match &self.owners {
            Owners::Buckets(owners) => {
                let owner = |bucket: usize| place(owners.get(bucket).copied().flatten()?);
                let choice = |bucket| owner(bucket).map_or(NOBODY, |place| place as u8);
                Choice::ByFlow(Box::new(std::array::from_fn(choice)))
            }
            Owners::Turns(order) => {
                Choice::InTurn(order.iter().filter_map(|number| Some(place(*number)? as u8)).collect())
            }
        }
    }
}

/// A burst on its way.
struct Pass<'p> {
    balancer: &'p Balancer,
    table: &'p Table,
    /// Number of the lane; [`LANES`]: none, and other threads may write the same books.
    lane: usize,
}

impl Pass<'_> {
    /// Delivers a burst of at most [`BURST`] frames.
    #[inline]
    fn deliver(&self, burst: &[Frame<'_>], turn: &mut usize) {
        let mut choices = [NOBODY; BURST];
        match &self.table.choice {
            Choice::ByFlow(owners) => self.by_flow(owners, burst, &mut choices),
            Choice::InTurn(order) => in_turn(order, burst.len(), turn, &mut choices),
        }
        let counters = &self.books().counters;
        self.add(&counters.in_frames, burst.len() as u64);
        self.add(&counters.in_bytes, octets(burst));
        let taken = if choices[..burst.len()].contains(&NOBODY) {
            self.deliver_some(burst, &choices)
        } else {
            self.deal(burst, &choices)
        };
        self.add(&counters.out_frames, taken);
        if matches!(self.table.choice, Choice::InTurn(_)) {
            self.add(&counters.out_in_turn, taken);
        }
    }

    #[inline]
    fn by_flow(&self, owners: &[u8; BUCKETS], burst: &[Frame<'_>], choices: &mut [u8; BURST]) {
        let loads = &self.books().loads;
        for (choice, frame) in choices.iter_mut().zip(burst) {
            // Each frame is read once: its sender may change it.
            let bucket = usize::from(steer::bucket(frame.octets(), self.balancer.hash));
            *choice = owners[bucket];
            self.add(&loads[bucket], 1);
        }
    }

    /// Deals a burst out to members; how many frames they took.
    #[inline]
    fn deal(&self, burst: &[Frame<'_>], choices: &[u8; BURST]) -> u64 {
        let (needed, mut taken, mut full) = (needed(burst), 0, 0);
        steer::by_choice(burst, choices, |place, frames| {
            let Some(member) = self.table.members.get(place) else { return };
            let n = deliver_known(&*member.sink, needed, frames).min(frames.len());
            let Apart(books) = &member.books[self.lane];
            self.add(&books.out_frames, n as u64);
            self.add(&books.out_bytes, octets(&frames[..n]));
            if n < frames.len() {
                self.add(&books.drop_full, (frames.len() - n) as u64);
            }
            taken += n as u64;
            full += (frames.len() - n) as u64;
        });
        if full > 0 {
            self.add(&self.books().counters.drop_full, full);
        }
        taken
    }

    /// Deals out those frames of a burst that are somebody's.
    #[cold]
    fn deliver_some(&self, burst: &[Frame<'_>], choices: &[u8; BURST]) -> u64 {
        let (mut frames, mut kept) = (Frames::new(), [NOBODY; BURST]);
        for (frame, choice) in burst.iter().zip(choices).filter(|(_, choice)| **choice != NOBODY) {
            kept[frames.len()] = *choice;
            frames.push(*frame);
        }
        self.add(&self.books().counters.drop_no_member, (burst.len() - frames.len()) as u64);
        if frames.is_empty() { 0 } else { self.deal(&frames, &kept) }
    }

    fn books(&self) -> &Books {
        &self.balancer.books[self.lane].0
    }

    #[inline(always)]
    fn add(&self, counter: &Counter, n: u64) {
        if self.lane < LANES { counter.add(n) } else { counter.add_shared(n) }
    }
}

/// Chooses the next members in their order.
fn in_turn(order: &[u8], frames: usize, turn: &mut usize, choices: &mut [u8; BURST]) {
    if order.is_empty() {
        return;
    }
    // The order may have become shorter.
    let mut next = *turn % order.len();
    for choice in choices.iter_mut().take(frames) {
        *choice = order[next];
        next = if next + 1 < order.len() { next + 1 } else { 0 };
    }
    *turn = next;
}

impl Sink for Balancer {
    /// Takes all frames: what a member has no room for is lost here, under its name.
    fn deliver(&self, frames: &[Frame<'_>]) -> usize {
        frames.chunks(BURST).for_each(|burst| self.enter(burst));
        frames.len()
    }

    /// Each member is given what it takes.
    fn offloads(&self) -> Offloads {
        Offloads::ALL
    }
}

#[cfg(test)]
mod tests;
