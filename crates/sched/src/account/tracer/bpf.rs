//! bpf(2), as much of it as is needed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// Numbers of `linux/bpf.h`.
const MAP_CREATE: libc::c_long = 0;
const LOOK_UP: libc::c_long = 1;
const UPDATE: libc::c_long = 2;
const DELETE: libc::c_long = 3;
const PROGRAM_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const RAW_TRACEPOINT: u32 = 17;

/// What a map is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// By a key of 32 bits.
    Hash = 1,
    /// By a number, with a value for each CPU.
    ArrayOfEachCpu = 6,
}

#[repr(C)]
struct CreateMap {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

/// A map of values of so many octets.
pub(super) fn map(kind: Kind, value: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut request = CreateMap { kind: kind as u32, key: 4, value, entries, flags: 0 };
    // SAFETY: the request holds no pointer.
    unsafe { new_descriptor(MAP_CREATE, &mut request) }
}

#[repr(C)]
struct Element {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn element(map: BorrowedFd<'_>, key: &u32, value: u64) -> Element {
    let key = std::ptr::from_ref(key) as u64;
    Element { map: map.as_raw_fd().cast_unsigned(), unused: 0, key, value, flags: 0 }
}

/// Reads a value into `words`, which must be as long as the map's values (of all CPUs that there may be).
pub(super) fn get(map: BorrowedFd<'_>, key: u32, words: &mut [u64]) -> io::Result<()> {
    let mut request = element(map, &key, words.as_mut_ptr() as u64);
    // SAFETY: the key lives during the call, and so does the place for the value, whose length the caller vouches for.
    unsafe { bpf(LOOK_UP, &mut request) }.map(drop)
}

/// Puts a value of a map of threads under a key.
pub(super) fn put(map: BorrowedFd<'_>, key: u32, words: &[u64; 2]) -> io::Result<()> {
    let mut request = element(map, &key, words.as_ptr() as u64);
    // SAFETY: key and value live during the call, with the lengths that the map was made with.
    unsafe { bpf(UPDATE, &mut request) }.map(drop)
}

/// Takes what is under a key away.
pub(super) fn remove(map: BorrowedFd<'_>, key: u32) -> io::Result<()> {
    let mut request = element(map, &key, 0);
    // SAFETY: the key lives during the call.
    unsafe { bpf(DELETE, &mut request) }.map(drop)
}

#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
struct OpenTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// Loads a program and attaches it to a tracepoint. It goes with the descriptor.
pub(super) fn attach(point: &str, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut request = LoadProgram {
        kind: RAW_TRACEPOINT,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: *b"ringroad\0\0\0\0\0\0\0\0",
    };
    // SAFETY: instructions and licence live during the call, with the lengths that are told.
    let program = unsafe { new_descriptor(PROGRAM_LOAD, &mut request) }?;
    let name = CString::new(point).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = OpenTracepoint { name: name.as_ptr() as u64, program, unused: 0 };
    // SAFETY: the name lives during the call and ends with a zero.
    unsafe { new_descriptor(RAW_TRACEPOINT_OPEN, &mut request) }
}

/// A call that makes a descriptor; the kernel closes it on exec.
///
/// # Safety
/// As [`bpf`].
unsafe fn new_descriptor<T>(command: libc::c_long, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the request.
    let fd = unsafe { bpf(command, request) }?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bpf(2).
///
/// # Safety
/// `request` must be what the kernel reads for `command` (or the start of it), with all its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the request is readable and writable for its size; the caller vouches for what is in it.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(request), size_of::<T>()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer as libc::c_int) }
}
