//! Assembler for BPF programs: instructions of `linux/bpf.h` by name, and jumps to named labels.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::instruction;

/// Return value of a helper function and of the program; expected value of [`Assembler::compare_exchange`].
pub const R0: u8 = 0;
/// First argument of a helper function, and of the program. A call clobbers R1 to R5.
pub const R1: u8 = 1;
/// Second argument.
pub const R2: u8 = 2;
/// Third argument.
pub const R3: u8 = 3;
/// Fourth argument.
pub const R4: u8 = 4;
/// Fifth argument.
pub const R5: u8 = 5;
/// Preserved across calls, like R7, R8 and R9.
pub const R6: u8 = 6;
/// Preserved across calls.
pub const R7: u8 = 7;
/// Preserved across calls.
pub const R8: u8 = 8;
/// Preserved across calls.
pub const R9: u8 = 9;
/// Frame pointer: the end of the stack, which is the 512 octets below.
pub const R10: u8 = 10;

/// Operation on a 64-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Addition.
    Add = 0x07,
    /// Subtraction.
    Subtract = 0x17,
    /// Multiplication.
    Multiply = 0x27,
    /// Remainder of a division.
    Modulo = 0x97,
    /// Bitwise AND.
    And = 0x57,
    /// Bitwise OR.
    Or = 0x47,
    /// Bitwise exclusive OR.
    Xor = 0xa7,
    /// Logical shift to the left.
    ShiftLeft = 0x67,
    /// Logical shift to the right.
    ShiftRight = 0x77,
    /// Assignment.
    Set = 0xb7,
}

/// Unsigned comparison of a 64-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Equal.
    Equal = 0x15,
    /// Greater.
    Above = 0x25,
    /// Greater or equal.
    AtLeast = 0x35,
    /// Not equal.
    Other = 0x55,
    /// Less.
    Below = 0xa5,
    /// Less or equal.
    AtMost = 0xb5,
}

/// Width of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// 8 bits.
    Octet = 0x10,
    /// 16 bits.
    Half = 0x08,
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

/// Flag: the second operand is a register, not the constant.
const BY_REGISTER: u8 = 0x08;
const LOAD: u8 = 0x61;
const LOAD_PACKET: u8 = 0x40;
const STORE: u8 = 0x63;
const STORE_CONSTANT: u8 = 0x62;
/// Atomic operation on 64 bits.
const ATOMIC: u8 = 0xdb;
const ATOMIC_ADD: i32 = 0x00;
const ATOMIC_FETCH_ADD: i32 = 0x01;
const ATOMIC_COMPARE_EXCHANGE: i32 = 0xf1;
const LOAD_WIDE: u8 = 0x18;
const PSEUDO_MAP: u8 = 1;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Number of the kernel's function that looks a key up in a map.
const LOOK_UP: i32 = 1;

/// A program under construction, with labels of type `P`.
#[derive(Clone, Debug)]
pub struct Assembler<P> {
    code: Vec<u64>,
    labels: Vec<(P, usize)>,
    jumps: Vec<(usize, P)>,
}

impl<P> Default for Assembler<P> {
    fn default() -> Self {
        Self { code: Vec::new(), labels: Vec::new(), jumps: Vec::new() }
    }
}

impl<P: Copy + PartialEq> Assembler<P> {
    /// `to` = `to` operation `constant`.
    pub fn alu_const(&mut self, operation: Operation, to: u8, constant: i32) {
        self.put(operation as u8, (to, 0), 0, constant);
    }

    /// `to` = `to` operation `from`.
    pub fn alu_reg(&mut self, operation: Operation, to: u8, from: u8) {
        self.put(operation as u8 | BY_REGISTER, (to, from), 0, 0);
    }

    /// `to` = `constant`.
    pub fn mov_const(&mut self, to: u8, constant: i32) {
        self.alu_const(Operation::Set, to, constant);
    }

    /// `to` = `constant` of 64 bits.
    pub fn mov_wide(&mut self, to: u8, constant: u64) {
        self.put(LOAD_WIDE, (to, 0), 0, constant as i32);
        self.put(0, (0, 0), 0, (constant >> 32) as i32);
    }

    /// `to` = `from`.
    pub fn mov(&mut self, to: u8, from: u8) {
        self.alu_reg(Operation::Set, to, from);
    }

    /// `to` = memory at `base` + `offset`.
    pub fn load(&mut self, size: Size, to: u8, base: u8, offset: i16) {
        self.put(LOAD | size as u8, (to, base), offset, 0);
    }

