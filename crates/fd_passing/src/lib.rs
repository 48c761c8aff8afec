//! Passing octets with descriptors through a connected Unix socket (`SCM_RIGHTS`, unix(7)), by one call of
//! sendmsg(2) or recvmsg(2).
//!
//! The meaning of the octets, and of each descriptor, is up to the protocol on top. This crate provides what
//! all of them need: a receiver accepts a limited number of descriptors, excess ones are reported, each
//! descriptor has an owner from the first moment, none is inherited by programs that are executed later, and
//! the type of a received file is read without asking the program that may serve it ([`file_type`]).
#![forbid(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::cmsg_space;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::{Errno, Result};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors that the kernel accepts with one message (`SCM_MAX_FD`).
pub const MOST: usize = 253;

/// Result of one call of [`receive`].
#[derive(Debug)]
pub struct Received {
    /// Number of octets received; 0 is the end of a stream.
    pub octets: usize,
    /// Descriptors received with them, in the sender's order.
    pub descriptors: Vec<OwnedFd>,
    /// True if there were more descriptors, which were closed: there was no room for them, or the process is
    /// out of descriptors.
    pub truncated: bool,
}

/// Sends octets with descriptors, which are attached to the first octet. Returns the number of octets sent.
/// If the peer has closed the connection, this returns an error without raising SIGPIPE.
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

/// Receives octets, and at most `most` descriptors.
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
    // The buffer is rounded up to whole words and aligned, so a few more may have arrived.
    let truncated = descriptors.len() > most || came.flags.contains(ReturnFlags::CTRUNC);
    descriptors.truncate(most);
    Ok(Received { octets: came.bytes, descriptors, truncated })
}

/// Returns the type of an open file; that of an anonymous inode of the kernel is [`FileType::Unknown`].
///
/// fstat(2) asks the server of a file on FUSE, which may be the sender of the descriptor and need not answer.
/// This call accepts what the kernel remembers, which is enough, because the type of a file never changes.
///
/// # Errors
/// Those of statx(2).
pub fn file_type(file: impl AsFd) -> Result<FileType> {
    let status = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(status.stx_mode.into()))
}

#[cfg(test)]
mod tests;
