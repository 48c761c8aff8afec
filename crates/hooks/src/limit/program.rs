//! The token bucket, instruction by instruction. It is the algorithm of `port::limit`: virtual scheduling (ITU-T I.371, GCRA),
//! with one word of state that holds the time at which the next packet is due.
//!
//! Registers: R6 the bucket, R7 the interval between two packets, R8 the present time, R9 the latest due time with which a packet
//! may enter now.

use bpf::{Assembler, Compare, Operation, R0, R1, R2, R3, R5, R6, R7, R8, R9, R10, Size};

use super::Maps;

/// Words of a bucket, in units of 1/64 ns: interval between two packets (0: no limit), depth, time at which the next packet is
/// due.
pub(super) const INTERVAL: i16 = 0;
const DEPTH: i16 = 8;
const DUE: i16 = 16;
/// Octets of a bucket.
pub(super) const BUCKET: u32 = 24;
/// Words of a NIC's counters (arrived, passed, dropped), and their octets.
const CAME: i16 = 0;
const LET_IN: i16 = 8;
const LOST: i16 = 16;
pub(super) const COUNTERS: u32 = 24;

/// Number of compare-and-swap attempts before a packet is dropped. Each failed attempt means that another CPU has admitted a
/// packet.
const ATTEMPTS: i32 = 8;
/// Stack offset of the map key.
const KEY: i16 = -4;

/// Helper function number of `linux/bpf.h`.
const TIME: i32 = 5;
/// Results of the program: continue with the next program (`TCX_NEXT`), or drop the packet (`TCX_DROP`).
pub(super) const NEXT: i32 = -1;
pub(super) const DROP: i32 = 2;

#[derive(Clone, Copy, PartialEq)]
enum Label {
    Again,
    Early,
    LetIn,
    Lost,
    Next,
    Drop,
}

/// Assembles the program for packets that arrive at this NIC.
pub(super) fn assemble(nic: u32, maps: &Maps<'_>) -> Vec<u64> {
    let mut code = Assembler::default();
    look_up(&mut code, 0, maps.bucket, Label::Next);
    code.mov(R6, R0);
    code.load(Size::Double, R7, R6, INTERVAL);
    code.jump_if(Compare::Equal, R7, 0, Label::Next);
    code.call(TIME);
    // Nanoseconds to units of 1/64 ns.
    code.alu_const(Operation::ShiftLeft, R0, super::SHIFT);
    code.mov(R8, R0);
    code.load(Size::Double, R9, R6, DEPTH);
    code.alu_reg(Operation::Add, R9, R8);
    code.alu_reg(Operation::Subtract, R9, R7);
    code.mov_const(R5, ATTEMPTS);
    code.label(Label::Again);
    enter(&mut code);
    code.alu_const(Operation::Subtract, R5, 1);
    code.jump_if(Compare::Other, R5, 0, Label::Again);
    code.label(Label::Lost);
    count(&mut code, nic, maps, (LOST, Label::Drop));
    code.label(Label::Drop);
    code.mov_const(R0, DROP);
    code.exit();
    code.label(Label::LetIn);
    count(&mut code, nic, maps, (LET_IN, Label::Next));
    code.label(Label::Next);
    code.mov_const(R0, NEXT);
    code.exit();
    code.finish()
}

/// Advances the due time by one interval with a compare-and-swap. Jumps to `Lost` if the packet would be too early, and falls
/// through if another CPU was faster.
fn enter(code: &mut Assembler<Label>) {
    code.load(Size::Double, R0, R6, DUE);
    code.mov(R2, R0);
    code.jump_if_with(Compare::AtLeast, R2, R8, Label::Early);
    code.mov(R2, R8);
    code.label(Label::Early);
    code.jump_if_with(Compare::Above, R2, R9, Label::Lost);
    code.alu_reg(Operation::Add, R2, R7);
    code.mov(R3, R0);
    code.compare_exchange(R6, DUE, R2);
    code.jump_if_with(Compare::Equal, R0, R3, Label::LetIn);
}

/// Counts one arrival, and one packet in `word`.
fn count(code: &mut Assembler<Label>, nic: u32, maps: &Maps<'_>, (word, none): (i16, Label)) {
    look_up(code, nic, maps.counters, none);
    for word in [CAME, word] {
        // Plain additions suffice: each CPU has its own counters.
        code.load(Size::Double, R1, R0, word);
        code.alu_const(Operation::Add, R1, 1);
        code.store(Size::Double, R0, word, R1);
    }
}

/// R0 = the map entry of this number. If there is none, jumps to `none`.
fn look_up(code: &mut Assembler<Label>, key: u32, map: std::os::fd::BorrowedFd<'_>, none: Label) {
    code.store_constant(Size::Word, R10, KEY, key.cast_signed());
    code.look_up(map, KEY, none);
}
