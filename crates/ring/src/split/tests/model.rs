//! Both ends for any order of completion against a naive model: two queues of pushed and of returned chains.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const SIZE: u16 = 16;

#[derive(Clone, Debug)]
enum Op {
    Push { readable: usize, writable: usize, indirect: bool },
    Publish,
    Take(usize),
    GiveBack(usize),
    Complete { which: usize, written: u32 },
    Return,
    Pop(usize),
    DeviceArm(bool),
    DriverArm(bool),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..4usize, 0..4usize, any::<bool>())
            .prop_map(|(readable, writable, indirect)| Op::Push { readable, writable, indirect }),
        4 => Just(Op::Publish),
        4 => (0..20usize).prop_map(Op::Take),
        1 => (0..20usize).prop_map(Op::GiveBack),
        8 => (any::<usize>(), any::<u32>()).prop_map(|(which, written)| Op::Complete { which, written }),
        4 => Just(Op::Return),
        4 => (0..20usize).prop_map(Op::Pop),
        1 => any::<bool>().prop_map(Op::DeviceArm),
        1 => any::<bool>().prop_map(Op::DriverArm),
    ]
}

/// A token, its buffers, and the number of descriptors of the table that they take.
type Pushed = (u32, Vec<Segment>, usize);

/// Both ends, and their expected results.
struct World<'a> {
    memory: Memory,
    event_idx: bool,
    driver: Driver<'a, u32>,
    device: DeviceQueue,
    tokens: u32,
    free: usize,
    /// Chains that the device has not taken.
    pushed: VecDeque<Pushed>,
    visible: usize,
    taken: Vec<(Chain, u32, usize)>,
    /// The last burst with its chains, if none of them was completed yet.
    fresh: Option<(Burst, Vec<Pushed>)>,
    completed: VecDeque<(u32, u32, usize)>,
    returned: usize,
    available: u16,
    used: u16,
    published: u16,
}

