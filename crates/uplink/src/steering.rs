//! Which queue of a multi-queue TAP a frame comes to: by our own hash of its flow, in a program that the kernel runs for
//! each frame (`TUNSETSTEERINGEBPF`). Without it the kernel's hash decides, which is another one at each start and knows
//! only flows that this TAP has seen the other way; so the two directions of a flow that come by two TAPs would land on
//! different threads.

mod program;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use switch::steer::Hash;

use crate::request::ioctl;

/// `TUNSETSTEERINGEBPF` of `linux/if_tun.h`: `_IOR('T', 224, int)`.
const SET_STEERING: libc::c_ulong = 0x8004_54e0;
/// `BPF_PROG_LOAD` and `BPF_PROG_TYPE_SOCKET_FILTER` of `linux/bpf.h`.
const LOAD: libc::c_int = 5;
const SOCKET_FILTER: u32 = 1;
/// No helper of the kernel is called, so that any licence will do.
const LICENSE: &std::ffi::CStr = c"Apache-2.0";

/// The part of `union bpf_attr` that loading a program reads.
#[repr(C, align(8))]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log: [u64; 2],
}

/// Makes the kernel spread the frames of this TAP over its `queues` by flow, as `switch::steer` does.
///
/// # Errors
/// The kernel has no such programs, or the caller may not load one (CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN).
pub(crate) fn steer(tap: BorrowedFd<'_>, queues: usize, hash: Hash) -> io::Result<()> {
    let program = load(&program::assemble(queues as u32, hash))?;
    let mut number = program.as_raw_fd();
    // SAFETY: the request reads an `int`. The TAP holds the program from then on.
    unsafe { ioctl(tap, SET_STEERING, &mut number) }
}

fn load(code: &[u64]) -> io::Result<OwnedFd> {
    let load = Load {
        kind: SOCKET_FILTER,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log: [0; 2],
    };
    // SAFETY: the structure and what it points to live for the time of the call and are only read; the length is theirs.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, LOAD, &raw const load, size_of::<Load>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Runs the program for one frame, as the kernel would for a frame of a TAP (`BPF_PROG_TEST_RUN`).
#[cfg(test)]
fn run(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    const TEST_RUN: libc::c_int = 10;
    #[repr(C, align(8))]
    #[derive(Default)]
    struct Run {
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
    let mut run = Run {
        program: program.as_raw_fd() as u32,
        len: frame.len() as u32,
        frame: frame.as_ptr() as u64,
        ..Run::default()
    };
    // SAFETY: the structure lives for the time of the call, the frame is only read, and the length is the structure's.
    let done = unsafe { libc::syscall(libc::SYS_bpf, TEST_RUN, &raw mut run, size_of::<Run>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(run.answer) }
}

#[cfg(test)]
mod tests;
