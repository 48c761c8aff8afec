//! Spreads frames over the members of a group: the load balancer of a multistage router, in a virtual machine of its own (seed paper
//! 000, section 5).
//!
//! Of 2 n NICs the first n lead outside and the others inside, to the members: NIC k and NIC n + k are the two sides of link k.
//!
//! ```text
//!  outside                                                                      inside
//!  for the group ---> bucket of the flow, or turn --> address of a member ----> NIC n + k
//!  for a member  ----------------------------------------------------------------^   (probes of the host)
//!  NIC k <------ from the group <--------------------------- from a member ----- NIC n + k
//! ```
//!
//! It changes Ethernet addresses, and nothing else. Frames with VLAN tags are spread by the flow behind these. What it knows of members it
//! is told by orders ([`frame::order`]), which pass it like other frames.

use arrayvec::ArrayVec;
use frame::order::{CHOICES, MOST_MEMBERS, NOBODY, Order, Table};
use frame::{Mac, ethernet, flow, vlan};
use ledger::BalancerTally;

use crate::config::MAX_NICS;
use crate::platform::{Buffer, Burst, HEAD, Platform};

/// Most links of a balancer, which has two NICs for each.
pub const MOST_LINKS: usize = MAX_NICS / 2;

/// Bits of a hash that number the choices of a table.
const BITS: u32 = CHOICES.ilog2();
/// Places in which members are found by their addresses: a power of two, and several times as many as members.
const PLACES: usize = 256;
/// Odd multiplier with half of its bits set, in no regular pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const _: () = assert!(CHOICES == 1 << BITS && PLACES >= 2 * MOST_MEMBERS && MOST_MEMBERS < NOBODY as usize);
const _: () = assert!(HEAD == flow::LOOK);

/// Spreads the frames of some links.
pub struct Balancer<B> {
    links: ArrayVec<Link, MOST_LINKS>,
    burst: Burst<B>,
    kept: Burst<B>,
}

/// What is known of one link.
struct Link {
    /// The address that the group has at it.
    own: Mac,
    /// Generation of the table; 0: there is none.
    generation: u32,
    table: Table,
    /// Finds members by their addresses: the index of one, or nobody's, at the place of its hash or the next free one.
    places: [u8; PLACES],
    /// Next turn, where frames are dealt out one by one.
    turn: usize,
}

impl<B: Buffer> Balancer<B> {
    /// A balancer whose NICs have these addresses; those that lead outside come first, and have the group's.
    pub fn new(nics: &[Mac]) -> Self {
        let outside = nics.iter().take((nics.len() / 2).min(MOST_LINKS));
        Self {
            links: outside.map(|own| Link::new(*own)).collect(),
            burst: ArrayVec::new_const(),
            kept: ArrayVec::new_const(),
        }
    }

    /// Makes one pass over all NICs; returns how many frames were handled.
    pub fn pass<P: Platform<Buffer = B>>(&mut self, platform: &mut P, tally: &BalancerTally) -> usize {
        let links = self.links.len();
        let mut frames = 0;
        for link in 0..links {
            let (outer, inner) = (link, links + link);
            frames += self.carry(platform, (link, outer, inner), |link, buffer| link.inwards(buffer, tally));
            frames += self.carry(platform, (link, inner, outer), |link, buffer| link.outwards(buffer, tally));
        }
        frames
    }

    /// Carries a burst of a link from one NIC to another, but for what is dropped on the way; returns how many frames came.
    #[inline(always)]
    fn carry<P: Platform<Buffer = B>>(
        &mut self,
        platform: &mut P,
        (link, from, to): (usize, usize, usize),
        goes_on: impl Fn(&mut Link, &mut B) -> bool,
    ) -> usize {
        platform.receive(from, &mut self.burst);
        let Some(link) = self.links.get_mut(link).filter(|_| !self.burst.is_empty()) else { return 0 };
        self.burst.iter().for_each(Buffer::prefetch);
        let frames = self.burst.len();
        for mut buffer in self.burst.drain(..) {
            if goes_on(link, &mut buffer) {
                self.kept.push(buffer);
            } else {
                platform.free(buffer);
            }
        }
        if !self.kept.is_empty() {
            platform.transmit(to, &mut self.kept);
        }
        frames
    }
}

impl Link {
    const fn new(own: Mac) -> Self {
        Self { own, generation: 0, table: Table::EMPTY, places: [NOBODY; PLACES], turn: 0 }
    }

