//! Programs that trace a packet by the address of its `struct sk_buff`. The kernel keeps this structure from the interface at
//! which the packet arrives to the interface by which it leaves, or until it is freed.
//!
//! ```text
//!   tcx ingress  at the traced NIC: if another packet is wanted and this one matches, writes a record, and its address to `followed`
//!   tcx egress   at each NIC:       the packet leaves
//!   kfree_skb                       the packet is dropped, with a reason
//!   consume_skb                     the packet is freed without a drop: a process received it, or a reply was sent instead
//! ```
//!
//! Registers: R6 the packet, R7 the detail of its fate, R8 its number, R9 its record. Every packet is passed on.

use std::os::fd::BorrowedFd;

use bpf::{Assembler, Compare, Operation, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Size};

use super::record::{
    ARRIVED, DETAIL, ENDED, HEAD, HEAD_LEN, LEN, NIC, NUMBER, ROOM, STATE, TAIL, TAIL_LEN, state,
};

/// Layout of the parameters: number of wanted packets, and the filter. Addresses and their masks have four words each.
pub(super) mod orders {
    pub(in super::super) const WANTED: i16 = 0;
    pub(in super::super) const PROTOCOL: i16 = 8;
    pub(in super::super) const PROTOCOL_MASK: i16 = 12;
    pub(in super::super) const PORT: i16 = 16;
    pub(in super::super) const IS_FILTERED: i16 = 20;
    pub(in super::super) const ADMITS_IPV4: i16 = 24;
    pub(in super::super) const ADMITS_IPV6: i16 = 28;
    pub(in super::super) const SOURCE: i16 = 32;
    pub(in super::super) const SOURCE_MASK: i16 = 48;
    pub(in super::super) const DESTINATION: i16 = 64;
    pub(in super::super) const DESTINATION_MASK: i16 = 80;
    pub(in super::super) const LEN: u32 = 96;
}

/// Layout of the counts: packets that were traced, not examined, not matched.
pub(super) mod tally {
    pub(in super::super) const TAKEN: i16 = 0;
    pub(in super::super) const PASSED_BY: i16 = 8;
    pub(in super::super) const UNFIT: i16 = 16;
    pub(in super::super) const LEN: u32 = 24;
}

/// Maps that the programs of a trace share.
pub(super) struct Maps<'a> {
    pub(super) orders: BorrowedFd<'a>,
    pub(super) tally: BorrowedFd<'a>,
    pub(super) records: BorrowedFd<'a>,
    pub(super) followed: BorrowedFd<'a>,
}

/// Hook at which a packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// It arrives at the traced NIC, which has this number.
    In(u32),
    /// It leaves by the NIC of this number.
    Out(u32),
    /// The kernel drops it.
    Dropped,
    /// The kernel frees it without a drop.
    Consumed,
}

#[derive(Clone, Copy, PartialEq)]
enum Label {
    Take,
    Six,
    Ports,
    HasPorts,
    Whole,
    Unfit,
    PassBy,
    Leave,
}

// Helper function numbers of `linux/bpf.h`.
const UPDATE: i32 = 2;
const DELETE: i32 = 3;
const TIME: i32 = 5;
const LOAD_OCTETS: i32 = 26;
/// Offsets of the length and the protocol in `struct __sk_buff`.
const PACKET_LEN: i16 = 0;
const PACKET_PROTOCOL: i16 = 16;
/// Offsets of the packet and, for a drop, the reason in the tracepoint's arguments.
const WHICH: i16 = 0;
const REASON: i16 = 16;
/// Result: continue with the next program (`TCX_NEXT`).
const NEXT: i32 = -1;

/// Octets of an Ethernet header.
const ETHERNET: i32 = 14;
/// Values in network byte order, as read from a packet in native byte order.
const IS_IPV4: i32 = 0x0800_u16.to_be() as i32;
const IS_IPV6: i32 = 0x86dd_u16.to_be() as i32;
const FURTHER_FRAGMENT: i32 = 0x1fff_u16.to_be() as i32;
const TCP: i32 = 6;
const UDP: i32 = 17;

// Stack layout: a record number as key; the address of a packet as key; its number; ports; the IP header, placed so that its addresses
// are aligned.
const KEY: i16 = -8;
const PACKET: i16 = -16;
const VALUE: i16 = -24;
const PORTS: i16 = -32;
const HEADER: i16 = -72;

/// The header of a family, without options: what admits it, its length, and the offsets of what a filter selects by.
struct Family {
    admitted: i16,
    len: i32,
    /// Of the source and of the destination.
    addresses: [i16; 2],
    /// Words of an address.
    words: i16,
    protocol: i16,
}

const FOUR: Family =
    Family { admitted: orders::ADMITS_IPV4, len: 20, addresses: [12, 16], words: 1, protocol: 9 };
const SIX: Family =
    Family { admitted: orders::ADMITS_IPV6, len: 40, addresses: [8, 24], words: 4, protocol: 6 };