impl World<'_> {
    fn run(&mut self, op: Op) {
        match op {
            Op::Push { readable, writable, indirect } => self.push(readable, writable, indirect),
            Op::Publish => self.publish(),
            Op::Take(max) => self.take(max),
            Op::GiveBack(keep) => self.give_back(keep),
            Op::Complete { which, written } => self.complete(which, written),
            Op::Return => self.return_completed(),
            Op::Pop(max) => self.pop(max),
            Op::DeviceArm(true) => {
                let news = self.device.arm();
                assert_eq!(news, self.visible > 0);
            }
            Op::DeviceArm(false) => self.device.disarm(),
            Op::DriverArm(true) => {
                let news = self.driver.arm();
                assert_eq!(news, self.returned > 0);
            }
            Op::DriverArm(false) => self.driver.disarm(),
        }
        assert_eq!(self.driver.free(), self.free);
    }

    fn push(&mut self, readable: usize, writable: usize, indirect: bool) {
        let token = self.tokens;
        let segments: Vec<Segment> = (0..readable + writable)
            .map(|i| Segment {
                address: BUFFERS + u64::from(token) * 7 % 0x8000 + i as u64 * 64,
                len: 1 + (token + i as u32) % 63,
                writable: i >= readable,
            })
            .collect();
        let entries = if indirect { 1 } else { segments.len() };
        // Each token has a place for its table: at most SIZE are outstanding.
        let table = BUFFERS + 0x1_0000 + u64::from(token % 1024) * 128;
        let done = if indirect {
            self.driver.push_indirect(token, table, &segments)
        } else {
            self.driver.push_chain(token, &segments)
        };
        assert_eq!(done, !segments.is_empty() && entries <= self.free);
        if done {
            self.free -= entries;
            self.tokens += 1;
            self.available = self.available.wrapping_add(1);
            self.pushed.push_back((token, segments, entries));
        }
    }

    fn publish(&mut self) {
        let (layout, event) = (self.memory.layout(), self.memory.avail_event());
        let old = self.memory.word(layout.available + 2);
        let flag = self.memory.word(layout.used);
        let expected = if self.event_idx { leaves(event, self.available, old) } else { flag == 0 };
        assert_eq!(self.driver.publish(), expected && old != self.available);
        assert_eq!(self.memory.word(layout.available + 2), self.available);
        self.visible = self.pushed.len();
    }

    fn take(&mut self, max: usize) {
        let mut burst = Burst::new();
        let count = self.device.take_mixed(max, &mut burst).unwrap();
        assert_eq!(count, self.visible.min(max));
        self.fresh = None;
        let mut held = Vec::new();
        for chain in burst.chains() {
            let (token, segments, entries) = self.pushed.pop_front().unwrap();
            let region = self.memory.region();
            let shown: Vec<_> =
                burst.readable(chain).iter().map(|bytes| (bytes.as_ptr(), bytes.len(), false)).collect();
            let writable = burst.writable(chain).iter().map(|bytes| (bytes.as_ptr(), bytes.len(), true));
            let expected: Vec<_> = segments
                .iter()
                .map(|s| (region.translate(s.address, 1).unwrap(), s.len as usize, s.writable))
                .collect();
            assert_eq!(shown.into_iter().chain(writable).collect::<Vec<_>>(), expected);
            assert_eq!(chain.single().is_some(), segments.len() == 1);
            self.taken.push((*chain, token, entries));
            held.push((token, segments, entries));
        }
        self.visible -= count;
        self.fresh = Some((burst, held));
    }

    fn give_back(&mut self, keep: usize) {
        let Some((mut burst, held)) = self.fresh.take() else { return };
        self.device.give_back(&mut burst, keep);
        for entry in held.into_iter().skip(keep).rev() {
            self.taken.pop();
            self.pushed.push_front(entry);
            self.visible += 1;
        }
    }

    fn complete(&mut self, which: usize, written: u32) {
        if self.taken.is_empty() {
            return;
        }
        self.fresh = None;
        let (chain, token, entries) = self.taken.remove(which % self.taken.len());
        self.device.complete(&chain, written);
        self.completed.push_back((token, written, entries));
        self.used = self.used.wrapping_add(1);
    }

    fn return_completed(&mut self) {
        let (layout, event) = (self.memory.layout(), self.memory.used_event());
        let flag = self.memory.word(layout.available);
        let expected = if self.event_idx { leaves(event, self.used, self.published) } else { flag == 0 };
        assert_eq!(self.device.publish(), expected && self.used != self.published);
        self.published = self.used;
        assert_eq!(self.memory.used_index(), self.used);
        self.returned = self.completed.len();
    }

    fn pop(&mut self, max: usize) {
        let mut popped = Vec::new();
        let count = self.driver.pop(max, |token, written| popped.push((token, written))).unwrap();
        assert_eq!(count, self.returned.min(max));
        for pair in popped {
            let (token, written, entries) = self.completed.pop_front().unwrap();
            assert_eq!(pair, (token, written));
            self.free += entries;
        }
        self.returned -= count;
    }
}

proptest! {
    #[test]
    fn both_ends_agree_with_a_naive_ring(
        event_idx: bool,
        first in prop_oneof![Just(0u16), 65500..=65535u16, any::<u16>()],
        ops in prop::collection::vec(op(), 0..400),
    ) {
        let mut memory = Memory::new(SIZE);
        memory.start_at(first);
        let (region, layout) = (memory.region(), memory.layout());
        let features = Features { event_idx, indirect: true, in_order: false };
        let mut slots = vec![Slot::EMPTY; SIZE.into()];
        let driver = Driver::starting_at(region, &layout, features, &mut slots, first).unwrap();
        let device = DeviceQueue::resume(region, &layout, features, first).unwrap();
        let mut world = World {
            memory, event_idx, driver, device, tokens: 0, free: SIZE.into(), pushed: VecDeque::new(), visible: 0,
            taken: Vec::new(), fresh: None, completed: VecDeque::new(), returned: 0, available: first, used: first,
            published: first,
        };
        for op in ops {
            world.run(op);
        }
    }

    #[test]
    fn a_wish_by_index_is_what_the_definition_says(event: u16, old: u16, moved in 0..40u16, near in 0..80u16) {
        for event in [event, old.wrapping_sub(40).wrapping_add(near)] {
            let new = old.wrapping_add(moved);
            prop_assert_eq!(notify::passed(event, new, old), leaves(event, new, old));
        }
    }
}
