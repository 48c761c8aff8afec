//! Orders to a balancer: frames by which the host tells a virtual machine that spreads frames over the members of a group how to do that.
//! They come by the NICs that all other frames come by, and go on to the NIC at the other side, where the host takes them out. So
//! an order that comes back says two things: what the machine knows, and that frames pass it.
//!
//! ```text
//!   0          6        12          14     15      16        18      20           24       28     32        32 + 6 x members
//!  +----------+---------+-----------+------+-------+---------+-------+------------+--------+------+---------+-----------+
//!  | TO       | source  | ETHERTYPE | form | flags | members | turns | generation | number | known| members | choices   |
//!  +----------+---------+-----------+------+-------+---------+-------+------------+--------+------+---------+-----------+
//!                                                                                              \__ only with TABLE ____/
//! ```
//!
//! All numbers are in network byte order. `number` is that of the order, `known` the generation of the table that the machine has when
//! it lets the order pass: 0 none. Nobody else can give orders: the host drops frames like these that come from anywhere but itself.

use crate::{Mac, ethernet};

/// Destination of orders.
pub const TO: Mac = Mac([0x02, b'o', b'r', b'd', b'e', b'r']);
/// Ethertype of orders: for experiments within one network (IEEE 802, local experimental ethertype 1).
pub const ETHERTYPE: u16 = 0x88b5;
/// Most members of a balancer.
pub const MOST_MEMBERS: usize = 64;
/// Choices of a table: the member of each bucket of flows, or members in turn.
pub const CHOICES: usize = 256;
/// As a choice: no member.
pub const NOBODY: u8 = u8::MAX;
/// Octets of the longest order.
pub const LONGEST: usize = MEMBERS + 6 * MOST_MEMBERS + CHOICES;

/// Form of an order that this module knows.
const FORM: u8 = 1;
/// Flag: members and choices follow.
const TABLE: u8 = 1;
/// Flag: frames are dealt out one by one, whatever flows they are of.
const IN_TURN: u8 = 2;
/// Offset of what is after the Ethernet header.
const AT: usize = ethernet::HEADER;
/// Offset of the generation that is known.
const KNOWN: usize = AT + 14;
/// Offset of the members.
const MEMBERS: usize = AT + 18;

/// Which order one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Generation of the table that is to be used, at least 1.
    pub generation: u32,
    /// Its number.
    pub number: u32,
    /// Generation of the table that the machine had when it let the order pass; 0: none.
    pub known: u32,
}

/// How frames are spread over members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// True if frames are dealt out one by one, and not by flow.
    pub in_turn: bool,
    /// Number of members.
    pub members: usize,
    /// Ethernet addresses of the members; those after the last one have no meaning.
    pub stations: [Mac; MOST_MEMBERS],
    /// Number of choices that count: all, but where frames are dealt out one by one.
    pub turns: usize,
    /// Index of a member for each bucket of flows, or for each turn; [`NOBODY`]: none.
    pub choices: [u8; CHOICES],
}

impl Default for Table {
    /// A table of no member.
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Table {
    /// A table of no member.
    pub const EMPTY: Self = Self {
        in_turn: false,
        members: 0,
        stations: [Mac([0; 6]); MOST_MEMBERS],
        turns: CHOICES,
        choices: [NOBODY; CHOICES],
    };
}

impl Order {
    /// Encodes an order, with a table or without; returns its length in octets.
    pub fn write(&self, table: Option<&Table>, octets: &mut [u8; LONGEST]) -> usize {
        octets[..6].copy_from_slice(&TO.0);
        octets[6..12].copy_from_slice(&TO.0);
        octets[12..AT].copy_from_slice(&ETHERTYPE.to_be_bytes());
        octets[AT..MEMBERS].fill(0);
        octets[AT] = FORM;
        octets[AT + 6..AT + 10].copy_from_slice(&self.generation.to_be_bytes());
        octets[AT + 10..KNOWN].copy_from_slice(&self.number.to_be_bytes());
        octets[KNOWN..MEMBERS].copy_from_slice(&self.known.to_be_bytes());
        let Some(table) = table else {
            octets[MEMBERS..ethernet::SHORTEST].fill(0);
            return ethernet::SHORTEST;
        };
        let (members, turns) = (table.members.min(MOST_MEMBERS), table.turns.min(CHOICES));
        octets[AT + 1] = TABLE | if table.in_turn { IN_TURN } else { 0 };
        octets[AT + 2..AT + 4].copy_from_slice(&(members as u16).to_be_bytes());
        octets[AT + 4..AT + 6].copy_from_slice(&(turns as u16).to_be_bytes());
        let (stations, rest) = octets[MEMBERS..].split_at_mut(6 * members);
        for (place, station) in stations.chunks_exact_mut(6).zip(&table.stations) {
            place.copy_from_slice(&station.0);
        }
        rest[..CHOICES].copy_from_slice(&table.choices);
        MEMBERS + 6 * members + CHOICES
    }

    /// Returns true if a frame that begins with these octets may be an order.
    #[inline(always)]
    pub fn is_one(head: &[u8]) -> bool {
        head.get(..6) == Some(&TO.0[..]) && head.get(12..AT) == Some(&ETHERTYPE.to_be_bytes()[..])
    }

    /// Decodes an order without its table; `None`: it is none.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<MEMBERS>()?;
        if !Self::is_one(head) || head[AT] != FORM {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        Some(Self { generation: word(AT + 6), number: word(AT + 10), known: word(KNOWN) })
    }

    /// Decodes the table of a frame that is an order, into `table`; false if it has none, or one that is no table: then nothing has
    /// changed.
    pub fn read_table(frame: &[u8], table: &mut Table) -> bool {
        let Some((head, rest)) = frame.split_first_chunk::<MEMBERS>() else { return false };
        let number = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let (members, turns) = (number(AT + 2), number(AT + 4));
        let fits = members <= MOST_MEMBERS && (1..=CHOICES).contains(&turns);
        if head[AT + 1] & TABLE == 0 || !fits || rest.len() < 6 * members + CHOICES {
            return false;
        }
        let (stations, choices) = rest.split_at(6 * members);
        table.in_turn = head[AT + 1] & IN_TURN != 0;
        (table.members, table.turns) = (members, turns);
        for (station, octets) in table.stations.iter_mut().zip(stations.chunks_exact(6)) {
            station.0.copy_from_slice(octets);
        }
        table.choices.copy_from_slice(&choices[..CHOICES]);
        true
    }

    /// Writes into an order that begins with these octets which generation of the table is known.
    #[inline]
    pub fn acknowledge(head: &mut [u8], known: u32) {
        if let Some(place) = head.get_mut(KNOWN..MEMBERS) {
            place.copy_from_slice(&known.to_be_bytes());
        }
    }
}
