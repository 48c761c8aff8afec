//! Handling of forbidden system calls: the kernel sends SIGSYS instead of executing the call, one line is
//! written, and the process ends by SIGSYS.
//!
//! All of it runs in a signal handler: it allocates no memory, takes no lock, and only calls write(2).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use crate::class::Class;
use crate::names;

/// Octets shown of a thread's name.
const NAME: usize = 48;
/// Octets of the longest line.
const LINE: usize = 256;
/// Call number that no kernel implements and no class lists.
const NO_CALL: i64 = 0x3fff_ffff;
/// Code in `siginfo_t` of a signal by a seccomp filter.
const SYS_SECCOMP: c_int = 1;
/// Offset of the call number in `siginfo_t`.
const CALL_OFFSET: usize = 24;

thread_local! {
    // Constant initializers and no destructors: a signal handler may read them like plain memory.
    static WHO: Cell<([u8; NAME], usize)> = const { Cell::new(([0; NAME], 0)) };
    static CLASS: Cell<&'static str> = const { Cell::new("") };
}

/// Returns true if the thread itself has entered a class; filters inherited from its creator do not count.
pub(crate) fn is_confined() -> bool {
    !CLASS.get().is_empty()
}

/// Stores the thread's name and class for the handler.
pub(crate) fn remember(class: Class) {
    let thread = std::thread::current();
    let short = short_name();
    // The kernel keeps 15 octets of a name, but for the main thread it has the only meaningful one.
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

/// Kernel's name of the thread.
fn short_name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the kernel writes at most 16 octets.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

fn until_zero(name: &[u8]) -> &[u8] {
    name.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// Installs the SIGSYS handler, once for the process.
pub(crate) fn install_handler() -> Result<()> {
    static LISTENS: OnceLock<bool> = OnceLock::new();
    let listens = LISTENS.get_or_init(|| {
        // SAFETY: an all-zero `sigaction` is valid; the handler is async-signal-safe; the structure lives
        // during the call, and the old action is not requested.
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

/// Signal handler.
extern "C" fn report(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let mut line = Line::new();
    line.push(b"ringroad: thread ");
    push_thread(&mut line);
    // SAFETY: the kernel passes a valid `siginfo_t`.
    if unsafe { (*info).si_code } == SYS_SECCOMP {
        // SAFETY: for a signal by a filter the kernel sets this field; the structure has 128 octets.
        let call = unsafe { info.cast::<u8>().add(CALL_OFFSET).cast::<c_int>().read_unaligned() };
        push_call(&mut line, call, context.cast());
        line.push(b", which it may not; the process ends\n");
    } else {
        line.push(b" got SIGSYS from another process; this one ends\n");
    }
    line.write();
    // SIGSYS is blocked in its handler: another forbidden call ends the process by SIGSYS, whatever else
    // happens.
    // SAFETY: there is no such call, with or without a filter.
    unsafe { libc::syscall(NO_CALL) };
    // Only reached by a thread that is not confined.
    // SAFETY: ends the process.
    unsafe { libc::_exit(128 + libc::SIGSYS) }
}

fn push_thread(line: &mut Line) {
    let class = CLASS.get();
    if class.is_empty() {
        // It is still being set up, under its creator's filter, which allows reading its name.
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

/// Line under construction; text beyond its capacity is cut off.
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
        // If standard error is closed or full, the process ends all the same.
        // SAFETY: the octets belong to this line.
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
