//! The program that counts drops. It reads kernel structures, which the kernel permits only to programs under a GPL-compatible
//! licence: **this program may also be used under the MIT licence or the GNU GPL 2**, and declares so ([`LICENCE`]).
//!
//! Registers: R6 the packet, R7 the drop reason, R8 the last pointer read.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use bpf::{Assembler, Compare, Operation, R0, R1, R2, R3, R6, R7, R8, R10, Size};

/// Licence declared to the kernel, as one of the kernel's licence strings.
pub(super) const LICENCE: &CStr = c"Dual MIT/GPL";

/// Number of counters per interface: one for each reason; the last one counts all other reasons.
pub(super) const REASONS: u32 = 256;
/// Octets of the counters of an interface.
pub(super) const COUNTERS: u32 = 8 * REASONS;

/// Offsets of the structure members that are read, in octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offsets {
    /// `dev` in `struct sk_buff`.
    pub(super) device: u32,
    /// `ifindex` and `nd_net.net` in `struct net_device`.
    pub(super) index: u32,
    pub(super) namespace: u32,
    /// `ns.inum` in `struct net`.
    pub(super) inode: u32,
}

/// Maps of the program: slots of interfaces by inode and index, and counters by slot.
pub(super) struct Maps<'a> {
    pub(super) slots: BorrowedFd<'a>,
    pub(super) counters: BorrowedFd<'a>,
}

#[derive(Clone, Copy, PartialEq)]
enum Label {
    Known,
    Leave,
}

/// Helper function number of `linux/bpf.h`.
const READ_KERNEL: i32 = 113;
/// Offsets of the packet and of the reason in the tracepoint's arguments.
const WHICH: i16 = 0;
const REASON: i16 = 16;
// Stack layout: an interface as key (index low, inode high); a slot as key; a pointer.
const INDEX: i16 = -8;
const INODE: i16 = -4;
const NUMBER: i16 = -16;
const POINTER: i16 = -24;

pub(super) fn assemble(offsets: &Offsets, maps: &Maps<'_>) -> Vec<u64> {
    let mut code = Assembler::default();
    code.load(Size::Double, R6, R1, WHICH);
    code.load(Size::Double, R7, R1, REASON);
    // All of the key must be initialized: the verifier rejects a look-up of uninitialized stack.
    code.store_constant(Size::Double, R10, INDEX, 0);
    follow(&mut code, R6, offsets.device);
    read(&mut code, (INDEX, 4), R8, offsets.index);
    follow(&mut code, R8, offsets.namespace);
    read(&mut code, (INODE, 4), R8, offsets.inode);
    code.look_up(maps.slots, INDEX, Label::Leave);
    code.load(Size::Double, R1, R0, 0);
    code.store(Size::Word, R10, NUMBER, R1);
    code.look_up(maps.counters, NUMBER, Label::Leave);
    code.jump_if(Compare::Below, R7, REASONS.cast_signed(), Label::Known);
    code.mov_const(R7, REASONS.cast_signed() - 1);
    code.label(Label::Known);
    code.alu_const(Operation::ShiftLeft, R7, 3);
    code.alu_reg(Operation::Add, R0, R7);
    code.mov_const(R1, 1);
    code.atomic_add(R0, 0, R1);
    code.label(Label::Leave);
    code.mov_const(R0, 0);
    code.exit();
    code.finish()
}

/// R8 = the pointer at `base` + `offset`. A null pointer ends the program.
fn follow(code: &mut Assembler<Label>, base: u8, offset: u32) {
    read(code, (POINTER, 8), base, offset);
    code.load(Size::Double, R8, R10, POINTER);
    code.jump_if(Compare::Equal, R8, 0, Label::Leave);
}

/// Copies `len` octets of kernel memory at `base` + `offset` to this stack offset. A fault ends the program.
fn read(code: &mut Assembler<Label>, (to, len): (i16, i32), base: u8, offset: u32) {
    code.address(R1, R10, to.into());
    code.mov_const(R2, len);
    code.address(R3, base, offset.cast_signed());
    code.call(READ_KERNEL);
    code.jump_if(Compare::Other, R0, 0, Label::Leave);
}
