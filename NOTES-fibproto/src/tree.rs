//! All intervals in a tree of 16-way nodes (keys: the high 64 bits), breadth first; without SIMD a node is searched by
//! counting the keys that are not larger. Routes longer than /64 are not in this prototype.

use crate::design::{Design, prefetch};
use crate::routes::{Route, intervals};

const WAYS: usize = 16;

pub struct Tree {
    /// Levels from the top: each a multiple of [`WAYS`] keys, filled up with `u64::MAX`.
    levels: Vec<Vec<u64>>,
    hops: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
pub struct Step {
    key: u64,
    at: usize,
    level: usize,
}

impl Tree {
    pub fn new(routes: &[Route]) -> Self {
        let found = intervals(0, u128::MAX, 0, routes);
        let mut keys: Vec<u64> = found.iter().map(|(at, _)| (*at >> 64) as u64).collect();
        let hops = found.iter().map(|(_, hop)| *hop).collect();
        let mut levels = Vec::new();
        loop {
            keys.resize(keys.len().next_multiple_of(WAYS), u64::MAX);
            let above: Vec<u64> = keys.chunks(WAYS).map(|node| node[0]).collect();
            levels.push(keys);
            if above.len() == 1 {
                break;
            }
            keys = above;
        }
        levels.reverse();
        Self { levels, hops }
    }
}

impl Design for Tree {
    type Step = Step;
    const STEPS: usize = 7;

    fn octets(&self) -> usize {
        8 * self.levels.iter().map(Vec::len).sum::<usize>() + 4 * self.hops.len()
    }

    #[inline(always)]
    fn first(&self, ip: u128) -> Step {
        Step {
            key: (ip >> 64) as u64,
            at: 0,
            level: 0,
        }
    }

    #[inline(always)]
    fn is_done(&self, step: Step) -> bool {
        step.level == self.levels.len()
    }

    #[inline(always)]
    fn next(&self, step: Step) -> Step {
        if self.is_done(step) {
            return step;
        }
        let node = &self.levels[step.level][step.at * WAYS..][..WAYS];
        let before = node
            .iter()
            .map(|key| usize::from(*key <= step.key))
            .sum::<usize>();
        let at = step.at * WAYS + before.max(1) - 1;
        match self.levels.get(step.level + 1) {
            Some(level) => {
                prefetch(level, at * WAYS);
                prefetch(level, at * WAYS + 8);
            }
            None => prefetch(&self.hops, at),
        }
        Step {
            at,
            level: step.level + 1,
            ..step
        }
    }

    #[inline(always)]
    fn found(&self, step: Step) -> u32 {
        // The last key may be filled up.
        self.hops[step.at.min(self.hops.len() - 1)]
    }

    fn reads(&self, _: u128) -> usize {
        2 * self.levels.len() + 1
    }
}
