//! Poptrie (Asai and Ohara, SIGCOMM 2015): a root of 16 bits, then nodes of 6 bits with two bitmaps: which of 64 parts have
//! children, and where runs of equal leaves begin. Elements of 8 octets: a node is three words.

use crate::design::{Design, prefetch};
use crate::routes::{Route, below, mask};
use crate::strides_cover::cover_of;

const INNER: u64 = 1 << 63;

pub struct Poptrie {
    root: Vec<u64>,
    /// Three words a node: children, leaves, bases (children in the high half).
    nodes: Vec<u64>,
    leaves: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
pub struct Step {
    ip: u128,
    /// Number of a node with [`INNER`], or the next hop.
    at: u64,
    depth: u8,
}

impl Poptrie {
    pub fn new(routes: &[Route]) -> Self {
        let mut built = Self {
            root: vec![0; 1 << 16],
            nodes: Vec::new(),
            leaves: Vec::new(),
        };
        for n in 0..1u128 << 16 {
            let prefix = n << 112;
            let cover = cover_of(routes, prefix, 16).unwrap_or(0);
            let part = below(routes, prefix, 16);
            built.root[n as usize] = if part.is_empty() {
                u64::from(cover)
            } else {
                built.nodes.extend([0; 3]);
                let number = built.nodes.len() / 3 - 1;
                built.fill(number, part, prefix, 16, cover);
                INNER | number as u64
            };
        }
        built
    }

    fn fill(&mut self, number: usize, routes: &[Route], prefix: u128, depth: u8, cover: u32) {
        let bits = 6u8.min(128 - depth);
        let below_depth = depth + bits;
        let (mut children, mut runs, mut last) = (Vec::new(), 0u64, None);
        let mut inner = 0u64;
        let first_leaf = self.leaves.len();
        for n in 0..1u128 << bits {
            let child = prefix | n << (128 - below_depth);
            let hop = cover_of(routes, child, below_depth).unwrap_or(cover);
            let part = below(routes, child, below_depth);
            if below_depth < 128 && !part.is_empty() {
                inner |= 1 << n;
                children.push((child, part, hop));
            } else if last != Some(hop) {
                runs |= 1 << n;
                self.leaves.push(u64::from(hop));
                last = Some(hop);
            }
        }
        let first_child = self.nodes.len() / 3;
        self.nodes.resize(self.nodes.len() + 3 * children.len(), 0);
        self.nodes[3 * number] = inner;
        self.nodes[3 * number + 1] = runs;
        self.nodes[3 * number + 2] = (first_child as u64) << 32 | first_leaf as u64;
        for (n, (child, part, hop)) in children.into_iter().enumerate() {
            self.fill(first_child + n, part, child, below_depth, hop);
        }
    }
}

impl Design for Poptrie {
    type Step = Step;
    const STEPS: usize = 19;

    fn octets(&self) -> usize {
        let touched = self.root.iter().filter(|word| **word != 0).count() * 8;
        touched + 8 * (self.nodes.len() + self.leaves.len())
    }

    #[inline(always)]
    fn first(&self, ip: u128) -> Step {
        let step = Step {
            ip,
            at: self.root[(ip >> 112) as usize],
            depth: 16,
        };
        if step.at & INNER != 0 {
            prefetch(&self.nodes, 3 * step.at as u32 as usize);
        }
        step
    }

    #[inline(always)]
    fn is_done(&self, step: Step) -> bool {
        step.at & INNER == 0
    }

    #[inline(always)]
    fn next(&self, step: Step) -> Step {
        if self.is_done(step) {
            return step;
        }
        let node = &self.nodes[3 * step.at as u32 as usize..][..3];
        let bits = 6u8.min(128 - step.depth);
        let n = (step.ip << step.depth >> (128 - bits)) as u32;
        let upto = u64::MAX >> (63 - n);
        let at = if node[0] >> n & 1 != 0 {
            let child = (node[2] >> 32) + u64::from((node[0] & upto).count_ones()) - 1;
            prefetch(&self.nodes, 3 * child as usize);
            INNER | child
        } else {
            let leaf = node[2] as u32 as usize + (node[1] & upto).count_ones() as usize - 1;
            self.leaves[leaf]
        };
        Step {
            at,
            depth: step.depth + bits,
            ..step
        }
    }

    #[inline(always)]
    fn found(&self, step: Step) -> u32 {
        step.at as u32
    }

    fn reads(&self, ip: u128) -> usize {
        let (mut step, mut reads) = (self.first(ip), 1);
        while !self.is_done(step) {
            step = self.next(step);
            reads += 1;
        }
        // The last node's leaf.
        reads + 1
    }
}
