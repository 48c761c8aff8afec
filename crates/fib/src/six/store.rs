//! Nodes and ranges in use, free, and retired until no reader can have them any more.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};

use super::layout::{Entry, Kind, Memory, NODE};
use crate::Error;

/// Number of size classes of lists: 2^0 to 2^17 words.
const CLASSES: usize = 18;
/// Words of a cache line: longer lists begin at one.
const LINE: usize = 8;

/// A block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Node(u32),
    /// A list at this word, of a size class.
    List(u32, usize),
}

/// The writer's view of nodes and ranges.
pub(crate) struct Store<'a> {
    memory: Memory<'a>,
    nodes_used: usize,
    words_used: usize,
    free_nodes: Vec<u32>,
    free_lists: [Vec<u32>; CLASSES],
    /// Blocks out of use, with the epoch in which they were last in use, in the order of epochs.
    retired: VecDeque<(u32, Block)>,
}

impl<'a> Store<'a> {
    pub(crate) fn new(memory: Memory<'a>) -> Self {
        Self {
            memory,
            nodes_used: 0,
            words_used: 0,
            free_nodes: Vec::new(),
            free_lists: [const { Vec::new() }; CLASSES],
            retired: VecDeque::new(),
        }
    }

    /// Returns how many blocks are out of use but may still be read.
    pub(crate) fn retired(&self) -> usize {
        self.retired.len()
    }

    /// Returns the number of nodes, and of words of ranges, that have ever been in use.
    pub(crate) const fn used(&self) -> (usize, usize) {
        (self.nodes_used, self.words_used)
    }

    /// Stores a new list; returns the entry that leads to it.
    pub(crate) fn list(&mut self, kind: Kind, words: &[u64], count: usize) -> Result<Entry, Error> {
        let count = u16::try_from(count).map_err(|_| Error::Nodes)?;
        let class = class_of(words.len());
        let at = match self.free_lists.get_mut(class).and_then(Vec::pop) {
            Some(at) => at as usize,
            None => self.extend(1 << class)?,
        };
        for (place, word) in self.memory.ranges[at..].iter().zip(words) {
            place.store(*word, Relaxed);
        }
        Ok(Entry::new(kind, at as u32, count))
    }

    /// Takes words that were never in use.
    fn extend(&mut self, words: usize) -> Result<usize, Error> {
        let at = self.words_used.next_multiple_of(words.min(LINE));
        if at + words > self.memory.ranges.len().min(u32::MAX as usize) {
            return Err(self.full());
        }
        self.words_used = at + words;
        Ok(at)
    }

    /// Stores a new node with these entries; returns the entry that leads to it.
    pub(crate) fn node(&mut self, entries: &[Entry]) -> Result<Entry, Error> {
        let number = match self.free_nodes.pop() {
            Some(number) => number,
            None if (self.nodes_used + 1) * NODE <= self.memory.nodes.len() => {
                self.nodes_used += 1;
                self.nodes_used as u32 - 1
            }
            None => return Err(self.full()),
        };
        for (place, entry) in self.node_words(number).iter().zip(entries) {
            place.store(entry.0, Relaxed);
        }
        Ok(Entry::new(Kind::Node, number, 0))
    }

    fn full(&self) -> Error {
        if self.retired.is_empty() { Error::Nodes } else { Error::Waiting }
    }

    fn node_words(&self, number: u32) -> &'a [core::sync::atomic::AtomicU64] {
        let first = number as usize * NODE;
        &self.memory.nodes[first..first + NODE]
    }

    /// Returns the entries of a node.
    pub(crate) fn entries(&self, node: Entry) -> impl Iterator<Item = Entry> + use<'a> {
        self.node_words(node.number() as u32).iter().map(|word| Entry(word.load(Relaxed)))
    }

    /// Returns blocks that were never linked.
    pub(crate) fn give_back(&mut self, entry: Entry) {
        let blocks = self.blocks(entry);
        blocks.into_iter().for_each(|block| self.reuse(block));
    }

    /// Retires all blocks below an entry that was replaced in this epoch.
    pub(crate) fn retire(&mut self, entry: Entry, epoch: u32) {
        let blocks = self.blocks(entry);
        self.retired.extend(blocks.into_iter().map(|block| (epoch, block)));
    }

    /// Returns all blocks below an entry. Lists of less than a class do not exist, so the class follows from the count.
    fn blocks(&self, entry: Entry) -> Vec<Block> {
        let (mut found, mut left) = (Vec::new(), alloc::vec![entry]);
        while let Some(entry) = left.pop() {
            let number = entry.number() as u32;
            match entry.kind() {
                Kind::Leaf => {}
                Kind::Node => {
                    found.push(Block::Node(number));
                    left.extend(self.entries(entry));
                }
                Kind::List => found.push(Block::List(number, class_of(entry.count()))),
                Kind::Wide => found.push(Block::List(number, class_of(2 * entry.count()))),
            }
        }
        found
    }

    fn reuse(&mut self, block: Block) {
        match block {
            Block::Node(number) => {
                self.node_words(number).iter().for_each(|word| word.store(0, Release));
                self.free_nodes.push(number);
            }
            Block::List(at, class) => {
                if let Some(free) = self.free_lists.get_mut(class) {
                    free.push(at);
                }
            }
        }
    }

    /// Reclaims blocks that were retired before epoch `oldest` (modulo 2^32).
    pub(crate) fn reclaim(&mut self, oldest: u32) {
        let over = |(epoch, _): &(u32, Block)| (oldest.wrapping_sub(*epoch) as i32) > 0;
        while self.retired.front().is_some_and(over)
            && let Some((_, block)) = self.retired.pop_front()
        {
            self.reuse(block);
        }
    }
}

/// Returns the class of a list of this many words.
const fn class_of(words: usize) -> usize {
    words.next_power_of_two().trailing_zeros() as usize
}
