//! The BPF program, instruction by instruction: `port::steer` in the encoding of `linux/bpf.h`.
//!
//! r6 is the frame, r7 the offset of its network header, r8 and r9 the two ends of the flow. A load beyond
//! the end of the frame ends the program with 0, which is the queue of all frames that belong to no flow.

mod urgent;

use std::os::fd::BorrowedFd;

use bpf::{Compare, Operation, R0, R1, R2, R3, R6, R7, R8, R9, R10, Size};
use port::steer::{Hash, MULTIPLIERS};

/// Jump targets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    FirstTag,
    SecondTag,
    Network,
    Ports,
    Ends,
    EndsOfSix,
    PortsOfSix,
    WholeSix,
    Both,
    Sorted,
    Other,
    /// Of the part that selects urgent frames.
    UrgentTag,
    Four,
    Six,
    Payload,
    PayloadOf(u8),
    NoTag,
    Near,
    Plain,
    Urgent,
}

const ADD: Operation = Operation::Add;
const MUL: Operation = Operation::Multiply;
const MODULO: Operation = Operation::Modulo;
const OR: Operation = Operation::Or;
const AND: Operation = Operation::And;
const SHIFT_LEFT: Operation = Operation::ShiftLeft;
const SHIFT_RIGHT: Operation = Operation::ShiftRight;
const XOR: Operation = Operation::Xor;
const MOVE: Operation = Operation::Set;
const IF_EQUAL: Compare = Compare::Equal;
const IF_OTHER: Compare = Compare::Other;
const IF_ABOVE: Compare = Compare::Above;
const IF_BELOW: Compare = Compare::Below;
const IF_AT_MOST: Compare = Compare::AtMost;

/// Where on the stack a key is.
const KEY: i16 = -8;
/// Stack offsets at which the header's length and the protocol are stored; for IPv6 also the ports of source and destination with the
/// protocol, and the upper half of a number that is being read.
const HEADER_LEN: i16 = -8;
const PROTOCOL: i16 = -16;
const FROM: i16 = -24;
const TO: i16 = -32;
const HALF: i16 = -40;

/// A program under construction.
#[derive(Default)]
struct Assembler(bpf::Assembler<Place>);

impl Assembler {
    fn by(&mut self, operation: Operation, to: u8, constant: i32) {
        self.0.alu_const(operation, to, constant);
    }

    fn with(&mut self, operation: Operation, to: u8, from: u8) {
        self.0.alu_reg(operation, to, from);
    }

    /// r0 = the frame's octets at r7 + `offset`.
    fn read(&mut self, size: Size, offset: i32) {
        self.0.load_packet(size, R7, offset);
    }

    /// r0 = eight of the frame's octets at r7 + `offset`.
    fn read_long(&mut self, offset: i32) {
        self.read(Size::Word, offset);
        self.by(SHIFT_LEFT, R0, 32);
        self.keep(HALF, R0);
        self.read(Size::Word, offset + 4);
        self.recall(R1, HALF);
        self.with(OR, R0, R1);
    }

    fn keep(&mut self, at: i16, from: u8) {
        self.0.store(Size::Double, R10, at, from);
    }

    fn recall(&mut self, to: u8, at: i16) {
        self.0.load(Size::Double, to, R10, at);
    }

    /// `to` = a word of the program's context.
    fn context(&mut self, to: u8, offset: i16) {
        self.0.load(Size::Word, to, R6, offset);
    }

    fn multiply(&mut self, to: u8, factor: u64) {
        self.0.mov_wide(R1, factor);
        self.with(MUL, to, R1);
    }

    /// `register` ^= `register` >> `bits`.
    fn fold(&mut self, register: u8, bits: i32) {
        self.with(MOVE, R2, register);
        self.by(SHIFT_RIGHT, R2, bits);
        self.with(XOR, register, R2);
    }

    fn jump(&mut self, condition: Compare, register: u8, constant: i32, place: Place) {
        self.0.jump_if(condition, register, constant, place);
    }

    fn jump_with(&mut self, condition: Compare, register: u8, other: u8, place: Place) {
        self.0.jump_if_with(condition, register, other, place);
    }

    /// Goes on there in any case.
    fn go(&mut self, place: Place) {
        self.0.jump(place);
    }

    fn here(&mut self, place: Place) {
        self.0.label(place);
    }