    /// Handles a frame from outside; whether it goes on.
    #[inline(always)]
    fn inwards<B: Buffer>(&mut self, buffer: &mut B, tally: &BalancerTally) -> bool {
        let head = buffer.head();
        if self.knows(address(head, 6)) {
            // The interconnection would learn that the member is behind this balancer, and it would get no frames any more.
            tally.drop_foreign.add(1);
            return false;
        }
        let to = address(head, 0);
        if to == self.own {
            let Some(member) = self.choose(buffer) else {
                tally.drop_no_member.add(1);
                return false;
            };
            buffer.head()[..6].copy_from_slice(&member.0);
            tally.spread.add(1);
            if self.table.in_turn {
                tally.spread_in_turn.add(1);
            }
            return true;
        }
        self.others(buffer, to, tally)
    }

    /// Handles a frame from outside that is not for the group.
    #[cold]
    fn others<B: Buffer>(&mut self, buffer: &mut B, to: Mac, tally: &BalancerTally) -> bool {
        if Order::is_one(&buffer.head()[..]) {
            self.hear(buffer, tally);
            return true;
        }
        let is_passed = self.knows(to);
        let counter = if is_passed { &tally.passed } else { &tally.drop_foreign };
        counter.add(1);
        is_passed
    }

    /// Handles a frame from inside; whether it goes on.
    #[inline(always)]
    fn outwards<B: Buffer>(&mut self, buffer: &mut B, tally: &BalancerTally) -> bool {
        let head = buffer.head();
        if self.knows(address(head, 6)) {
            head[6..12].copy_from_slice(&self.own.0);
            tally.returned.add(1);
            return true;
        }
        let is_order = Order::is_one(&head[..]);
        if is_order {
            self.hear(buffer, tally);
        } else {
            tally.drop_stranger.add(1);
        }
        is_order
    }

    /// The member that has the flow of a frame, or whose turn it is.
    #[inline(always)]
    fn choose<B: Buffer>(&mut self, buffer: &mut B) -> Option<Mac> {
        let place = if self.table.in_turn {
            let turn = self.turn;
            self.turn = if turn + 1 < self.table.turns { turn + 1 } else { 0 };
            turn
        } else {
            (flow_of(buffer) >> (u32::BITS - BITS)) as usize
        };
        let choice = usize::from(*self.table.choices.get(place)?);
        self.table.stations.get(..self.table.members)?.get(choice).copied()
    }

    /// Whether a member has this address.
    #[inline(always)]
    fn knows(&self, station: Mac) -> bool {
        let mut place = first_place(station);
        // Most places are free.
        while self.places[place] != NOBODY {
            if self.table.stations.get(usize::from(self.places[place])) == Some(&station) {
                return true;
            }
            place = (place + 1) % PLACES;
        }
        false
    }

    /// Takes the table of an order, if that is another one, and acknowledges it.
    fn hear<B: Buffer>(&mut self, buffer: &mut B, tally: &BalancerTally) {
        tally.orders.add(1);
        let Some(order) = Order::read(buffer.octets()) else { return };
        if order.generation != self.generation && Order::read_table(buffer.octets(), &mut self.table) {
            (self.generation, self.turn) = (order.generation, 0);
            self.find_places();
            tally.tables.add(1);
        }
        Order::acknowledge(&mut buffer.head()[..], self.generation);
    }

    /// Gives each member of the table a place.
    fn find_places(&mut self) {
        self.places.fill(NOBODY);
        for (number, station) in (0..).zip(self.table.stations.iter().take(self.table.members)) {
            let mut place = first_place(*station);
            while self.places[place] != NOBODY {
                place = (place + 1) % PLACES;
            }
            self.places[place] = number;
        }
    }
}

/// The hash of a frame's flow.
#[inline(always)]
fn flow_of<B: Buffer>(buffer: &mut B) -> u32 {
    let head = buffer.head();
    if vlan::is_tag(u16::from_be_bytes([head[vlan::AT], head[vlan::AT + 1]])) {
        return flow_behind_tags(buffer.octets());
    }
    flow::symmetric(head)
}

/// The hash of a frame's flow as if it had no tags.
#[inline(never)]
fn flow_behind_tags(octets: &[u8]) -> u32 {
    let mut head = [0; HEAD];
    let shift = vlan::Tags::parse(octets).map_or(0, |tags| tags.header() - ethernet::HEADER);
    head.iter_mut().zip(octets.iter().skip(shift)).for_each(|(place, octet)| *place = *octet);
    flow::symmetric(&head)
}

/// The address at this offset.
#[inline(always)]
fn address(head: &[u8; HEAD], at: usize) -> Mac {
    Mac([head[at], head[at + 1], head[at + 2], head[at + 3], head[at + 4], head[at + 5]])
}

/// Where a member of this address is looked for first.
#[inline(always)]
fn first_place(Mac([a, b, c, d, e, f]): Mac) -> usize {
    (u64::from_be_bytes([0, 0, a, b, c, d, e, f]).wrapping_mul(MULTIPLIER) >> 56) as usize % PLACES
}