/// Assembles the program of a hook.
pub(super) fn assemble(point: Point, maps: &Maps<'_>) -> Vec<u64> {
    let mut code = Assembler::default();
    let answer = match point {
        Point::In(nic) => {
            code.mov(R6, R1);
            arrive(&mut code, nic, maps);
            NEXT
        }
        Point::Out(nic) => {
            code.mov(R6, R1);
            code.mov_const(R7, nic.cast_signed());
            end(&mut code, maps, state::LEFT);
            NEXT
        }
        Point::Dropped => {
            code.load(Size::Double, R6, R1, WHICH);
            code.load(Size::Double, R7, R1, REASON);
            end(&mut code, maps, state::DROPPED);
            0
        }
        Point::Consumed => {
            code.load(Size::Double, R6, R1, WHICH);
            code.mov_const(R7, 0);
            end(&mut code, maps, state::CONSUMED);
            0
        }
    };
    code.label(Label::Leave);
    code.mov_const(R0, answer);
    code.exit();
    code.finish()
}

/// Starts to trace a packet, if it is wanted. R7 is the tally; R9 the parameters, until there is a record.
fn arrive(code: &mut Assembler<Label>, nic: u32, maps: &Maps<'_>) {
    look_up(code, 0, maps.tally);
    code.mov(R7, R0);
    look_up(code, 0, maps.orders);
    code.mov(R9, R0);
    is_wanted(code);
    filter(code);
    code.label(Label::Take);
    take(code);
    record(code, maps);
    note(code, nic);
    // followed[packet] = number
    code.store(Size::Double, R10, PACKET, R6);
    code.store(Size::Double, R10, VALUE, R8);
    code.map(R1, maps.followed);
    code.address(R2, R10, PACKET.into());
    code.address(R3, R10, VALUE.into());
    code.mov_const(R4, 0);
    code.call(UPDATE);
    code.jump(Label::Leave);
    for (place, counter) in [(Label::PassBy, tally::PASSED_BY), (Label::Unfit, tally::UNFIT)] {
        code.label(place);
        code.mov_const(R1, 1);
        code.atomic_add(R7, counter, R1);
        code.jump(Label::Leave);
    }
}

fn is_wanted(code: &mut Assembler<Label>) {
    code.load(Size::Double, R1, R7, tally::TAKEN);
    code.load(Size::Double, R2, R9, orders::WANTED);
    code.jump_if_with(Compare::AtLeast, R1, R2, Label::PassBy);
    code.load(Size::Word, R1, R6, PACKET_LEN);
    code.jump_if(Compare::Below, R1, ETHERNET, Label::PassBy);
    code.load(Size::Word, R1, R9, orders::IS_FILTERED);
    code.jump_if(Compare::Equal, R1, 0, Label::Take);
}

/// R8 = the next packet number. If another CPU takes it first, the packet is not examined, so each number belongs to one packet.
fn take(code: &mut Assembler<Label>) {
    code.load(Size::Double, R0, R7, tally::TAKEN);
    code.load(Size::Double, R1, R9, orders::WANTED);
    code.jump_if_with(Compare::AtLeast, R0, R1, Label::PassBy);
    code.mov(R8, R0);
    code.address(R1, R0, 1);
    code.compare_exchange(R7, tally::TAKEN, R1);
    code.jump_if_with(Compare::Other, R0, R8, Label::PassBy);
}

/// Jumps to `Take` for a matching packet, and to `Unfit` for others.
fn filter(code: &mut Assembler<Label>) {
    code.load(Size::Word, R1, R6, PACKET_PROTOCOL);
    code.jump_if(Compare::Equal, R1, IS_IPV6, Label::Six);
    code.jump_if(Compare::Other, R1, IS_IPV4, Label::Unfit);
    header(code, &FOUR);
    code.load(Size::Half, R1, R10, HEADER + 6);
    code.alu_const(Operation::And, R1, FURTHER_FRAGMENT);
    code.jump_if(Compare::Other, R1, 0, Label::Unfit);
    code.load(Size::Octet, R2, R10, HEADER);
    code.alu_const(Operation::And, R2, 15);
    code.alu_const(Operation::ShiftLeft, R2, 2);
    code.alu_const(Operation::Add, R2, ETHERNET);
    code.load(Size::Octet, R1, R10, HEADER + FOUR.protocol);
    code.jump(Label::Ports);
    code.label(Label::Six);
    header(code, &SIX);
    code.mov_const(R2, ETHERNET + SIX.len);
    code.load(Size::Octet, R1, R10, HEADER + SIX.protocol);
    code.label(Label::Ports);
    ports(code);
}

/// Compares the addresses and the protocol of a packet of this family. Jumps to `Take` if no port is wanted; else that is in R8.
fn header(code: &mut Assembler<Label>, family: &Family) {
    code.load(Size::Word, R1, R9, family.admitted);
    code.jump_if(Compare::Equal, R1, 0, Label::Unfit);
    code.mov_const(R2, ETHERNET);
    load_octets(code, HEADER, family.len);
    let wanted = [(orders::SOURCE, orders::SOURCE_MASK), (orders::DESTINATION, orders::DESTINATION_MASK)];
    for (at, (value, mask)) in family.addresses.into_iter().zip(wanted) {
        for word in (0..family.words).map(|word| 4 * word) {
            compare(code, (Size::Word, HEADER + at + word), (value + word, mask + word));
        }
    }
    let protocol = (Size::Octet, HEADER + family.protocol);
    compare(code, protocol, (orders::PROTOCOL, orders::PROTOCOL_MASK));
    code.load(Size::Word, R8, R9, orders::PORT);
    code.jump_if(Compare::Equal, R8, 0, Label::Take);
}

