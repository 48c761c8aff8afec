//! Octets with descriptors through a connected Unix socket (`SCM_RIGHTS`, unix(7)): one call of sendmsg(2) or recvmsg(2).
//!
//! What the octets mean, and which descriptor belongs to what, is for the protocol that stands on it. Here is decided what all of
//! them want: a receiver has room for so many descriptors and no more, what it could not have is told, each descriptor has an owner
//! from its first moment on, and no program that is started later has it.
#![forbid(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors that the kernel takes with one message (`SCM_MAX_FD`).
pub const MOST: usize = 253;

/// What one call of [`receive`] has brought.
#[derive(Debug)]
pub struct Received {
    /// Octets that were received; of a stream, none are its end.
    pub octets: usize,
    /// Descriptors that came with them, in the order of their sender.
    pub descriptors: Vec<OwnedFd>,
    /// Whether there were more descriptors, which are closed: there was no room for them, or too many files are open here.
    pub truncated: bool,
}

/// Sends octets with descriptors, which leave with the first octet; returns how many octets have left. Where nobody listens any more
/// there is an error, and no signal.
///
/// # Errors
/// `TOOBIG`: there are more than [`MOST`] descriptors. Those of sendmsg(2).
pub fn send(socket: impl AsFd, octets: &[u8], descriptors: &[impl AsFd], flags: SendFlags) -> Result<usize> {
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if descriptors.len() > MOST
        || !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&descriptors))
    {
        return Err(Errno::TOOBIG);
    }
    sendmsg(socket, &[IoSlice::new(octets)], &mut control, flags | SendFlags::NOSIGNAL)
}

/// Receives octets, and at most so many descriptors.
///
/// # Errors
/// Those of recvmsg(2).
pub fn receive(socket: impl AsFd, octets: &mut [u8], most: usize, flags: RecvFlags) -> Result<Received> {
    let mut space = [MaybeUninit::<u8>::uninit(); cmsg_space!(ScmRights(MOST))];
    let room = if most == 0 { 0 } else { cmsg_space!(ScmRights(most.min(MOST))) };
    let mut control = RecvAncillaryBuffer::new(&mut space[..room]);
    let came =
        recvmsg(socket, &mut [IoSliceMut::new(octets)], &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors: Vec<_> = rights.flatten().collect();
    // Room is made in whole words and aligned, so that a few more may have come.
    let truncated = descriptors.len() > most || came.flags.contains(ReturnFlags::CTRUNC);
    descriptors.truncate(most);
    Ok(Received { octets: came.bytes, descriptors, truncated })
}

#[cfg(test)]
mod tests;
