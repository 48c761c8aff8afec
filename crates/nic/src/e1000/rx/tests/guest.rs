//! A simulated driver: one receive ring with its buffers.

use std::mem::MaybeUninit;

use ring::e1000::{Layout, RxDriver};

use super::*;

/// Address of the station itself.
pub(super) const OWN: [u8; 6] = [2, 0, 0, 0, 0, 7];
/// Guest-physical address of the memory: the status block, then the ring, then buffers.
const START: u64 = 0x10_0000;
const RING: u64 = START + 0x1000;
const BUFFERS: u64 = RING + 0x2000;
/// Sizes of a buffer, and of the memory, in octets.
const BUFFER: u64 = 2048;
const LEN: u64 = 0x3000 + 512 * BUFFER + 0x1000;
/// Offset of the receive ring's tail in the block.
const BLOCK_TAIL: u64 = 64;

pub(super) struct Guest {
    region: Region,
    layout: Layout,
    ends: Arc<HeadTail>,
    block: bool,
    driver: RxDriver<'static, u64>,
    posted: u64,
}

/// Returns a frame to the station whose octets identify it.
pub(super) fn frame(number: u8, len: usize) -> Vec<u8> {
    let head = [&OWN[..], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5]].concat();
    let body = (0..).map(|at: usize| number.wrapping_mul(31).wrapping_add(at as u8));
    head.into_iter().chain(body).take(len).collect()
}

/// Returns settings with which frames to the station arrive unchanged.
pub(super) fn plain() -> RxSettings {
    let filters = Filters {
        unicast: false,
        multicast: false,
        broadcast: false,
        hash: 0,
        addresses: std::array::from_fn(|i| (i == 0).then_some(OWN)),
        hashes: [0; 128],
        vlans: None,
        canonical: None,
    };
    RxSettings {
        buffer_len: BUFFER as u32,
        longest: 16380,
        fcs: false,
        vlan: false,
        vlan_type: 0x8100,
        filters: Arc::new(filters),
        checksum: RxChecksum::default(),
        threshold: 1000,
        loopback: false,
    }
}

impl Guest {
    /// End of its memory.
    pub(super) const END: u64 = START + LEN;

    /// Creates a ring in memory of its own, which is leaked.
    pub(super) fn new(entries: u16, block: bool) -> Self {
        let octets = Box::leak(vec![0_u8; LEN as usize + 64].into_boxed_slice());
        let skew = octets.as_ptr().align_offset(64);
        let region = Region::from_static(&mut octets[skew..skew + LEN as usize], START);
        let layout = Layout { base: RING, entries };
        let csb = block.then(|| Csb::map(&region, START).unwrap());
        let tokens = Box::leak(vec![MaybeUninit::uninit(); entries.into()].into_boxed_slice());
        let driver = RxDriver::new(region, &layout, csb, tokens).unwrap();
        Self { region, layout, ends: Arc::new(HeadTail::new()), block, driver, posted: 0 }
    }

    /// Creates the device's end.
    pub(super) fn queue(&self, settings: RxSettings) -> RxQueue {
        self.queue_with(settings, &Arc::default())
    }

    /// Creates the device's end, with these counters.
    pub(super) fn queue_with(&self, settings: RxSettings, statistics: &Arc<Statistics>) -> RxQueue {
        let (layout, ends, statistics) = (self.layout, self.ends.clone(), statistics.clone());
        let setup = RxSetup { layout, ends, block: self.block.then_some(START), statistics, settings };
        RxQueue::new(self.region, &setup).unwrap()
    }

    pub(super) fn driver(&mut self) -> &mut RxDriver<'static, u64> {
        &mut self.driver
    }

    /// Posts `n` buffers; returns true if the device wants a kick.
    pub(super) fn post(&mut self, n: u64) -> bool {
        let buffers = (self.posted..self.posted + n).map(|number| BUFFERS + number % 512 * BUFFER);
        assert_eq!(self.driver.push_buffers(buffers.map(|at| (at, at))), n as usize);
        self.posted += n;
        let kick = self.driver.publish();
        if !self.block {
            self.ends.set_tail(self.driver.tail() as u16);
        }
        kick
    }

    /// Returns the octets of each returned buffer, and the device's write-back.
    pub(super) fn back(&mut self) -> Vec<(Vec<u8>, Received)> {
        let mut back = Vec::new();
        while self.driver.pop(usize::MAX, |at, received| back.push((at, received))).unwrap() > 0 {}
        back.into_iter().map(|(at, received)| (self.octets(at, received.length.into()), received)).collect()
    }

    pub(super) fn octets(&self, address: u64, len: u32) -> Vec<u8> {
        let mut octets = vec![0; len as usize];
        self.region.bytes(address, len).unwrap().copy_to_slice(&mut octets);
        octets
    }

    /// Changes the address in a posted descriptor.
    pub(super) fn rewrite(&self, position: u64, address: u64) {
        self.region.bytes(RING + 16 * position, 8).unwrap().write(0, address.to_le_bytes());
    }

    /// Sets the tail, in the block and the register.
    pub(super) fn set_tail(&self, position: u16) {
        self.region.bytes(START + BLOCK_TAIL, 2).unwrap().write(0, position.to_le_bytes());
        self.ends.set_tail(position);
    }

    /// Returns the value of RDH.
    pub(super) fn head(&self) -> u16 {
        self.ends.head()
    }
}
