//! System calls of this firmware (numbers and structures of Linux on x86-64).

use core::arch::asm;

pub(super) const WRITE: u64 = 1;
const CLOSE: u64 = 3;
const MMAP: u64 = 9;
const RECVMSG: u64 = 47;
const CLONE: u64 = 56;
pub(super) const EXIT: u64 = 60;
const PRCTL: u64 = 157;
pub(super) const FUTEX: u64 = 202;
const SCHED_SETAFFINITY: u64 = 203;
pub(super) const EXIT_GROUP: u64 = 231;
const SECCOMP: u64 = 317;

/// Operations of `FUTEX` that the filter allows.
pub(super) const FUTEX_WAIT: u64 = 0;
pub(super) const FUTEX_WAKE: u64 = 1;
const PR_SET_NAME: u64 = 15;
const SECCOMP_SET_MODE_FILTER: u64 = 1;
/// Largest error number: results from its negative up to -1 are errors.
const MAX_ERROR: i64 = 4095;

/// Error number of a failed system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errno(pub(super) u32);

/// # Safety
/// As the system call with this number and these arguments.
unsafe fn call(number: u64, arguments: [u64; 6]) -> Result<u64, Errno> {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the kernel preserves all registers but the three that are named as changed; the caller vouches for the
    // rest.
    unsafe {
        asm!("syscall", inout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-MAX_ERROR..0).contains(&result) { Err(Errno(-result as u32)) } else { Ok(result as u64) }
}

/// Writes to a descriptor.
pub(super) fn write(descriptor: i32, octets: &[u8]) -> Result<(), Errno> {
    let (start, len) = (octets.as_ptr() as u64, octets.len() as u64);
    // SAFETY: the octets are readable.
    unsafe { call(WRITE, [descriptor as u64, start, len, 0, 0, 0]) }.map(|_| ())
}

/// Closes a descriptor.
pub(super) fn close(descriptor: i32) {
    // SAFETY: takes a number. Closing a descriptor that is not open is an error without effect.
    let _ = unsafe { call(CLOSE, [descriptor as u64, 0, 0, 0, 0, 0]) };
}

/// Memory to map.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    pub(super) at: u64,
    pub(super) len: u64,
    pub(super) writable: bool,
    /// Shared memory to map, and the offset in it; none: fresh private memory.
    pub(super) of: Option<(i32, u64)>,
}

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const MAP_SHARED: u64 = 0x01;
const MAP_PRIVATE: u64 = 0x02;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const EEXIST: u32 = 17;

/// Maps memory at an address where nothing is mapped yet.
pub(super) fn map(mapping: Mapping) -> Result<(), Errno> {
    let Mapping { at, len, writable, of } = mapping;
    let rights = PROT_READ | if writable { PROT_WRITE } else { 0 };
    let (kind, descriptor, offset) = match of {
        Some((descriptor, offset)) => (MAP_SHARED, descriptor as u64, offset),
        None => (MAP_PRIVATE | MAP_ANONYMOUS, u64::MAX, 0),
    };
    let flags = kind | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    // SAFETY: existing mappings are not replaced, so no memory in use changes.
    let got = unsafe { call(MMAP, [at, len, rights, flags, descriptor, offset]) }?;
    // Kernels before 4.17 treat the address as a hint.
    if got == at { Ok(()) } else { Err(Errno(EEXIST)) }
}

/// `struct msghdr`.
#[repr(C)]
pub(super) struct Message {
    pub(super) name: u64,
    pub(super) name_len: u64,
    pub(super) parts: *mut IoVec,
    pub(super) part_count: u64,
    pub(super) control: *mut u8,
    pub(super) control_len: u64,
    pub(super) flags: u64,
}

/// `struct iovec`.
#[repr(C)]
pub(super) struct IoVec {
    pub(super) start: *mut u8,
    pub(super) len: u64,
}

/// Receives a message; returns its octets.
///
/// # Safety
/// Everything that `message` points to is writable for the stated length.
pub(super) unsafe fn receive(descriptor: i32, message: &mut Message) -> Result<u64, Errno> {
    let place = core::ptr::from_mut(message) as u64;
    // SAFETY: the caller vouches for what the message points to.
    unsafe { call(RECVMSG, [descriptor as u64, place, 0, 0, 0, 0]) }
}