    fn give(&mut self) {
        self.0.exit();
    }

    fn finish(self) -> Vec<u64> {
        self.0.finish()
    }
}

/// Returns the program that selects one of `queues`.
pub(super) fn assemble(queues: u32, hash: Hash) -> Vec<u64> {
    let mut code = Assembler::default();
    code.with(MOVE, R6, R1);
    by_flow(&mut code, queues, hash);
    code.finish()
}

/// Returns the program that selects one of `queues`, and for urgent frames the one behind these.
pub(super) fn with_urgent(queues: u32, hash: Hash) -> Vec<u64> {
    let mut code = Assembler::default();
    code.with(MOVE, R6, R1);
    urgent::select(&mut code);
    code.here(Place::Urgent);
    code.by(MOVE, R0, queues as i32);
    code.give();
    code.here(Place::Plain);
    by_flow(&mut code, queues, hash);
    code.finish()
}

/// Returns the program that takes urgent frames without a VLAN tag whole, and nothing of others.
pub(super) fn urgent_alone() -> Vec<u64> {
    /// Offset of `vlan_present` in the program's context: the kernel has taken the tag out of the frame.
    const IS_TAGGED: i16 = 20;
    let mut code = Assembler::default();
    code.with(MOVE, R6, R1);
    code.context(R0, IS_TAGGED);
    code.jump(IF_OTHER, R0, 0, Place::Plain);
    code.by(MOVE, R7, 12);
    code.read(Size::Half, 0);
    code.jump(IF_EQUAL, R0, 0x8100, Place::Plain);
    urgent::select(&mut code);
    code.here(Place::Urgent);
    code.by(MOVE, R0, -1);
    code.give();
    code.here(Place::Plain);
    code.by(MOVE, R0, 0);
    code.give();
    code.finish()
}

fn by_flow(code: &mut Assembler, queues: u32, hash: Hash) {
    network_header(code);
    ends(code);
    code.go(Place::Both);
    code.here(Place::EndsOfSix);
    ends_of_six(code);
    code.here(Place::Both);
    if hash == Hash::Symmetric {
        sort(code);
    }
    choose(code, queues);
    code.here(Place::Other);
    code.by(MOVE, R0, 0);
    code.give();
}

/// The program that chooses one of `queues` after the other; `turns` is a map with one number of 64 bits, which it counts up.
pub(super) fn in_turn(queues: u32, turns: BorrowedFd<'_>) -> Vec<u64> {
    let mut code = Assembler::default();
    code.0.store_constant(Size::Word, R10, KEY, 0);
    code.0.look_up(turns, KEY, Place::Other);
    code.by(MOVE, R1, 1);
    code.0.fetch_add(R0, 0, R1);
    code.by(MODULO, R1, queues as i32);
    code.with(MOVE, R0, R1);
    code.give();
    code.here(Place::Other);
    code.by(MOVE, R0, 0);
    code.give();
    code.finish()
}

/// r7: start of the IPv4 or IPv6 header, after at most two VLAN tags.
fn network_header(code: &mut Assembler) {
    code.by(MOVE, R7, 12);
    for tag in [Place::FirstTag, Place::SecondTag] {
        code.read(Size::Half, 0);
        code.jump(IF_EQUAL, R0, 0x8100, tag);
        code.jump(IF_OTHER, R0, 0x88a8, Place::Network);
        code.here(tag);
        code.by(ADD, R7, 4);
    }
    code.read(Size::Half, 0);
    code.here(Place::Network);
    code.by(ADD, R7, 2);
    code.jump(IF_EQUAL, R0, 0x86dd, Place::EndsOfSix);
    code.jump(IF_OTHER, R0, 0x0800, Place::Other);
}

/// r8 and r9: protocol, address and port of source and destination.
fn ends(code: &mut Assembler) {
    code.read(Size::Octet, 0);
    code.jump(IF_BELOW, R0, 0x45, Place::Other);
    code.jump(IF_ABOVE, R0, 0x4f, Place::Other);
    code.by(AND, R0, 15);
    code.by(SHIFT_LEFT, R0, 2);
    code.keep(HEADER_LEN, R0);
    for (register, offset) in [(R8, 12), (R9, 16)] {
        code.read(Size::Word, offset);
        code.by(SHIFT_LEFT, R0, 16);
        code.with(MOVE, register, R0);
    }
    code.read(Size::Octet, 9);
    code.keep(PROTOCOL, R0);
    code.jump(IF_EQUAL, R0, 6, Place::Ports);
    code.jump(IF_EQUAL, R0, 17, Place::Ports);
    code.jump(IF_OTHER, R0, 132, Place::Ends);
    code.here(Place::Ports);
    ports(code);
    code.here(Place::Ends);
    code.recall(R0, PROTOCOL);
    code.by(SHIFT_LEFT, R0, 48);
    code.with(OR, R8, R0);
    code.with(OR, R9, R0);
}

