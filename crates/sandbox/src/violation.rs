//! What happens when a thread asks for a call that its class does not list: the kernel sends SIGSYS instead of
//! carrying it out, one line is written, and the process ends by SIGSYS.
//!
//! All of it runs in a signal handler: no memory is allocated, no lock taken, and only write(2) is called.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use crate::class::Class;
use crate::names;

/// Octets of a thread's name that are shown.
const NAME: usize = 48;
/// Octets of the longest line.
const LINE: usize = 256;
/// A call that no kernel has and no class lists.
const NO_CALL: i64 = 0x3fff_ffff;
/// In `siginfo_t`: the signal is a filter's.
const SYS_SECCOMP: c_int = 1;
/// Where `siginfo_t` has the number of the call.
const CALL_OFFSET: usize = 24;

thread_local! {
    // Constants without a destructor: reading them in a signal handler is reading memory.
    static WHO: Cell<([u8; NAME], usize)> = const { Cell::new(([0; NAME], 0)) };
    static CLASS: Cell<&'static str> = const { Cell::new("") };
}

/// Whether the thread has entered a class itself; what it was started under does not count.
pub(crate) fn is_confined() -> bool {
    !CLASS.get().is_empty()
}

/// Notes the thread's name and class for its last line.
pub(crate) fn remember(class: Class) {
    let thread = std::thread::current();
    let short = short_name();
    // The kernel keeps 15 octets of a name, and of the first thread the only one that was chosen.
    let name = match thread.name() {
        Some(name) if name != "main" => name.as_bytes(),
        _ => until_zero(&short),
    };
    let mut kept = [0; NAME];
    let len = name.len().min(NAME);
    kept.iter_mut().zip(name).for_each(|(place, octet)| *place = *octet);
    WHO.set((kept, len));
    CLASS.set(class.name());
}

/// The name that the kernel has for the thread.
fn short_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 octets.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

fn until_zero(name: &[u8]) -> &[u8] {
    name.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// Makes SIGSYS write its line; for the whole process, once.
pub(crate) fn listen() -> Result<()> {
    static LISTENS: OnceLock<bool> = OnceLock::new();
    let listens = LISTENS.get_or_init(|| {
        // SAFETY: all octets zero is a valid `sigaction`; the handler keeps to what is safe in one; the structure
        // lives for the call, and nobody asks for the old one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = report;
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigfillset(&raw mut action.sa_mask);
            libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) == 0
        }
    });
    if *listens { Ok(()) } else { Err(anyhow!("cannot take SIGSYS, by which forbidden calls are told")) }
}

/// The handler.
extern "C" fn report(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let mut line = Line::new();
    line.push(b"ringroad: thread ");
    push_thread(&mut line);
    // SAFETY: the kernel hands the handler a valid `siginfo_t`.
    if unsafe { (*info).si_code } == SYS_SECCOMP {
        // SAFETY: of a signal by a filter, the kernel fills this place in; 128 octets are there.
        let call = unsafe { info.cast::<u8>().add(CALL_OFFSET).cast::<c_int>().read_unaligned() };
        push_call(&mut line, call, context.cast());
        line.push(b", which it may not; the process ends\n");
    } else {
        line.push(b" got SIGSYS from another process; this one ends\n");
    }
    line.write();
    // SIGSYS is blocked in its handler: one more forbidden call ends the process by SIGSYS, and cannot be outwitted.
    // SAFETY: there is no such call, with or without a filter.
    unsafe { libc::syscall(NO_CALL) };
    // Only a thread that is not confined comes here.
    // SAFETY: ends the process.
    unsafe { libc::_exit(128 + libc::SIGSYS) }
}

fn push_thread(line: &mut Line) {
    let class = CLASS.get();
    if class.is_empty() {
        // It is still being set up, under the filter of its maker; that one lets it ask its name.
        return line.push(until_zero(&short_name()));
    }
    let (name, len) = WHO.get();
    line.push(name.get(..len).unwrap_or_default());
    line.push(b" (class ");
    line.push(class.as_bytes());
    line.push(b")");
}

fn push_call(line: &mut Line, call: c_int, context: *const libc::ucontext_t) {
    line.push(b" asked the kernel for ");
    match names::name(call.into()) {
        Some(name) => line.push(name.as_bytes()),
        None => {
            line.push(b"call ");
            line.decimal(call.unsigned_abs().into());
        }
    }
    // SAFETY: the kernel hands a handler with SA_SIGINFO the registers of the thread.
    let registers = unsafe { (*context).uc_mcontext.gregs };
    for (before, register) in [("(", libc::REG_RDI), (", ", libc::REG_RSI), (", ", libc::REG_RDX)] {
        line.push(before.as_bytes());
        let value = registers.get(register as usize).copied().unwrap_or_default();
        line.hexadecimal(value as u64);
    }
    line.push(b")");
}

/// A line under construction; what does not fit is cut.
struct Line {
    octets: [u8; LINE],
    len: usize,
}

impl Line {
    const fn new() -> Self {
        Self { octets: [0; LINE], len: 0 }
    }

    fn push(&mut self, text: &[u8]) {
        for octet in text {
            if let Some(place) = self.octets.get_mut(self.len) {
                *place = *octet;
                self.len += 1;
            }
        }
    }

    fn decimal(&mut self, number: u64) {
        self.number(number, 10);
    }

    fn hexadecimal(&mut self, number: u64) {
        self.push(b"0x");
        self.number(number, 16);
    }

    fn number(&mut self, mut number: u64, base: u64) {
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        for (place, digit) in digits.iter_mut().enumerate().rev() {
            *digit = *b"0123456789abcdef".get((number % base) as usize).unwrap_or(&b'?');
            number /= base;
            first = place;
            if number == 0 {
                break;
            }
        }
        self.push(digits.get(first..).unwrap_or_default());
    }

    fn write(&self) {
        // A stderr that is closed or full: the process ends all the same.
        // SAFETY: the octets are this line's own.
        unsafe { libc::write(libc::STDERR_FILENO, self.octets.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &Line) -> &str {
        std::str::from_utf8(&line.octets[..line.len]).unwrap()
    }

    #[test]
    fn numbers_are_written_without_memory() {
        for number in [0, 7, 10, 255, 65_536, u64::MAX] {
            let mut line = Line::new();
            line.decimal(number);
            line.push(b" ");
            line.hexadecimal(number);
            assert_eq!(text(&line), format!("{number} {number:#x}"));
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let mut line = Line::new();
        (0..100).for_each(|_| line.push(b"0123456789"));
        assert_eq!(line.len, LINE);
    }
}
