//! Both ends against naive models: lists of pushed, taken and returned descriptors.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Way in which the driver learns of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Block,
    WriteBack,
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Block), Just(Style::WriteBack)]
}

#[derive(Clone, Debug)]
enum Op {
    /// A frame of this many descriptors; whether each requests a report.
    Push(Vec<bool>),
    /// This many frames of one descriptor each.
    PushMany(usize),
    Publish,
    Take(usize),
    Release(usize),
    Return,
    Reclaim(usize),
    DeviceArm(bool),
    DriverArm(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec(any::<bool>(), 1..4).prop_map(Op::Push),
        4 => (0..20usize).prop_map(Op::PushMany),
        4 => Just(Op::Publish),
        4 => (0..20usize).prop_map(Op::Take),
        6 => (0..20usize).prop_map(Op::Release),
        4 => Just(Op::Return),
        6 => (0..20usize).prop_map(Op::Reclaim),
        1 => any::<bool>().prop_map(Op::DeviceArm),
        1 => any::<bool>().prop_map(Op::DriverArm),
    ]
}

/// A descriptor in the model.
#[derive(Clone, Copy, Debug)]
struct Pushed {
    descriptor: Descriptor,
    token: Option<u32>,
    reports: bool,
}

/// Descriptors between the two ends, in the order of the ring: returned, released, taken, visible, pushed.
struct World<'a> {
    memory: Memory,
    style: Style,
    ends: &'a HeadTail,
    device: DeviceRing<&'a HeadTail>,
    /// Descriptors that the device has not released, or that the driver has not taken back.
    all: VecDeque<Pushed>,
    /// Descriptors that the device has released and not published.
    news: usize,
    /// Counts of those, from the front: up to the device's head, released, taken, and up to the driver's tail.
    returned: usize,
    released: usize,
    taken: usize,
    visible: usize,
    /// Position of the first of `all`.
    first: usize,
    tokens: u32,
    entries: usize,
}

impl World<'_> {
    fn position(&self, n: usize) -> u16 {
        ((self.first + n) % self.entries) as u16
    }

    fn free(&self) -> usize {
        self.entries - 1 - self.all.len()
    }

    fn add(&mut self, descriptor: Descriptor, token: Option<u32>, reports: bool) {
        self.all.push_back(Pushed { descriptor, token, reports });
    }

    /// Records a publication of the driver; `kicks` tells whether it wants to kick.
    fn published(&mut self, kicks: bool, (tail, no_kick): (u64, u64)) {
        let news = self.visible != self.all.len();
        let wanted = self.style == Style::WriteBack || self.memory.word(no_kick) == 0;
        assert_eq!(kicks, news && wanted);
        self.visible = self.all.len();
        let position = self.position(self.visible);
        match self.style {
            Style::Block => assert_eq!(self.memory.word(tail), position),
            Style::WriteBack => self.ends.set_tail(position),
        }
    }

    fn take(&mut self, max: usize) {
        let ready = self.device.ready(max.max(1)).unwrap();
        let waiting = self.visible - self.taken;
        assert!(ready >= max.min(waiting) && ready <= waiting, "{ready} of {waiting}, wanted {max}");
        let shown: Vec<_> = self.device.descriptors(max).collect();
        let expected: Vec<_> = self.all.range(self.taken..).take(shown.len()).map(|p| p.descriptor).collect();
        assert_eq!((shown.len(), &shown), (max.min(ready), &expected));
        self.device.take(max);
        self.taken += shown.len();
    }

    /// The device releases at most `max` descriptors; `word` returns the write-back of each.
    fn release(&mut self, max: usize, word: impl Fn(&Pushed) -> Option<u64>) {
        let max = max.min(self.entries - 1 - self.news);
        let n = max.min(self.taken - self.released);
        let from = self.position(self.released);
        for (i, pushed) in self.all.range(self.released..self.released + n).enumerate() {
            if let Some(word) = word(pushed) {
                self.device.write_back(from, i, word);
            }
        }
        self.device.release(max);
        self.released += n;
        self.news += n;
    }

    fn give_back(&mut self, (head, no_interrupt): (u64, u64)) {
        let wanted = self.style == Style::WriteBack || self.memory.word(no_interrupt) == 0;
        assert_eq!(self.device.publish(), self.news > 0 && wanted);
        self.news = 0;
        self.returned = self.released;
        let position = self.position(self.returned);
        assert_eq!(self.ends.head(), position);
        if self.style == Style::Block {
            assert_eq!(self.memory.word(head), position);
        }
    }

    /// The first `n` descriptors came back.
    fn came_back(&mut self, n: usize) -> Vec<Pushed> {
        self.first = (self.first + n) % self.entries;
        self.returned = self.returned.saturating_sub(n);
        self.released -= n;
        self.taken -= n;
        self.visible -= n;
        self.all.drain(..n).collect()
    }

    fn arm_device(&mut self, on: bool) {
        if on {
            assert_eq!(self.device.arm(), self.visible > self.taken);
        } else {
            self.device.disarm();
        }
    }

    /// Returns how many descriptors a driver without block may take back: up to the last released one that reports, or
    /// the first such one that makes `max`.
    fn reported(&self, max: usize) -> usize {
        let reports = self.all.range(..self.released).zip(1..).filter(|(pushed, _)| pushed.reports);
        let counts: Vec<usize> = reports.map(|(_, count)| count).collect();
        let enough = counts.iter().copied().find(|&count| count >= max);
        enough.or(counts.last().copied()).unwrap_or(0)
    }
}

