//! eBPF programs of the tracer, assembled from the instructions of `linux/bpf.h`.
//!
//! r6 points to this core's account, r7 holds a time, r8 is scratch. An account consists of 64-bit words:
//!
//! ```text
//!   core:   | softirq began | irq began | irq within this softirq | irq | softirq |        thread: | irq | softirq |
//! ```

use std::os::fd::{AsRawFd, BorrowedFd};

/// Words of a core's account.
pub(super) const CORE_WORDS: usize = 5;
const SOFTIRQ_BEGAN: usize = 0;
const IRQ_BEGAN: usize = 1;
const IRQ_WITHIN: usize = 2;
/// Word with the time in hard interrupt handlers.
pub(super) const IRQ: usize = 3;
/// Word with the time in softirqs.
pub(super) const SOFTIRQ: usize = 4;

/// Maps with the accounts of cores and threads.
pub(super) struct Maps<'a> {
    pub(super) core: BorrowedFd<'a>,
    pub(super) threads: BorrowedFd<'a>,
}

/// Event at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    SoftirqBegins,
    SoftirqEnds,
    InterruptBegins,
    InterruptEnds,
}

const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R6: u8 = 6;
const R7: u8 = 7;
const R8: u8 = 8;
/// Frame pointer: end of the stack.
const R10: u8 = 10;

const LOAD_WIDE: u8 = 0x18;
/// Load of a word of memory into a register, and store of a register into memory.
const LOAD: u8 = 0x79;
const STORE: u8 = 0x7b;
const STORE_HALF: u8 = 0x63;
const STORE_HALF_CONSTANT: u8 = 0x62;
const STORE_CONSTANT: u8 = 0x7a;
const ADD: u8 = 0x0f;
const ADD_CONSTANT: u8 = 0x07;
const SUBTRACT: u8 = 0x1f;
const MOVE: u8 = 0xbf;
const MOVE_CONSTANT: u8 = 0xb7;
const IF_ZERO: u8 = 0x15;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP: u8 = 1;

const LOOK_UP: i32 = 1;
const TIME: i32 = 5;
const WHO: i32 = 14;

/// Offset of a map key on the stack.
const KEY: i16 = -8;

#[derive(Default)]
struct Assembler {
    code: Vec<u64>,
    /// Jumps to the program's end, to be patched.
    leave: Vec<usize>,
}

impl Assembler {
    fn put(&mut self, opcode: u8, registers: (u8, u8), offset: i16, constant: i32) {
        self.code.push(bpf::instruction(opcode, registers, offset, constant));
    }

    fn with(&mut self, operation: u8, to: u8, from: u8) {
        self.put(operation, (to, from), 0, 0);
    }

    fn call(&mut self, what: i32) {
        self.put(CALL, (0, 0), 0, what);
    }

    fn leave_if_zero(&mut self, register: u8) {
        self.leave.push(self.code.len());
        self.put(IF_ZERO, (register, 0), 0, 0);
    }

    /// `register` = word `word` of the account at `base`.
    fn get(&mut self, register: u8, base: u8, word: usize) {
        self.put(LOAD, (register, base), 8 * word as i16, 0);
    }

    fn set(&mut self, base: u8, word: usize, register: u8) {
        self.put(STORE, (base, register), 8 * word as i16, 0);
    }

    fn clear(&mut self, base: u8, word: usize) {
        self.put(STORE_CONSTANT, (base, 0), 8 * word as i16, 0);
    }

    /// Word `word` += r7. Clobbers r8.
    fn add(&mut self, base: u8, word: usize) {
        self.get(R8, base, word);
        self.with(ADD, R8, R7);
        self.set(base, word, R8);
    }

    /// r0 = pointer to the map's value for the key on the stack; leaves the program if there is none.
    fn look_up(&mut self, map: BorrowedFd<'_>) {
        self.put(LOAD_WIDE, (R1, PSEUDO_MAP), 0, map.as_raw_fd());
        self.put(0, (0, 0), 0, 0);
        self.with(MOVE, R2, R10);
        self.put(ADD_CONSTANT, (R2, 0), 0, KEY.into());
        self.call(LOOK_UP);
        self.leave_if_zero(R0);
    }

    /// r6 = this core's account.
    fn core(&mut self, maps: &Maps<'_>) {
        self.put(STORE_HALF_CONSTANT, (R10, 0), KEY, 0);
        self.look_up(maps.core);
        self.with(MOVE, R6, R0);
    }

    /// r7 = time since the moment stored in word `word`, which is cleared; leaves the program if it was
    /// clear.
    fn since(&mut self, word: usize) {
        self.get(R8, R6, word);
        self.leave_if_zero(R8);
        self.call(TIME);
        self.with(MOVE, R7, R0);
        self.with(SUBTRACT, R7, R8);
        self.clear(R6, word);
    }

    /// Charges r7 to the interrupted thread. Thread number 0 is the idle task, which is not charged.
    fn charge(&mut self, maps: &Maps<'_>, word: usize) {
        self.call(WHO);
        self.leave_if_zero(R0);
        self.put(STORE_HALF, (R10, R0), KEY, 0);
        self.look_up(maps.threads);
        self.add(R0, word);
    }

    fn finish(mut self) -> Vec<u64> {
        let end = self.code.len();
        for at in &self.leave {
            self.code[*at] |= ((end - at - 1) as u64) << 16;
        }
        self.put(MOVE_CONSTANT, (R0, 0), 0, 0);
        self.put(EXIT, (0, 0), 0, 0);
        self.code
    }
}

/// Assembles the program for an event.
pub(super) fn assemble(end: End, maps: &Maps<'_>) -> Vec<u64> {
    let mut code = Assembler::default();
    code.core(maps);
    match end {
        End::SoftirqBegins => {
            code.call(TIME);
            code.set(R6, SOFTIRQ_BEGAN, R0);
            code.clear(R6, IRQ_WITHIN);
        }
        End::SoftirqEnds => {
            code.since(SOFTIRQ_BEGAN);
            code.get(R8, R6, IRQ_WITHIN);
            code.with(SUBTRACT, R7, R8);
            code.add(R6, SOFTIRQ);
            code.charge(maps, 1);
        }
        End::InterruptBegins => {
            code.call(TIME);
            code.set(R6, IRQ_BEGAN, R0);
        }
        End::InterruptEnds => {
            code.since(IRQ_BEGAN);
            code.add(R6, IRQ);
            // Outside of a softirq this word is meaningless; the next softirq clears it.
            code.add(R6, IRQ_WITHIN);
            code.charge(maps, 0);
        }
    }
    code.finish()
}