/// The ports, if the packet has them and is not a fragment.
fn ports(code: &mut Assembler) {
    code.read(Size::Half, 6);
    code.by(AND, R0, 0x3fff);
    code.jump(IF_OTHER, R0, 0, Place::Ends);
    code.recall(R1, HEADER_LEN);
    code.with(ADD, R7, R1);
    // `len` is the first word of the program's context.
    code.context(R2, 0);
    code.with(MOVE, R3, R7);
    code.by(ADD, R3, 4);
    code.jump_with(IF_ABOVE, R3, R2, Place::Ends);
    for (register, offset) in [(R8, 0), (R9, 2)] {
        code.read(Size::Half, offset);
        code.with(OR, register, R0);
    }
}

/// r8 and r9: both ends of the flow of an IPv6 packet, each in 64 bits. A load overwrites r0 to r5.
fn ends_of_six(code: &mut Assembler) {
    code.read(Size::Octet, 0);
    code.by(SHIFT_RIGHT, R0, 4);
    code.jump(IF_OTHER, R0, 6, Place::Other);
    for (register, offset) in [(R8, 8), (R9, 24)] {
        code.read_long(offset);
        code.with(MOVE, register, R0);
        code.multiply(register, MULTIPLIERS[2]);
        code.fold(register, 32);
        code.read_long(offset + 8);
        code.with(XOR, register, R0);
    }
    code.read(Size::Octet, 6);
    code.with(MOVE, R3, R0);
    code.by(SHIFT_LEFT, R0, 16);
    [PROTOCOL, FROM, TO].into_iter().for_each(|place| code.keep(place, R0));
    code.jump(IF_EQUAL, R3, 6, Place::PortsOfSix);
    code.jump(IF_EQUAL, R3, 17, Place::PortsOfSix);
    code.jump(IF_OTHER, R3, 132, Place::WholeSix);
    code.here(Place::PortsOfSix);
    ports_of_six(code);
    code.here(Place::WholeSix);
    for (register, place) in [(R8, FROM), (R9, TO)] {
        code.recall(R0, place);
        code.multiply(R0, MULTIPLIERS[0]);
        code.with(XOR, register, R0);
    }
}

/// The ports, if the frame has them.
fn ports_of_six(code: &mut Assembler) {
    const HEADER: i32 = 40;
    code.context(R2, 0);
    code.with(MOVE, R3, R7);
    code.by(ADD, R3, HEADER + 4);
    code.jump_with(IF_ABOVE, R3, R2, Place::WholeSix);
    for (place, offset) in [(FROM, HEADER), (TO, HEADER + 2)] {
        code.read(Size::Half, offset);
        code.recall(R1, PROTOCOL);
        code.with(OR, R0, R1);
        code.keep(place, R0);
    }
}

fn sort(code: &mut Assembler) {
    code.jump_with(IF_AT_MOST, R8, R9, Place::Sorted);
    code.with(MOVE, R0, R8);
    code.with(MOVE, R8, R9);
    code.with(MOVE, R9, R0);
    code.here(Place::Sorted);
}

/// Multiplies the hash, as a fraction of 2^32, by the number of queues.
fn choose(code: &mut Assembler, queues: u32) {
    let [first, both, last] = MULTIPLIERS;
    code.multiply(R8, first);
    code.fold(R8, 32);
    code.with(XOR, R8, R9);
    code.multiply(R8, both);
    code.fold(R8, 29);
    code.multiply(R8, last);
    code.by(SHIFT_RIGHT, R8, 32);
    code.by(MUL, R8, queues as i32);
    code.by(SHIFT_RIGHT, R8, 32);
    code.with(MOVE, R0, R8);
    code.give();
}

#[cfg(test)]
mod tests;