/// Sleeps while `word` holds `seen`, until woken; it may also wake spuriously.
pub(super) fn wait(word: &core::sync::atomic::AtomicU32, seen: u32) {
    // SAFETY: the address of a live word; no timeout. Not a private futex: the waker may be another process.
    let _ = unsafe { call(FUTEX, [word.as_ptr() as u64, FUTEX_WAIT, u64::from(seen), 0, 0, 0]) };
}

/// Wakes all threads that sleep on `word`.
pub(super) fn wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: the address of a live word.
    let _ = unsafe { call(FUTEX, [word.as_ptr() as u64, FUTEX_WAKE, u64::from(u32::MAX >> 1), 0, 0, 0]) };
}

/// Names the calling thread; `name` ends with a zero octet.
pub(super) fn set_name(name: &[u8; 16]) {
    // SAFETY: a zero-terminated string, which the kernel copies. It cannot fail.
    let _ = unsafe { call(PRCTL, [PR_SET_NAME, name.as_ptr() as u64, 0, 0, 0, 0]) };
}

/// Number of CPUs that a thread can be placed on: largest CPU number plus one.
const CPUS: usize = 8192;
const EINVAL: u32 = 22;

/// Pins the calling thread to one CPU.
pub(super) fn place(cpu: u32) -> Result<(), Errno> {
    let mut set = [0u64; CPUS / 64];
    *set.get_mut(cpu as usize / 64).ok_or(Errno(EINVAL))? = 1 << (cpu % 64);
    // SAFETY: the set is readable for the stated length.
    unsafe { call(SCHED_SETAFFINITY, [0, size_of_val(&set) as u64, set.as_ptr() as u64, 0, 0, 0]) }
        .map(|_| ())
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    instructions: *const super::filter::Instruction,
}

/// Installs a seccomp filter for the calling thread and every thread that it starts.
pub(super) fn confine(filter: &[super::filter::Instruction]) -> Result<(), Errno> {
    let program = Program { len: filter.len() as u16, instructions: filter.as_ptr() };
    let place = core::ptr::from_ref(&program) as u64;
    // SAFETY: the program is readable; the kernel checks and copies it.
    unsafe { call(SECCOMP, [SECCOMP_SET_MODE_FILTER, 0, place, 0, 0, 0]) }.map(|_| ())
}

/// Exits the calling thread.
pub(crate) fn exit_thread() -> ! {
    // SAFETY: does not return, and no other thread uses this thread's stack.
    let _ = unsafe { call(EXIT, [0; 6]) };
    crate::halt::die()
}

/// Exits the process.
pub(super) fn exit(code: u64) -> ! {
    // SAFETY: does not return.
    let _ = unsafe { call(EXIT_GROUP, [code, 0, 0, 0, 0, 0]) };
    crate::halt::die()
}

/// Clone flags for a thread of the same process: memory, files, descriptors, signals and System V semaphores are
/// shared.
const THREAD: u64 = 0x100 | 0x200 | 0x400 | 0x800 | 0x1_0000 | 0x4_0000;

/// Starts a thread on its own stack that ends below `top`; it calls `body` with `argument`.
///
/// # Safety
/// `top` is 16-octet aligned and the end of a stack that is not used otherwise.
pub(super) unsafe fn start_thread(
    top: u64,
    body: extern "C" fn(u64) -> !,
    argument: u64,
) -> Result<(), Errno> {
    let result: i64;
    // SAFETY: in the parent nothing changes but the registers that are named. The thread starts behind the same
    // instruction with the same registers but rax = 0 and its own stack, and never leaves `body`.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inout("rax") CLONE => result,
            in("rdi") THREAD,
            in("rsi") top,
            in("rdx") 0,
            in("r10") 0,
            in("r8") 0,
            in("r12") body,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 { Err(Errno(-result as u32)) } else { Ok(()) }
}

/// Continues in `body` on the stack that ends below `top`.
///
/// # Safety
/// As [`start_thread`].
pub(super) unsafe fn continue_on(top: u64, body: extern "C" fn(u64) -> !, argument: u64) -> ! {
    // SAFETY: the old stack is no longer used; the caller vouches for the new one.
    unsafe {
        asm!("mov rsp, {top}", "xor ebp, ebp", "call {body}", "ud2", top = in(reg) top, body = in(reg) body,
             in("rdi") argument, options(noreturn));
    }
}
