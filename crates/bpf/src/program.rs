//! Programs: instructions of `linux/bpf.h`, checked by the kernel before it runs them.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// Numbers of `linux/bpf.h`.
const LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const ATTACH_XDP: u32 = 37;

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It looks at frames.
    SocketFilter = 1,
    /// It decides on the frames of an interface, before they become anything else (XDP).
    Interface = 6,
    /// It runs whenever the kernel comes by a tracepoint.
    Tracepoint = 17,
}

/// One instruction: an operation, the registers that it writes and reads, an offset and a constant.
pub const fn instruction(operation: u8, (to, from): (u8, u8), offset: i16, constant: i32) -> u64 {
    let registers = ((to | from << 4) as u64) << 8;
    operation as u64 | registers | (offset as u16 as u64) << 16 | (constant as u32 as u64) << 32
}

#[repr(C)]
struct Load {
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
    interface: u32,
    attach: u32,
}

/// Loads a program. It may call no function of the kernel that asks for another licence than ours.
///
/// # Errors
/// No rights (CAP_BPF; CAP_NET_ADMIN or CAP_PERFMON too, by its purpose), or the kernel finds it wrong.
pub fn load(purpose: Purpose, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut request = Load {
        kind: purpose as u32,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags: 0,
        name: *b"ringroad\0\0\0\0\0\0\0\0",
        interface: 0,
        attach: if purpose == Purpose::Interface { ATTACH_XDP } else { 0 },
    };
    // SAFETY: instructions and licence live during the call, with the lengths that are told.
    unsafe { super::new_descriptor(LOAD, &mut request) }
}

#[repr(C)]
struct OpenTracepoint {
    name: u64,
    program: u32,
    unused: u32,
}

/// Attaches a program to a tracepoint, until the descriptor is closed.
///
/// # Errors
/// No rights (CAP_PERFMON), or a kernel without that tracepoint (ENOENT).
pub fn attach_to_tracepoint(point: &str, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let name = CString::new(point).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = OpenTracepoint { name: name.as_ptr() as u64, program, unused: 0 };
    // SAFETY: the name lives during the call and ends with a zero.
    unsafe { super::new_descriptor(RAW_TRACEPOINT_OPEN, &mut request) }
}

#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Attaches a program to the interface with this index, until the descriptor is closed. The flags are those of
/// `linux/if_link.h` (`XDP_FLAGS_…`).
///
/// # Errors
/// No rights (CAP_NET_ADMIN), another program is there, or the interface cannot.
pub fn attach_to_interface(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = CreateLink { program, interface: index, attach: ATTACH_XDP, flags };
    // SAFETY: the request holds no pointer.
    unsafe { super::new_descriptor(LINK_CREATE, &mut request) }
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    answer: u32,
    len: u32,
    len_out: u32,
    frame: u64,
    frame_out: u64,
    repeat: u32,
    duration: u32,
    context: [u64; 3],
    flags: [u32; 4],
}

/// Runs a program once for this frame, whose Ethernet header a [`Purpose::SocketFilter`] does not see; its answer.
///
/// # Errors
/// No rights, or a frame that no interface could have had.
pub fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut request = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        len: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: the frame lives during the call and is only read; there is no place for what becomes of it.
    unsafe { super::bpf(TEST_RUN, &mut request) }?;
    Ok(request.answer)
}
