//! System calls that a running firmware may make: to ring a bell, to sleep, to wake, and to exit. Any other kills the
//! process (seccomp(2); the instructions are those of classic BPF).

use super::calls::{EXIT, EXIT_GROUP, FUTEX, FUTEX_WAIT, FUTEX_WAKE, WRITE};

/// `struct sock_filter`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    k: u32,
}

/// Loads a word of `struct seccomp_data`.
const LOAD: u16 = 0x20;
/// Compares for equality and jumps.
const EQUAL: u16 = 0x15;
/// Returns the verdict.
const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`: number, architecture, second argument (its low half).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const SECOND: u32 = 16 + 8;

const X86_64: u32 = 0xc000_003e;
const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;

const fn load(at: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, k: at }
}

const fn equal(k: u32, if_true: u8, if_false: u8) -> Instruction {
    Instruction { code: EQUAL, if_true, if_false, k }
}

const fn verdict(k: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, k }
}

/// The program. Jump offsets are the numbers of instructions skipped.
pub(super) static FILTER: [Instruction; 12] = [
    load(ARCHITECTURE),
    equal(X86_64, 0, 9),
    load(NUMBER),
    equal(WRITE as u32, 6, 0),
    equal(EXIT as u32, 5, 0),
    equal(EXIT_GROUP as u32, 4, 0),
    equal(FUTEX as u32, 0, 4),
    load(SECOND),
    equal(FUTEX_WAIT as u32, 1, 0),
    equal(FUTEX_WAKE as u32, 0, 1),
    verdict(ALLOW),
    verdict(KILL_PROCESS),
];
