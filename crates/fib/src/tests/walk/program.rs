//! The programs, instruction by instruction. They have no loop: each step that a look-up may take is in them once.
//!
//! A packet is the destination, and behind it the hash of its flow. R7 and R8 are the destination, R9 is the entry that it has led to;
//! later R7 is the number of the next hop. The answer has four words: that number, the next hop's word, and its address in two words.

extern crate std;

use alloc::vec::Vec;
use core::mem::offset_of;
use std::os::fd::BorrowedFd;

use bpf::{Assembler, Compare, Operation, R0, R1, R2, R3, R6, R7, R8, R9, R10, Size};

use crate::layout::{self, GROUP, Header, IS_GROUP, NUMBER};
use crate::six::layout::{self as layout6, Kind};
use crate::word::{self, DOWN, GATEWAY6, KIND_SHIFT, NIC_SHIFT};
use crate::{CHOICES, Routes6, six};

/// Octets of an element of the map that holds the tables.
pub(super) const ELEMENT: usize = 8;
/// Words of an answer.
pub(super) const ANSWER: usize = 4;
/// Result of a program that has found its answer; another result: an element is not there.
pub(super) const TOLD: u32 = 1;

/// Steps from root to the deepest node.
const STEPS: usize = <six::Table<'static> as Routes6>::STEPS;
/// Parts of 32 intervals, the most that a list has whose borders have 32 bits.
const PARTS_OF_LIST: [i32; 5] = [16, 8, 4, 2, 1];
/// Parts of as many intervals as a list can have.
const PARTS_OF_WIDE_LIST: [i32; 16] =
    [32_768, 16_384, 8192, 4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1];

const ADD: Operation = Operation::Add;
const SUBTRACT: Operation = Operation::Subtract;
const MULTIPLY: Operation = Operation::Multiply;
const AND: Operation = Operation::And;
const OR: Operation = Operation::Or;
const XOR: Operation = Operation::Xor;
const SHIFT_LEFT: Operation = Operation::ShiftLeft;
const SHIFT_RIGHT: Operation = Operation::ShiftRight;
const SET: Operation = Operation::Set;

// Offsets on the stack.
/// Key of a map.
const KEY: i16 = -4;
/// Element with which the table begins.
const BASE: i16 = -16;
/// Hash of the flow.
const HASH: i16 = -24;
/// Lower half of an IPv6 destination.
const LOWER: i16 = -32;
/// 1 if the interval that is looked at is one of the list, or 0.
const INSIDE: i16 = -40;
/// Words of the next hop.
const HOP: [i16; 3] = [-48, -56, -64];

/// The maps of the programs.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    /// The memory of both tables, in elements.
    pub(super) tables: BorrowedFd<'a>,
    /// The answer, in the only element.
    pub(super) answer: BorrowedFd<'a>,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The entry is that of a route of /24 or shorter.
    Short,
    /// The entry leads to no node.
    Found,
    List,
    Wide,
    /// R7 has the number that was found.
    Number,
    /// R7 has a number that is not that of the default route by 0.
    Known,
    /// All next hops of a bucket are down.
    AllDown,
    /// R7 has the number of a next hop.
    Hop,
    /// The next hop's words are on the stack.
    Read,
    /// An element is not there.
    Lost,
}

/// Where a table has what those of both families have.
struct Parts {
    /// The number of the default route's next hop, in the lower half of an element.
    default_route: usize,
    next_hops: usize,
    /// Elements of a next hop.
    of_hop: i32,
    buckets: usize,
}

const FOUR: Parts = Parts {
    default_route: offset_of!(Header, default_route),
    next_hops: layout::NEXT_HOPS_AT,
    of_hop: 1,
    buckets: layout::BUCKETS_AT,
};

const SIX: Parts = Parts {
    default_route: offset_of!(layout6::Header, default_route),
    next_hops: layout6::NEXT_HOPS_AT,
    of_hop: layout6::HOP_WORDS as i32,
    buckets: layout6::BUCKETS_AT,
};

/// Returns the program for IPv4 destinations.
pub(super) fn four(maps: Maps<'_>) -> Vec<u64> {
    let mut walk = Walk::new(maps);
    walk.read_packet(R7, 0);
    walk.read_packet(R8, 4);
    walk.keep(HASH, R8);
    walk.find_four();
    walk.choose(&FOUR);
    walk.read_hop_of_four();
    walk.finish()
}

