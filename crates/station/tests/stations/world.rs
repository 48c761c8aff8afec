//! Stations on simulated platforms, a wire between two of them, and a clock that the test advances.

use std::collections::VecDeque;

use bootinfo::Station as Duty;
use frame::Mac;
use ledger::StationTally;
use router::{Address, Buffer, Burst, HEAD, Platform};
use station::{MOST_OCTETS, SocketMemory, Station, StationConfig};

/// Capacity of a buffer in octets.
const CAPACITY: usize = 2036;

/// A frame buffer.
pub(crate) struct Octets {
    octets: Box<[u8; CAPACITY]>,
    len: usize,
}

impl Buffer for Octets {
    fn head(&mut self) -> &mut [u8; HEAD] {
        self.octets.first_chunk_mut().unwrap()
    }
    fn len(&self) -> usize {
        self.len
    }
    fn set_len(&mut self, octets: usize) {
        self.len = octets.min(CAPACITY);
    }
    fn octets(&mut self) -> &mut [u8] {
        &mut self.octets[..self.len]
    }
    fn prefetch(&self) {}
}

/// Platform of one station.
pub(crate) struct MockPlatform {
    pub(crate) rx: [VecDeque<Vec<u8>>; 2],
    pub(crate) tx: Vec<Vec<u8>>,
    pub(crate) now: u64,
    /// Frames that the transmit ring takes before it is emptied.
    pub(crate) room: usize,
    /// Number of buffers that the station holds.
    pub(crate) out: usize,
}

impl Platform for MockPlatform {
    type Buffer = Octets;

    fn nics(&self) -> usize {
        2
    }

    fn receive(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        assert!(burst.is_empty());
        while !burst.is_full() {
            let Some(frame) = self.rx[nic].pop_front() else { break };
            let mut octets = Box::new([0xee; CAPACITY]);
            octets[..frame.len()].copy_from_slice(&frame);
            burst.push(Octets { octets, len: frame.len() });
            self.out += 1;
        }
    }

    fn transmit(&mut self, nic: usize, burst: &mut Burst<Octets>) {
        assert_eq!(nic, 0);
        for mut buffer in burst.drain(..) {
            self.out -= 1;
            self.tx.push(buffer.octets().to_vec());
        }
        assert!(self.tx.len() <= self.room, "more than there is room for");
    }

    fn room(&mut self, _: usize) -> usize {
        self.room - self.tx.len()
    }

    fn allocate(&mut self) -> Option<Octets> {
        self.out += 1;
        Some(Octets { octets: Box::new([0xee; CAPACITY]), len: 0 })
    }

    fn free(&mut self, _: Octets) {
        self.out -= 1;
    }

    fn now(&self) -> u64 {
        self.now
    }
}

/// Station number `n` has the address 10.0.0.`n`.
pub(crate) struct Node {
    pub(crate) platform: MockPlatform,
    pub(crate) station: Station<'static, Octets>,
    pub(crate) tally: &'static StationTally,
}

pub(crate) const fn ip(n: u8) -> u32 {
    u32::from_be_bytes([10, 0, 0, n])
}

pub(crate) fn orders(n: u8, duty: Duty, addresses: &[Address]) -> StationConfig<'_> {
    StationConfig {
        duty,
        mac: Mac([2, 0, 0, 0, 0, n]),
        mtu: 1500,
        addresses,
        to_ip: ip(2),
        write_len: 1000,
        seed: 42 + u64::from(n),
    }
}

pub(crate) fn platform() -> MockPlatform {
    MockPlatform { rx: Default::default(), tx: Vec::new(), now: 1000, room: 256, out: 0 }
}

/// Creates a station of this configuration with this much memory, if it is valid.
pub(crate) fn make(orders: &StationConfig<'_>, octets: usize) -> Option<Node> {
    let (places, octets) = (Box::leak(Box::<SocketMemory<'_>>::default()), vec![0; octets].leak());
    let tally: &StationTally = Box::leak(Box::default());
    let mut platform = platform();
    let station = Station::new(orders, (places, octets), tally, &mut platform)?;
    Some(Node { platform, station, tally })
}

impl Node {
    pub(crate) fn new(n: u8, duty: Duty) -> Self {
        Self::with(n, duty, |_| {})
    }

    pub(crate) fn with(n: u8, duty: Duty, change: impl FnOnce(&mut StationConfig<'_>)) -> Self {
        let addresses = [Address { ip: ip(n), prefix: 24 }];
        let mut orders = orders(n, duty, &addresses);
        change(&mut orders);
        make(&orders, MOST_OCTETS).expect("a station")
    }

    pub(crate) fn pass(&mut self) -> usize {
        self.station.pass(&mut self.platform)
    }

    /// Makes passes until no work is left at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..64 {
            if self.pass() == 0 || self.platform.tx.len() == self.platform.room {
                break;
            }
        }
    }
}

/// Faults of the wire: each happens to one frame in this many; 0: never.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mishaps {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// One octet is changed.
    pub(crate) spoilt: u64,
    /// The frame is swapped with the next one.
    pub(crate) overtaken: u64,
}

/// A client, number 1, and a server, number 2, and the wire between them.
pub(crate) struct Pair {
    pub(crate) client: Node,
    pub(crate) server: Node,
    pub(crate) mishaps: Mishaps,
    pub(crate) cut: bool,
    random: u64,
}

impl Pair {
    pub(crate) fn new(client: Node) -> Self {
        let server = Node::new(2, Duty::Server);
        Self { client, server, mishaps: Mishaps::default(), cut: false, random: 88_172_645_463_325_252 }
    }

    /// Advances the time in milliseconds; in each, frames pass between the ends four times.
    pub(crate) fn run(&mut self, ms: u64) {
        self.run_by(1, ms);
    }

    /// Advances the time in milliseconds, in steps of `step`.
    pub(crate) fn run_by(&mut self, step: u64, ms: u64) {
        for _ in 0..ms / step {
            self.client.platform.now += step;
            self.server.platform.now += step;
            for _ in 0..4 {
                self.client.settle();
                let frames = std::mem::take(&mut self.client.platform.tx);
                let frames = self.travel(frames);
                self.server.platform.rx[0].extend(frames);
                self.server.settle();
                let frames = std::mem::take(&mut self.server.platform.tx);
                let frames = self.travel(frames);
                self.client.platform.rx[0].extend(frames);
            }
        }
    }

    fn travel(&mut self, frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        for mut frame in frames {
            if self.cut || self.once_in(self.mishaps.lost) {
                continue;
            }
            if self.once_in(self.mishaps.doubled) {
                arrived.push(frame.clone());
            }
            if self.once_in(self.mishaps.spoilt) {
                let at = self.next() as usize % frame.len();
                frame[at] ^= 0x10;
            }
            arrived.push(frame);
            if self.once_in(self.mishaps.overtaken) && arrived.len() > 1 {
                let last = arrived.len() - 1;
                arrived.swap(last, last - 1);
            }
        }
        arrived
    }

    fn once_in(&mut self, times: u64) -> bool {
        times != 0 && self.next().is_multiple_of(times)
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }
}
