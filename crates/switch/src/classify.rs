//! Second step of the switch: learns the sources, looks up the destinations, and sorts the frames by port.
//!
//! The frames of a port are the set bits of one word, lowest first, so that every receiver gets its frames, flooded and
//! addressed ones alike, in the order of arrival. Consecutive frames between the same two stations form a run, which is
//! looked up once.

use arrayvec::ArrayVec;
use ring::BURST;

use crate::collect::{Addresses, Collected};
use crate::table::{Key, Learned, MacTable};

/// Result of sorting: the frames of a burst by port.
pub(crate) struct Sorted {
    /// For each port number, a bit for each frame that goes only to this port.
    to: Vec<u64>,
    /// Ports that have bits set.
    ports: ArrayVec<u16, BURST>,
    /// All other outcomes.
    pub(crate) tally: Tally,
}

/// Frames with other outcomes than one port, a bit for each; and counts of learned addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) unknown: u64,
    pub(crate) broadcast: u64,
    pub(crate) same_port: u64,
    pub(crate) malformed: u64,
    pub(crate) pauses: u64,
    pub(crate) learned: u64,
    pub(crate) moves: u64,
    pub(crate) table_full: u64,
}

impl Tally {
    /// Returns true if each frame goes to one port only, and no address was learned.
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        let frames = self.unknown | self.broadcast | self.same_port | self.malformed | self.pauses;
        frames | self.learned | self.moves | self.table_full == 0
    }
}

/// State of the switch that this step needs.
pub(crate) struct SwitchView<'a> {
    pub(crate) table: &'a MacTable,
    /// Port at which the frames enter.
    pub(crate) port: u16,
    /// For each number, whether there is a port with it.
    pub(crate) exists: &'a [bool],
    /// Time in seconds.
    pub(crate) now: u32,
}

impl Sorted {
    /// Creates the state for port numbers below `ports`.
    pub(crate) fn new(ports: usize) -> Self {
        Self { to: vec![0; ports], ports: ArrayVec::new(), tally: Tally::default() }
    }

    /// Sorts the first `count` frames.
    #[inline]
    pub(crate) fn classify(
        &mut self,
        place: &SwitchView<'_>,
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
        // Short frames have zero addresses, and were handled like any other pair so far.
        self.set_aside(seen.short);
    }

    /// Returns the frames that go only to this port.
    #[inline(always)]
    pub(crate) fn only_to(&self, port: u16) -> u64 {
        self.to[usize::from(port)]
    }

    /// Returns the ports that have frames of their own.
    #[inline(always)]
    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Clears the state for the next burst.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        for port in self.ports.drain(..) {
            self.to[usize::from(port)] = 0;
        }
        self.tally = Tally::default();
    }

    /// Marks frames without a header as malformed; they were handled as frames to the zero address.
    #[inline(always)]
    fn set_aside(&mut self, short: u64) {
        self.tally.unknown &= !short;
        self.tally.malformed |= short;
    }
}

/// Returns the bits from `start` to before `end`, which is greater than `start` and at most 64.
#[inline(always)]
const fn bits(start: usize, end: usize) -> u64 {
    (u64::MAX >> (64 - (end - start))) << start
}

/// One pass over one burst.
struct Pass<'a, 'b> {
    sorted: &'a mut Sorted,
    place: &'a SwitchView<'b>,
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
            let tally = &mut self.sorted.tally;
            if destination.is_pause() {
                tally.pauses |= frames;
            } else {
                tally.broadcast |= frames;
            }
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
        // Ignores a port that was removed a moment ago.
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