/// Returns the program for IPv6 destinations.
pub(super) fn six(maps: Maps<'_>) -> Vec<u64> {
    let mut walk = Walk::new(maps);
    walk.read_packet(R7, 16);
    walk.keep(HASH, R7);
    for (register, offset) in [(R7, 0), (R8, 8)] {
        walk.read_packet(register, offset);
        walk.by(SHIFT_LEFT, register, 32);
        walk.code.load_packet(Size::Word, R9, offset + 4);
        walk.with(OR, register, R0);
    }
    walk.keep(LOWER, R8);
    walk.find_six();
    walk.choose(&SIX);
    walk.read_hop_of_six();
    walk.finish()
}

/// A program under construction.
struct Walk<'a> {
    code: Assembler<Place>,
    maps: Maps<'a>,
}

impl<'a> Walk<'a> {
    /// R6 = the packet, R9 = 0, BASE = the beginning of the IPv4 table.
    fn new(maps: Maps<'a>) -> Self {
        let mut walk = Self { code: Assembler::default(), maps };
        walk.with(SET, R6, R1);
        walk.by(SET, R9, 0);
        walk.keep(BASE, R9);
        walk
    }

    fn by(&mut self, operation: Operation, register: u8, constant: i32) {
        self.code.alu_const(operation, register, constant);
    }

    fn with(&mut self, operation: Operation, register: u8, other: u8) {
        self.code.alu_reg(operation, register, other);
    }

    fn keep(&mut self, slot: i16, register: u8) {
        self.code.store(Size::Double, R10, slot, register);
    }

    fn recall(&mut self, register: u8, slot: i16) {
        self.code.load(Size::Double, register, R10, slot);
    }

    /// `register` = 4 octets of the packet. R9 is 0.
    fn read_packet(&mut self, register: u8, offset: i32) {
        self.code.load_packet(Size::Word, R9, offset);
        self.with(SET, register, R0);
    }

    /// `register` = its lower 32 bits.
    fn lower_half(&mut self, register: u8) {
        self.by(SHIFT_LEFT, register, 32);
        self.by(SHIFT_RIGHT, register, 32);
    }

    /// R0 = the element that is R1 elements behind octet `at` of the table at BASE. R1 to R5 are clobbered.
    fn fetch(&mut self, at: usize) {
        self.recall(R2, BASE);
        self.with(ADD, R1, R2);
        self.by(ADD, R1, (at / ELEMENT) as i32);
        self.code.store(Size::Word, R10, KEY, R1);
        self.code.look_up(self.maps.tables, KEY, Place::Lost);
        self.code.load(Size::Double, R0, R0, 0);
    }

    /// R0 = the element of octet `at` of the table at BASE.
    fn fetch_at(&mut self, at: usize) {
        self.by(SET, R1, 0);
        self.fetch(at);
    }

    /// R8 = number R9 of the words of 32 bits that lie from octet `at` on, two in an element, the first one in its lower half.
    fn fetch_half(&mut self, at: usize) {
        self.with(SET, R1, R9);
        self.by(SHIFT_RIGHT, R1, 1);
        self.fetch(at);
        self.by(AND, R9, 1);
        self.by(SHIFT_LEFT, R9, 5);
        self.with(SET, R8, R0);
        self.with(SHIFT_RIGHT, R8, R9);
        self.lower_half(R8);
    }

    /// R0 = 1 if R1 is less than R2, or else 0: the borrow of R1 - R2. R1 and R3 are clobbered.
    fn less(&mut self) {
        self.with(SET, R0, R1);
        self.by(XOR, R0, -1);
        self.with(AND, R0, R2);
        self.with(SET, R3, R1);
        self.with(XOR, R3, R2);
        self.by(XOR, R3, -1);
        self.with(SUBTRACT, R1, R2);
        self.with(AND, R3, R1);
        self.with(OR, R0, R3);
        self.by(SHIFT_RIGHT, R0, 63);
    }

    /// R7 = the number that the IPv4 destination in R7 leads to; 0: that of the default route.
    fn find_four(&mut self) {
        self.with(SET, R9, R7);
        self.by(SHIFT_RIGHT, R9, 8);
        self.fetch_half(layout::TBL24_AT);
        self.with(SET, R1, R8);
        self.by(SHIFT_RIGHT, R1, IS_GROUP.trailing_zeros() as i32);
        self.code.jump_if(Compare::Equal, R1, 0, Place::Short);
        self.with(SET, R9, R8);
        self.by(AND, R9, NUMBER as i32);
        self.by(MULTIPLY, R9, GROUP as i32);
        self.with(SET, R1, R7);
        self.by(AND, R1, 0xff);
        self.with(ADD, R9, R1);
        self.fetch_half(layout::TBL8_AT);
        self.code.label(Place::Short);
        self.with(SET, R7, R8);
        self.by(AND, R7, NUMBER as i32);
    }