fn transmit(world: &mut World<'_>, driver: &mut TxDriver<'_, u32>, op: Op) {
    match op {
        Op::Push(reports) => {
            let n = reports.len();
            for (i, reports) in reports.into_iter().enumerate() {
                let token = (i + 1 == n).then_some(world.tokens);
                world.tokens += u32::from(token.is_some());
                let command = if token.is_some() { tx::EOP } else { 0 } | if reports { tx::RS } else { 0 };
                let descriptor = Descriptor::legacy(u64::from(world.tokens) << 6, i as u16, command);
                let room = world.free() > 0;
                assert_eq!(driver.push(descriptor, token), room);
                if room {
                    world.add(descriptor, token, reports);
                }
            }
        }
        Op::PushMany(n) => {
            let first = world.tokens;
            let frame = |token: u32| (Descriptor::legacy(u64::from(token), 60, tx::EOP | tx::RS), token);
            let mut offered = (first..first + n as u32).map(frame);
            let pushed = driver.push_frames(offered.by_ref());
            assert_eq!(pushed, n.min(world.free()));
            assert_eq!(offered.count(), n - pushed, "frames without room are left where they were");
            for (descriptor, token) in (first..).map(frame).take(pushed) {
                world.add(descriptor, Some(token), true);
            }
            world.tokens += pushed as u32;
        }
        Op::Publish => {
            let kicks = driver.publish();
            world.published(kicks, (at::TX_TAIL, at::NO_TX_KICK));
            assert_eq!(driver.tail(), world.position(world.visible).into());
        }
        Op::Take(max) => world.take(max),
        Op::Release(max) => world.release(max, |pushed| pushed.reports.then(|| pushed.descriptor.done())),
        Op::Return => world.give_back((at::TX_HEAD, at::NO_TX_INTERRUPT)),
        Op::Reclaim(max) => {
            let expected = match world.style {
                Style::Block => world.returned.min(max),
                Style::WriteBack => world.reported(max),
            };
            let mut tokens = Vec::new();
            assert_eq!(driver.reclaim(max, |token| tokens.push(token)), Ok(expected));
            let back = world.came_back(expected);
            assert_eq!(tokens, back.iter().filter_map(|pushed| pushed.token).collect::<Vec<_>>());
        }
        Op::DeviceArm(on) => world.arm_device(on),
        Op::DriverArm(true) => {
            let news = if world.style == Style::Block { world.returned } else { world.reported(1) };
            assert_eq!(driver.arm(), news > 0);
        }
        Op::DriverArm(false) => driver.disarm(),
    }
    assert_eq!(driver.free(), world.free());
}

