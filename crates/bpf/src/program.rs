//! Programs: instructions of `linux/bpf.h`, verified by the kernel before it runs them.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

// Command numbers of `linux/bpf.h`.
const LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const LINK_CREATE: libc::c_long = 28;
const ATTACH_XDP: u32 = 37;
/// `BPF_F_XDP_HAS_FRAGS`.
const TAKES_PIECES: u32 = 1 << 5;
/// Licence of ringroad's own programs.
const OURS: &CStr = c"Apache-2.0";

/// Type of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Classifies frames.
    SocketFilter = 1,
    /// Decides on the packets of an interface, on ingress or egress (traffic control).
    TrafficControl = 3,
    /// Decides on the frames of an interface before the kernel allocates packets for them (XDP).
    Interface = 6,
    /// Runs whenever the kernel hits a tracepoint.
    Tracepoint = 17,
}

/// Encodes an instruction: operation, destination and source registers, offset, constant.
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

/// Loads a program. It may call no kernel function that requires a licence other than ours.
///
/// # Errors
/// The process lacks privileges (CAP_BPF, and CAP_NET_ADMIN or CAP_PERFMON, depending on the purpose), or the
/// verifier rejects it.
pub fn load(purpose: Purpose, instructions: &[u64]) -> io::Result<OwnedFd> {
    load_as(OURS, purpose, instructions)
}

/// Loads a program under this licence, given as one of the kernel's licence strings (`linux/license.h`).
///
/// # Errors
/// See [`load`].
pub fn load_as(licence: &CStr, purpose: Purpose, instructions: &[u64]) -> io::Result<OwnedFd> {
    load_with((licence, 0), purpose, instructions)
}

/// Loads a program for an interface ([`Purpose::Interface`]) that also takes frames in several pieces, of which it sees the first
/// (Linux 5.18).
///
/// # Errors
/// See [`load`].
pub fn load_for_pieces(instructions: &[u64]) -> io::Result<OwnedFd> {
    load_with((OURS, TAKES_PIECES), Purpose::Interface, instructions)
}

/// Loads a program under this licence, with these flags.
fn load_with((licence, flags): (&CStr, u32), purpose: Purpose, instructions: &[u64]) -> io::Result<OwnedFd> {
    let mut request = Load {
        kind: purpose as u32,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: licence.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel: 0,
        flags,
        name: *b"ringroad\0\0\0\0\0\0\0\0",
        interface: 0,
        attach: if purpose == Purpose::Interface { ATTACH_XDP } else { 0 },
    };
    // SAFETY: instructions and licence live during the call, with the lengths given.
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
/// The process lacks CAP_PERFMON, or the kernel has no such tracepoint (ENOENT).
pub fn attach_to_tracepoint(point: &str, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let name = CString::new(point).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = OpenTracepoint { name: name.as_ptr() as u64, program, unused: 0 };
    // SAFETY: the name lives during the call and is NUL-terminated.
    unsafe { super::new_descriptor(RAW_TRACEPOINT_OPEN, &mut request) }
}

#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Attaches a program to the interface with this index, until the descriptor is closed. The flags are those
/// of `linux/if_link.h` (`XDP_FLAGS_…`).
///
/// # Errors
/// The process lacks CAP_NET_ADMIN, another program is attached, or the interface does not support it.
pub fn attach_to_interface(program: BorrowedFd<'_>, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = CreateLink { program, interface: index, attach: ATTACH_XDP, flags };
    // SAFETY: the request contains no pointer.
    unsafe { super::new_descriptor(LINK_CREATE, &mut request) }
}

/// Direction of the packets that a program at an interface sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface (BPF_TCX_INGRESS).
    Ingress = 46,
    /// Sent by the interface (BPF_TCX_EGRESS).
    Egress = 47,
}

/// Attaches a [`Purpose::TrafficControl`] program to the interface with this index in the calling thread's
/// network namespace, behind the programs attached before (tcx, Linux 6.6), until the descriptor is closed or
/// the interface is deleted.
///
/// # Errors
/// The process lacks CAP_NET_ADMIN, there is no such interface (ENODEV), or the kernel has no tcx (EINVAL).
pub fn attach_to_tcx(program: BorrowedFd<'_>, index: u32, direction: Direction) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd().cast_unsigned();
    let mut request = CreateLink { program, interface: index, attach: direction as u32, flags: 0 };
    // SAFETY: the request contains no pointer.
    unsafe { super::new_descriptor(LINK_CREATE, &mut request) }
}

/// Attaches a [`Purpose::SocketFilter`] to a socket, which receives only what the program passes from now on. It stays
/// attached when the descriptor of the program is closed.
///
/// # Errors
/// The program has another purpose, or this is no socket.
pub fn attach_to_socket(program: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    let (value, len) = (std::ptr::from_ref(&program).cast(), size_of_val(&program) as libc::socklen_t);
    let (socket, level, option) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_BPF);
    // SAFETY: the value is a live integer of the given length, and is only read.
    let answer = unsafe { libc::setsockopt(socket, level, option, value, len) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
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

/// Runs a program once on this frame, whose Ethernet header a [`Purpose::SocketFilter`] does not see. Returns
/// its result.
///
/// # Errors
/// The process lacks privileges, or no interface could have received such a frame.
pub fn run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut request = TestRun {
        program: program.as_raw_fd().cast_unsigned(),
        len: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        ..TestRun::default()
    };
    // SAFETY: the frame lives during the call and is only read; no output buffer is given.
    unsafe { super::bpf(TEST_RUN, &mut request) }?;
    Ok(request.answer)
}