    /// R7 = the number that the IPv6 destination in R7 and R8 leads to; 0: that of the default route.
    fn find_six(&mut self) {
        self.fetch_at(offset_of!(Header, six_at));
        self.by(SHIFT_RIGHT, R0, ELEMENT.trailing_zeros() as i32);
        self.keep(BASE, R0);
        self.with(SET, R1, R7);
        self.by(SHIFT_RIGHT, R1, 48);
        self.fetch(layout6::ROOT_AT);
        self.with(SET, R9, R0);
        self.leave_out(16);
        (0..STEPS).for_each(|_| self.step());
        self.code.label(Place::Found);
        self.kind();
        for (kind, place) in [(Kind::List, Place::List), (Kind::Wide, Place::Wide), (Kind::Node, Place::Lost)]
        {
            self.code.jump_if(Compare::Equal, R1, kind as i32, place);
        }
        self.with(SET, R7, R9);
        self.lower_half(R7);
        self.code.jump(Place::Number);
        self.code.label(Place::List);
        self.by(SHIFT_RIGHT, R7, 32);
        self.search(1, &PARTS_OF_LIST);
        self.code.jump(Place::Number);
        self.code.label(Place::Wide);
        self.recall(R7, LOWER);
        self.search(2, &PARTS_OF_WIDE_LIST);
        self.code.label(Place::Number);
    }

    /// R1 = the kind of the entry in R9.
    fn kind(&mut self) {
        self.with(SET, R1, R9);
        self.by(SHIFT_RIGHT, R1, 60);
    }

    /// Leaves out the first bits of what R7 and R8 have of the destination.
    fn leave_out(&mut self, bits: i32) {
        self.by(SHIFT_LEFT, R7, bits);
        self.with(SET, R1, R8);
        self.by(SHIFT_RIGHT, R1, 64 - bits);
        self.with(OR, R7, R1);
        self.by(SHIFT_LEFT, R8, bits);
    }

    /// R9 = the entry that the node of R9 has for the next 8 bits. Goes on at `Found` if R9 leads to no node.
    fn step(&mut self) {
        self.kind();
        self.code.jump_if(Compare::Other, R1, Kind::Node as i32, Place::Found);
        self.with(SET, R1, R9);
        self.lower_half(R1);
        self.by(MULTIPLY, R1, layout6::NODE as i32);
        self.with(SET, R2, R7);
        self.by(SHIFT_RIGHT, R2, 56);
        self.with(ADD, R1, R2);
        self.fetch(layout6::NODES_AT);
        self.with(SET, R9, R0);
        self.leave_out(8);
    }

    /// R7 = the next hop of the last interval that does not begin behind the key in R7, of the list of the entry in R9, each of whose
    /// intervals has as many elements. R6 is the number of the best interval so far, R8 that of all.
    fn search(&mut self, of_interval: i32, parts: &[i32]) {
        self.with(SET, R8, R9);
        self.by(SHIFT_RIGHT, R8, 32);
        self.by(AND, R8, 0xffff);
        self.lower_half(R9);
        // Lists lie behind all nodes, whose number the header has.
        self.fetch_at(offset_of!(layout6::Header, nodes));
        self.lower_half(R0);
        self.by(MULTIPLY, R0, layout6::NODE as i32);
        self.with(ADD, R9, R0);
        self.by(SET, R6, 0);
        parts.iter().for_each(|part| self.try_later(of_interval, *part));
        self.fetch_of_interval(of_interval, of_interval - 1);
        self.with(SET, R7, R0);
        self.lower_half(R7);
    }

    /// R6 += `part`, if there is such an interval and it does not begin behind the key.
    fn try_later(&mut self, of_interval: i32, part: i32) {
        self.with(SET, R1, R6);
        self.by(ADD, R1, part);
        self.with(SET, R2, R8);
        self.less();
        self.keep(INSIDE, R0);
        // Where there is none, the best one so far is read once more.
        self.by(MULTIPLY, R0, part);
        self.with(ADD, R6, R0);
        self.fetch_of_interval(of_interval, 0);
        self.with(SET, R2, R0);
        if of_interval == 1 {
            self.by(SHIFT_RIGHT, R2, 32);
        }
        self.with(SET, R1, R7);
        self.less();
        // Back, if it begins behind the key.
        self.recall(R1, INSIDE);
        self.with(AND, R0, R1);
        self.by(MULTIPLY, R0, part);
        self.with(SUBTRACT, R6, R0);
    }

