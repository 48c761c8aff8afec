//! Queue selection of a multi-queue TAP: our own flow hash, in a BPF program that the kernel runs for each
//! frame (`TUNSETSTEERINGEBPF`). Without it the kernel's hash is used, which is seeded differently at each
//! start and knows only flows that this TAP has seen in the other direction; so the two directions of a flow
//! that arrive by two TAPs would be served by different threads.

mod program;
mod urgent;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bpf::{Kind, Map, Purpose};
use port::steer::Hash;

use crate::request::ioctl;

pub(crate) use urgent::{LOOKED_AT, is_urgent};

/// `TUNSETSTEERINGEBPF` of `linux/if_tun.h`: `_IOR('T', 224, int)`.
const SET_STEERING: libc::c_ulong = 0x8004_54e0;

/// Has the kernel spread the frames of this TAP over its `queues` by flow, like `port::steer`.
///
/// # Errors
/// The kernel does not support such programs, or the caller may not load one (CAP_BPF and CAP_NET_ADMIN, or
/// CAP_SYS_ADMIN).
pub(crate) fn steer(tap: BorrowedFd<'_>, queues: usize, hash: Hash) -> io::Result<()> {
    run(tap, &program::assemble(queues as u32, hash))
}

/// As [`steer`], but frames that must not wait behind others ([`punt::urgent`]) get a queue of their own, behind `queues`.
///
/// # Errors
/// As those of [`steer`].
pub(crate) fn steer_urgent(tap: BorrowedFd<'_>, queues: usize, hash: Hash) -> io::Result<()> {
    run(tap, &program::with_urgent(queues as u32, hash))
}

/// Has a socket take urgent frames without a VLAN tag alone, those of which [`is_urgent`] is true.
///
/// # Errors
/// As those of [`steer`].
pub(crate) fn copy_urgent(socket: BorrowedFd<'_>) -> io::Result<()> {
    let program = bpf::load(Purpose::SocketFilter, &program::urgent_alone())?;
    bpf::attach_to_socket(program.as_fd(), socket)
}

/// Makes the kernel deal the frames of this TAP out to its `queues` one by one, whatever flows they are of.
///
/// # Errors
/// As those of [`steer`].
pub(crate) fn deal(tap: BorrowedFd<'_>, queues: usize) -> io::Result<()> {
    // The program holds it from then on.
    let turns = Map::new(Kind::Array, size_of::<u64>() as u32, 1)?;
    run(tap, &program::in_turn(queues as u32, turns.as_fd()))
}

/// Leaves the queues of this TAP's frames to the kernel's own hash.
///
/// # Errors
/// The device was deleted.
pub(crate) fn end(tap: BorrowedFd<'_>) -> io::Result<()> {
    let mut none: libc::c_int = -1;
    // SAFETY: the request reads an `int`.
    unsafe { ioctl(tap, SET_STEERING, &mut none) }
}

/// Has the kernel run a program for each frame of this TAP.
fn run(tap: BorrowedFd<'_>, instructions: &[u64]) -> io::Result<()> {
    let program = bpf::load(Purpose::SocketFilter, instructions)?;
    let mut number = program.as_raw_fd();
    // SAFETY: the request reads an `int`. The TAP holds the program from then on.
    unsafe { ioctl(tap, SET_STEERING, &mut number) }
}

#[cfg(test)]
mod tests;