/// Compares what is at this stack offset, where the mask has bits, with the parameter.
fn compare(code: &mut Assembler<Label>, (size, at): (Size, i16), (wanted, mask): (i16, i16)) {
    code.load(size, R1, R10, at);
    code.load(Size::Word, R2, R9, mask);
    code.alu_reg(Operation::And, R1, R2);
    code.load(Size::Word, R2, R9, wanted);
    code.jump_if_with(Compare::Other, R1, R2, Label::Unfit);
}

/// Compares both ports of the packet, at offset R2 behind a header of protocol R1, with that in R8.
fn ports(code: &mut Assembler<Label>) {
    code.jump_if(Compare::Equal, R1, TCP, Label::HasPorts);
    code.jump_if(Compare::Other, R1, UDP, Label::Unfit);
    code.label(Label::HasPorts);
    load_octets(code, PORTS, 4);
    code.load(Size::Half, R1, R10, PORTS);
    code.jump_if_with(Compare::Equal, R1, R8, Label::Take);
    code.load(Size::Half, R1, R10, PORTS + 2);
    code.jump_if_with(Compare::Other, R1, R8, Label::Unfit);
}

/// Copies `len` octets of the packet, from offset R2, to this stack offset.
fn load_octets(code: &mut Assembler<Label>, to: i16, len: i32) {
    code.mov(R1, R6);
    code.address(R3, R10, to.into());
    code.mov_const(R4, len);
    code.call(LOAD_OCTETS);
    code.jump_if(Compare::Other, R0, 0, Label::Unfit);
}

/// R9 = the record of packet number R8.
fn record(code: &mut Assembler<Label>, maps: &Maps<'_>) {
    code.mov(R1, R8);
    code.alu_const(Operation::And, R1, ROOM.cast_signed() - 1);
    code.store(Size::Word, R10, KEY, R1);
    code.look_up(maps.records, KEY, Label::Leave);
    code.mov(R9, R0);
}

/// Writes the arrival of packet R8 to record R9. The state word is cleared first and set last, so a reader sees either the old
/// record or this one.
fn note(code: &mut Assembler<Label>, nic: u32) {
    code.store_constant(Size::Word, R9, STATE, state::NONE);
    code.store(Size::Word, R9, NUMBER, R8);
    code.store_constant(Size::Word, R9, NIC, nic.cast_signed());
    code.call(TIME);
    code.store(Size::Double, R9, ARRIVED, R0);
    for word in 0..TAIL_LEN / 8 {
        code.store_constant(Size::Double, R9, TAIL + 8 * word as i16, 0);
    }
    code.load(Size::Word, R4, R6, PACKET_LEN);
    code.store(Size::Word, R9, LEN, R4);
    code.jump_if(Compare::AtMost, R4, HEAD_LEN as i32, Label::Whole);
    code.mov_const(R4, HEAD_LEN as i32);
    code.label(Label::Whole);
    code.jump_if(Compare::Below, R4, ETHERNET, Label::PassBy);
    code.mov(R1, R6);
    code.mov_const(R2, 0);
    code.address(R3, R9, HEAD.into());
    code.call(LOAD_OCTETS);
    code.store_constant(Size::Word, R9, STATE, state::ARRIVED);
}

/// Records the fate of packet R6, if it is traced, with the detail in R7.
fn end(code: &mut Assembler<Label>, maps: &Maps<'_>, state: i32) {
    code.store(Size::Double, R10, PACKET, R6);
    code.look_up(maps.followed, PACKET, Label::Leave);
    code.load(Size::Double, R8, R0, 0);
    code.map(R1, maps.followed);
    code.address(R2, R10, PACKET.into());
    code.call(DELETE);
    record(code, maps);
    // The record may have been reused for another packet.
    code.load(Size::Word, R1, R9, NUMBER);
    code.alu_const(Operation::ShiftLeft, R8, 32);
    code.alu_const(Operation::ShiftRight, R8, 32);
    code.jump_if_with(Compare::Other, R1, R8, Label::Leave);
    code.call(TIME);
    code.store(Size::Double, R9, ENDED, R0);
    code.store(Size::Word, R9, DETAIL, R7);
    if state == state::LEFT {
        code.mov(R1, R6);
        code.mov_const(R2, 0);
        code.address(R3, R9, TAIL.into());
        code.mov_const(R4, TAIL_LEN as i32);
        code.call(LOAD_OCTETS);
    }
    code.store_constant(Size::Word, R9, STATE, state);
}

/// R0 = the map entry of this number.
fn look_up(code: &mut Assembler<Label>, key: i32, map: BorrowedFd<'_>) {
    code.store_constant(Size::Word, R10, KEY, key);
    code.look_up(map, KEY, Label::Leave);
}