    /// R0 = one of the elements of interval R6 of the list at R9.
    fn fetch_of_interval(&mut self, of_interval: i32, element: i32) {
        self.with(SET, R1, R6);
        self.by(MULTIPLY, R1, of_interval);
        self.with(ADD, R1, R9);
        self.by(ADD, R1, element);
        self.fetch(layout6::NODES_AT);
    }

    /// R0 = the word of next hop R7.
    fn fetch_hop(&mut self, parts: &Parts) {
        self.with(SET, R1, R7);
        self.by(MULTIPLY, R1, parts.of_hop);
        self.fetch(parts.next_hops);
    }

    /// R7 = the number of the next hop that the flow has, if R7 is that of a route.
    fn choose(&mut self, parts: &Parts) {
        self.code.jump_if(Compare::Other, R7, 0, Place::Known);
        self.fetch_at(parts.default_route);
        self.with(SET, R7, R0);
        self.lower_half(R7);
        self.code.label(Place::Known);
        self.fetch_hop(parts);
        self.with(SET, R8, R0);
        self.by(SHIFT_RIGHT, R0, KIND_SHIFT as i32);
        self.code.jump_if(Compare::Other, R0, word::GROUP as i32, Place::Hop);
        self.fetch_bucket(parts);
        self.with(SET, R8, R0);
        for choice in 0..CHOICES {
            self.take_choice(choice);
            self.code.jump_if(Compare::Equal, R7, 0, Place::AllDown);
            self.fetch_hop(parts);
            self.by(SHIFT_RIGHT, R0, DOWN.trailing_zeros() as i32);
            self.by(AND, R0, 1);
            self.code.jump_if(Compare::Equal, R0, 0, Place::Hop);
        }
        self.code.label(Place::AllDown);
        self.take_choice(0);
        self.code.label(Place::Hop);
    }

    /// R0 = the bucket that the flow has in the group whose word is in R8.
    fn fetch_bucket(&mut self, parts: &Parts) {
        // The hash's first bits.
        self.with(SET, R1, R8);
        self.by(SHIFT_RIGHT, R1, NIC_SHIFT as i32);
        self.by(AND, R1, 0xff);
        self.by(SET, R2, 32);
        self.with(SUBTRACT, R2, R1);
        self.recall(R1, HASH);
        self.with(SHIFT_RIGHT, R1, R2);
        self.lower_half(R8);
        self.with(ADD, R1, R8);
        self.fetch(parts.buckets);
    }

    /// R7 = a next hop of the bucket in R8; 0: it has no more.
    fn take_choice(&mut self, choice: usize) {
        self.with(SET, R7, R8);
        self.by(SHIFT_RIGHT, R7, 16 * choice as i32);
        self.by(AND, R7, 0xffff);
    }

    /// Puts next hop R7 on the stack, in the form that it has in an IPv6 table.
    fn read_hop_of_four(&mut self) {
        let [first, upper, lower] = HOP;
        self.fetch_hop(&FOUR);
        self.keep(first, R0);
        self.with(SET, R9, R0);
        self.lower_half(R9);
        self.keep(lower, R9);
        self.by(SET, R1, 0);
        self.keep(upper, R1);
        self.by(SHIFT_RIGHT, R0, KIND_SHIFT as i32);
        self.code.jump_if(Compare::Other, R0, GATEWAY6 as i32, Place::Read);
        // The header has the address, in two words.
        self.by(MULTIPLY, R9, 2);
        for (at, slot) in [(0, upper), (ELEMENT, lower)] {
            self.with(SET, R1, R9);
            self.fetch(offset_of!(Header, gateways6) + at);
            self.keep(slot, R0);
        }
        self.code.label(Place::Read);
    }

    /// Puts next hop R7 on the stack.
    fn read_hop_of_six(&mut self) {
        for (word, slot) in HOP.into_iter().enumerate() {
            self.with(SET, R1, R7);
            self.by(MULTIPLY, R1, SIX.of_hop);
            self.fetch(SIX.next_hops + ELEMENT * word);
            self.keep(slot, R0);
        }
    }

    /// Tells the number in R7, and the next hop on the stack.
    fn finish(mut self) -> Vec<u64> {
        self.code.store_constant(Size::Word, R10, KEY, 0);
        self.code.look_up(self.maps.answer, KEY, Place::Lost);
        self.code.store(Size::Double, R0, 0, R7);
        for (at, slot) in (1..).zip(HOP) {
            self.recall(R1, slot);
            self.code.store(Size::Double, R0, at * ELEMENT as i16, R1);
        }
        self.by(SET, R0, TOLD as i32);
        self.code.exit();
        self.code.label(Place::Lost);
        self.by(SET, R0, 0);
        self.code.exit();
        self.code.finish()
    }
}
