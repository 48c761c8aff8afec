//! eBPF programs of the tracer, assembled from the instructions of `linux/bpf.h`.
//!
//! r6 points to this core's account, r7 holds a time, r8 is scratch. An account consists of 64-bit words:
//!
//! ```text
//!   core:   | softirq began | irq began | irq within this softirq | irq | softirq |        thread: | irq | softirq |
//! ```

use std::os::fd::BorrowedFd;

use bpf::{Assembler, Compare, Operation, R0, R6, R7, R8, R10, Size};

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

const TIME: i32 = 5;
const WHO: i32 = 14;

/// Offset of a map key on the stack.
const KEY: i16 = -8;

/// The only label: the end of a program.
#[derive(Clone, Copy, PartialEq)]
struct Leave;

type Code = Assembler<Leave>;

/// Offset of a word of an account.
const fn at(word: usize) -> i16 {
    8 * word as i16
}

/// Word `word` of the account at `base` += r7. Clobbers r8.
fn add(code: &mut Code, base: u8, word: usize) {
    code.load(Size::Double, R8, base, at(word));
    code.alu_reg(Operation::Add, R8, R7);
    code.store(Size::Double, base, at(word), R8);
}

/// r6 = this core's account.
fn core(code: &mut Code, maps: &Maps<'_>) {
    code.store_constant(Size::Word, R10, KEY, 0);
    code.look_up(maps.core, KEY, Leave);
    code.mov(R6, R0);
}

/// r7 = time since the moment stored in word `word`, which is cleared; leaves the program if it was clear.
fn since(code: &mut Code, word: usize) {
    code.load(Size::Double, R8, R6, at(word));
    code.jump_if(Compare::Equal, R8, 0, Leave);
    code.call(TIME);
    code.mov(R7, R0);
    code.alu_reg(Operation::Subtract, R7, R8);
    code.store_constant(Size::Double, R6, at(word), 0);
}

/// Charges r7 to the interrupted thread. Thread number 0 is the idle task, which is not charged.
fn charge(code: &mut Code, maps: &Maps<'_>, word: usize) {
    code.call(WHO);
    code.jump_if(Compare::Equal, R0, 0, Leave);
    code.store(Size::Word, R10, KEY, R0);
    code.look_up(maps.threads, KEY, Leave);
    add(code, R0, word);
}

/// Assembles the program for an event.
pub(super) fn assemble(end: End, maps: &Maps<'_>) -> Vec<u64> {
    let mut code = Code::default();
    core(&mut code, maps);
    match end {
        End::SoftirqBegins => {
            code.call(TIME);
            code.store(Size::Double, R6, at(SOFTIRQ_BEGAN), R0);
            code.store_constant(Size::Double, R6, at(IRQ_WITHIN), 0);
        }
        End::SoftirqEnds => {
            since(&mut code, SOFTIRQ_BEGAN);
            code.load(Size::Double, R8, R6, at(IRQ_WITHIN));
            code.alu_reg(Operation::Subtract, R7, R8);
            add(&mut code, R6, SOFTIRQ);
            charge(&mut code, maps, 1);
        }
        End::InterruptBegins => {
            code.call(TIME);
            code.store(Size::Double, R6, at(IRQ_BEGAN), R0);
        }
        End::InterruptEnds => {
            since(&mut code, IRQ_BEGAN);
            add(&mut code, R6, IRQ);
            // Outside of a softirq this word is meaningless; the next softirq clears it.
            add(&mut code, R6, IRQ_WITHIN);
            charge(&mut code, maps, 0);
        }
    }
    code.label(Leave);
    code.mov_const(R0, 0);
    code.exit();
    code.finish()
}

#[cfg(test)]
mod tests;
