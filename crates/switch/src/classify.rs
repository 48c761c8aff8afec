//! Second step of the switch: learn the sources, look up the destinations, and sort the frames by port.
//!
//! A port's frames are the set bits of one word, lowest first, so that every receiver gets its frames in the order
//! in which they came, flooded and addressed ones alike. Frames that follow one another between the same two
//! stations are a run, and a run is looked up once.

use arrayvec::ArrayVec;
use ring::BURST;

use crate::collect::{Addresses, Collected};
use crate::table::{Key, Learned, MacTable};

/// Where the frames of a burst go.
pub(crate) struct Sorted {
    /// For each port number, a bit for each frame that goes to this port alone.
    to: Vec<u64>,
    /// The ports that have bits.
    ports: ArrayVec<u16, BURST>,
    /// What else became of frames.
    pub(crate) tally: Tally,
}

/// Frames that do not simply go to one port, a bit for each; and what was learned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) unknown: u64,
    pub(crate) broadcast: u64,
    pub(crate) same_port: u64,
    pub(crate) malformed: u64,
    pub(crate) learned: u64,
    pub(crate) moves: u64,
    pub(crate) table_full: u64,
}

/// What the step needs to know of the switch.
pub(crate) struct Place<'a> {
    pub(crate) table: &'a MacTable,
    /// The port at which the frames enter.
    pub(crate) port: u16,
    /// Whether there is a port of this number.
    pub(crate) exists: &'a [bool],
    /// Seconds.
    pub(crate) now: u32,
}

impl Sorted {
    /// For port numbers below `ports`.
    pub(crate) fn new(ports: usize) -> Self {
        Self { to: vec![0; ports], ports: ArrayVec::new(), tally: Tally::default() }
    }

    /// Sorts the first `count` frames.
    #[inline]
    pub(crate) fn classify(
        &mut self,
        place: &Place<'_>,
        addresses: &Addresses,
        count: usize,
        seen: Collected,
    ) {
        let mut pass = Pass { sorted: self, place, last_source: Key::default() };
        let count = count.min(BURST);
        let (destinations, sources) = (&addresses.destination[..count], &addresses.source[..count]);
        let mut start = 0;
        let mut i = 0;
        while start < count {
            while i < count && destinations[i] == destinations[start] && sources[i] == sources[start] {
                i += 1;
            }
            pass.settle((destinations[start], sources[start]), bits(start, i));
            start = i;
        }
        // Short frames have zero addresses, which were a pair like any other until here.
        self.set_aside(seen.short);
    }

    /// The frames for one port only.
    #[inline(always)]
    pub(crate) fn only_to(&self, port: u16) -> u64 {
        self.to[usize::from(port)]
    }

    /// The ports with frames of their own.
    #[inline(always)]
    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Ready for the next burst.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        for port in self.ports.drain(..) {
            self.to[usize::from(port)] = 0;
        }
        self.tally = Tally::default();
    }

    /// Frames without a header were taken for frames to the zero address; they are malformed.
    #[inline(always)]
    fn set_aside(&mut self, short: u64) {
        self.tally.unknown &= !short;
        self.tally.malformed |= short;
    }
}

/// The bits from `start` to before `end`, which is more and at most 64.
#[inline(always)]
const fn bits(start: usize, end: usize) -> u64 {
    (u64::MAX >> (64 - (end - start))) << start
}

/// One pass over one burst.
struct Pass<'a, 'b> {
    sorted: &'a mut Sorted,
    place: &'a Place<'b>,
    last_source: Key,
}

impl Pass<'_, '_> {
    /// Decides about a run of frames between two stations.
    #[inline(always)]
    fn settle(&mut self, (destination, source): (Key, Key), frames: u64) {
        if source.is_group() {
            self.sorted.tally.malformed |= frames;
            return;
        }
        if source != self.last_source && !source.is_zero() {
            self.last_source = source;
            self.learn(source);
        }
        if destination.is_group() {
            self.sorted.tally.broadcast |= frames;
            return;
        }
        match self.lookup(destination) {
            None => self.sorted.tally.unknown |= frames,
            Some(port) if port == self.place.port => self.sorted.tally.same_port |= frames,
            Some(port) => self.send(port, frames),
        }
    }

    #[inline(always)]
    fn learn(&mut self, source: Key) {
        match self.place.table.learn(source, self.place.port, self.place.now) {
            Learned::Known => {}
            Learned::New => self.sorted.tally.learned += 1,
            Learned::Moved => self.sorted.tally.moves += 1,
            Learned::Full => self.sorted.tally.table_full += 1,
        }
    }

    #[inline(always)]
    fn lookup(&self, destination: Key) -> Option<u16> {
        let port = self.place.table.lookup(destination, self.place.now)?;
        // A port that was removed a moment ago is not known any more.
        self.place.exists.get(usize::from(port)).is_some_and(|&exists| exists).then_some(port)
    }

    #[inline(always)]
    fn send(&mut self, port: u16, frames: u64) {
        let mask = &mut self.sorted.to[usize::from(port)];
        if *mask == 0 {
            self.sorted.ports.push(port);
        }
        *mask |= frames;
    }
}
