//! Static neighbours that the host gives a router while it runs.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

/// Maximum number of neighbours that are given at a time.
pub const MOST_GIVEN: usize = 32;
/// Bit of the last word of a place that is in use.
const USED: u64 = 1 << 63;

/// A neighbour that the host gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenNeighbour {
    /// Number of the interface that it is behind.
    pub nic: u8,
    /// Its address; an IPv4 address as its IPv4-mapped one (RFC 4291, 2.5.5.2).
    pub ip: u128,
    /// Its Ethernet address.
    pub mac: [u8; 6],
}

/// The list of these neighbours, which one thread of the host at a time writes and the firmware reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct GivenNeighbours {
    /// Odd while the list is being changed, and another number after each change.
    version: AtomicU32,
    /// Address, and Ethernet address with interface.
    places: [[AtomicU64; 3]; MOST_GIVEN],
}

impl Default for GivenNeighbours {
    fn default() -> Self {
        Self { version: AtomicU32::new(0), places: [const { [const { AtomicU64::new(0) }; 3] }; MOST_GIVEN] }
    }
}

impl GivenNeighbours {
    /// Replaces the list; further neighbours than [`MOST_GIVEN`] are left out.
    pub fn set(&self, neighbours: &[GivenNeighbour]) {
        let version = self.version.load(Relaxed) & !1;
        self.version.store(version.wrapping_add(1), Relaxed);
        // The odd version must be visible before any new word ...
        fence(Release);
        for (at, place) in self.places.iter().enumerate() {
            let words = neighbours.get(at).map_or([0; 3], words);
            place.iter().zip(words).for_each(|(word, new)| word.store(new, Relaxed));
        }
        // ... and the even one after all of them.
        self.version.store(version.wrapping_add(2), Release);
    }

    /// Returns a number that changes with the list.
    pub fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    /// Passes the content of each place to `tell`, and returns the version of the list. `None`: it was changed meanwhile, and nothing
    /// that was told counts.
    pub fn read(&self, mut tell: impl FnMut(usize, Option<GivenNeighbour>)) -> Option<u32> {
        let version = self.version();
        if version & 1 != 0 {
            return None;
        }
        for (at, place) in self.places.iter().enumerate() {
            tell(at, neighbour([0, 1, 2].map(|word: usize| place[word].load(Relaxed))));
        }
        fence(Acquire);
        (self.version.load(Relaxed) == version).then_some(version)
    }
}

fn words(one: &GivenNeighbour) -> [u64; 3] {
    let [a, b, c, d, e, f] = one.mac;
    let station = u64::from_be_bytes([0, one.nic, a, b, c, d, e, f]);
    [(one.ip >> 64) as u64, one.ip as u64, USED | station]
}

fn neighbour([high, low, station]: [u64; 3]) -> Option<GivenNeighbour> {
    let [_, nic, mac @ ..] = station.to_be_bytes();
    let ip = u128::from(high) << 64 | u128::from(low);
    (station & USED != 0).then_some(GivenNeighbour { nic, ip, mac })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    const fn number(n: u8) -> GivenNeighbour {
        GivenNeighbour { nic: n, ip: 0xfe80_u128 << 112 | n as u128, mac: [2, 0, 0, 0, 0, n] }
    }

    /// Reads the list, and checks how many there are.
    fn first(given: &GivenNeighbours, count: usize) -> (Option<u32>, Option<GivenNeighbour>) {
        let (mut first, mut found) = (None, 0);
        let version = given.read(|at, one| {
            found += usize::from(one.is_some());
            first = if at == 0 { one } else { first };
        });
        assert_eq!(found, count);
        (version, first)
    }

    #[test]
    fn a_list_replaces_the_one_before() {
        let given = GivenNeighbours::default();
        assert_eq!(first(&given, 0), (Some(0), None));
        given.set(&[number(255), number(0)]);
        assert_eq!(first(&given, 2), (Some(2), Some(number(255))));
        given.set(&[number(7)]);
        assert_eq!(first(&given, 1), (Some(4), Some(number(7))));
        given.set(&[number(9); MOST_GIVEN + 1]);
        assert_eq!(first(&given, MOST_GIVEN), (Some(6), Some(number(9))));
        given.set(&[]);
        assert_eq!(first(&given, 0), (Some(8), None));
    }

    #[test]
    fn a_list_that_is_being_changed_is_not_read() {
        let given = GivenNeighbours::default();
        given.version.store(3, Relaxed);
        assert_eq!(given.read(|_, _| panic!("it is being changed")), None);
        given.set(&[number(1)]);
        assert_eq!(first(&given, 1), (Some(4), Some(number(1))), "a version that somebody left odd is none");
        let changed = given.read(|at, _| {
            if at == 0 {
                given.set(&[]);
            }
        });
        assert_eq!(changed, None, "it was changed meanwhile");
    }

    #[test]
    fn a_list_that_counts_is_never_a_mix_of_two() {
        let given = GivenNeighbours::default();
        let set_many =
            || (0..=u8::MAX).cycle().take(20_000).for_each(|n| given.set(&[number(n); MOST_GIVEN]));
        std::thread::scope(|scope| {
            let writer = scope.spawn(set_many);
            while !writer.is_finished() {
                let mut list = [None; MOST_GIVEN];
                if given.read(|at, one| list[at] = one).is_some() {
                    assert!(list.iter().all(|one| *one == list[0]), "{list:?}");
                }
            }
        });
    }
}