/// Returns the device's write-back for the frame in a buffer.
fn received(pushed: &Pushed) -> Received {
    let address = pushed.descriptor.address;
    Received {
        length: address as u16,
        status: rx::DD | rx::EOP,
        special: (address >> 16) as u16,
        ..Received::default()
    }
}

fn receive(world: &mut World<'_>, driver: &mut RxDriver<'_, u32>, op: Op) {
    match op {
        Op::Push(reports) => receive(world, driver, Op::PushMany(reports.len())),
        Op::PushMany(n) => {
            let first = world.tokens;
            let buffer = |token: u32| (token, u64::from(token) * 0x1_0003);
            let mut offered = (first..first + n as u32).map(buffer);
            let pushed = driver.push_buffers(offered.by_ref());
            assert_eq!((pushed, offered.count()), (n.min(world.free()), n - pushed));
            for (token, address) in (first..).map(buffer).take(pushed) {
                world.add(Descriptor::buffer(address), Some(token), true);
            }
            world.tokens += pushed as u32;
            if world.free() == 0 {
                assert!(!driver.push(0, 0));
            }
        }
        Op::Publish => {
            let kicks = driver.publish();
            world.published(kicks, (at::RX_TAIL, at::NO_RX_KICK));
            assert_eq!(driver.tail(), world.position(world.visible).into());
        }
        Op::Take(max) => world.take(max),
        Op::Release(max) => world.release(max, |pushed| Some(received(pushed).rest())),
        Op::Return => world.give_back((at::RX_HEAD, at::NO_RX_INTERRUPT)),
        Op::Reclaim(max) => {
            let back = if world.style == Style::Block { world.returned } else { world.released };
            let mut popped = Vec::new();
            let count = driver.pop(max, |token, received| popped.push((token, received))).unwrap();
            // With a block, the buffers that it already knows of are enough.
            assert!(
                count <= back.min(max)
                    && (count == back.min(max) || (world.style == Style::Block && count > 0))
            );
            let expected = world.came_back(count);
            let expected: Vec<_> = expected.iter().map(|p| (p.token.unwrap(), received(p))).collect();
            assert_eq!(popped, expected);
        }
        Op::DeviceArm(on) => world.arm_device(on),
        Op::DriverArm(true) => {
            let news = if world.style == Style::Block { world.returned } else { world.released };
            assert_eq!(driver.arm(), news > 0);
        }
        Op::DriverArm(false) => driver.disarm(),
    }
    assert_eq!(driver.free(), world.free());
}

fn run(style: Style, entries: u16, transmits: bool, ops: Vec<Op>) {
    let mut memory = Memory::new(entries);
    let (region, layout) = (memory.region(), memory.layout());
    let csb = (style == Style::Block).then(|| memory.csb());
    let ends = HeadTail::new();
    let device = if transmits { DeviceRing::transmit } else { DeviceRing::receive };
    let device = device(region, &layout, &ends, csb).unwrap();
    let mut world = World {
        memory,
        style,
        ends: &ends,
        device,
        all: VecDeque::new(),
        news: 0,
        returned: 0,
        released: 0,
        taken: 0,
        visible: 0,
        first: 0,
        tokens: 1,
        entries: entries.into(),
    };
    let mut slots = vec![TxSlot::EMPTY; entries.into()];
    let mut tokens = vec![MaybeUninit::uninit(); entries.into()];
    let mut sender = TxDriver::new(region, &layout, csb, &mut slots).unwrap();
    let mut receiver = RxDriver::new(region, &layout, csb, &mut tokens).unwrap();
    for op in ops {
        if transmits {
            transmit(&mut world, &mut sender, op);
        } else {
            receive(&mut world, &mut receiver, op);
        }
    }
}

proptest! {
    #[test]
    fn both_ends_agree_with_a_naive_ring(
        style in style(),
        eighths in 1..6u16,
        transmits: bool,
        ops in prop::collection::vec(op(), 0..400),
    ) {
        run(style, 8 * eighths, transmits, ops);
    }
}