    /// R0 = up to 32 bits of the packet at `base` + `offset`, which are in network byte order there. The program's context must be in R6;
    /// R1 to R5 are clobbered. Beyond the end of the packet this ends the program with 0.
    pub fn load_packet(&mut self, size: Size, base: u8, offset: i32) {
        self.put(LOAD_PACKET | size as u8, (0, base), 0, offset);
    }

    /// Memory at `base` + `offset` = `from`.
    pub fn store(&mut self, size: Size, base: u8, offset: i16, from: u8) {
        self.put(STORE | size as u8, (base, from), offset, 0);
    }

    /// Memory at `base` + `offset` = `constant`.
    pub fn store_constant(&mut self, size: Size, base: u8, offset: i16, constant: i32) {
        self.put(STORE_CONSTANT | size as u8, (base, 0), offset, constant);
    }

    /// Adds `from` to the 64 bits at `base` + `offset`, atomically.
    pub fn atomic_add(&mut self, base: u8, offset: i16, from: u8) {
        self.put(ATOMIC, (base, from), offset, ATOMIC_ADD);
    }

    /// Adds `register` to the 64 bits at `base` + `offset`, atomically; `register` = the former value.
    pub fn fetch_add(&mut self, base: u8, offset: i16, register: u8) {
        self.put(ATOMIC, (base, register), offset, ATOMIC_FETCH_ADD);
    }

    /// Compare and swap of the 64 bits at `base` + `offset`: if they equal R0 they become `new`; R0 = the former value.
    pub fn compare_exchange(&mut self, base: u8, offset: i16, new: u8) {
        self.put(ATOMIC, (base, new), offset, ATOMIC_COMPARE_EXCHANGE);
    }

    /// `to` = reference to a map, as helper functions take it.
    pub fn map(&mut self, to: u8, map: BorrowedFd<'_>) {
        self.put(LOAD_WIDE, (to, PSEUDO_MAP), 0, map.as_raw_fd());
        self.put(0, (0, 0), 0, 0);
    }

    /// `to` = `base` + `offset`.
    pub fn address(&mut self, to: u8, base: u8, offset: i32) {
        self.mov(to, base);
        self.alu_const(Operation::Add, to, offset);
    }

    /// Calls a helper function, by its number in `linux/bpf.h`: R0 = function(R1 to R5).
    pub fn call(&mut self, function: i32) {
        self.put(CALL, (0, 0), 0, function);
    }

    /// R0 = address of the map's entry for the key at this stack offset. Jumps to a label if there is none.
    pub fn look_up(&mut self, map: BorrowedFd<'_>, key: i16, none: P) {
        self.map(R1, map);
        self.address(R2, R10, key.into());
        self.call(LOOK_UP);
        self.jump_if(Compare::Equal, R0, 0, none);
    }

    /// Jumps to a label.
    pub fn jump(&mut self, place: P) {
        self.jumps.push((self.code.len(), place));
        self.put(JUMP, (0, 0), 0, 0);
    }

    /// Jumps to a label if the comparison of `register` with `constant` holds.
    pub fn jump_if(&mut self, compare: Compare, register: u8, constant: i32, place: P) {
        self.jumps.push((self.code.len(), place));
        self.put(compare as u8, (register, 0), 0, constant);
    }

    /// Jumps to a label if the comparison of `register` with `other` holds.
    pub fn jump_if_with(&mut self, compare: Compare, register: u8, other: u8, place: P) {
        self.jumps.push((self.code.len(), place));
        self.put(compare as u8 | BY_REGISTER, (register, other), 0, 0);
    }

    /// Defines a label at the next instruction.
    pub fn label(&mut self, place: P) {
        self.labels.push((place, self.code.len()));
    }

    /// Ends the program; its result is R0.
    pub fn exit(&mut self) {
        self.put(EXIT, (0, 0), 0, 0);
    }

    /// Returns the code, with the offsets of all jumps filled in. A jump to an undefined label jumps to itself, so the verifier
    /// rejects the program.
    pub fn finish(mut self) -> Vec<u64> {
        for (at, place) in self.jumps {
            let target = self.labels.iter().find(|(known, _)| *known == place).map_or(at, |found| found.1);
            let way = target as isize - at as isize - 1;
            if let Some(word) = self.code.get_mut(at) {
                *word |= u64::from(way as u16) << 16;
            }
        }
        self.code
    }

    fn put(&mut self, opcode: u8, registers: (u8, u8), offset: i16, constant: i32) {
        self.code.push(instruction(opcode, registers, offset, constant));
    }
}
