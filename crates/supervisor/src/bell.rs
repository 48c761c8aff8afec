//! Channel whose receiving end has a descriptor to poll, so that a thread can wait for it and for other descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rustix::event::{EventfdFlags, eventfd};

/// Sending end.
pub(crate) struct Ringer<T> {
    /// `None` while it ends.
    sender: Option<Sender<T>>,
    bell: Arc<OwnedFd>,
}

/// Receiving end.
pub(crate) struct Listener<T> {
    receiver: Receiver<T>,
    bell: Arc<OwnedFd>,
}

/// Makes a channel.
///
/// # Errors
/// No descriptors are left.
pub(crate) fn belled<T>() -> io::Result<(Ringer<T>, Listener<T>)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = channel();
    Ok((Ringer { sender: Some(sender), bell: bell.clone() }, Listener { receiver, bell }))
}

impl<T> Ringer<T> {
    /// Sends; without effect if nobody listens any more.
    pub(crate) fn send(&self, what: T) {
        if self.sender.as_ref().is_some_and(|sender| sender.send(what).is_ok()) {
            self.ring();
        }
    }

    /// Wakes the receiving end. A bell that cannot be rung is ringing already.
    fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }
}

impl<T> Clone for Ringer<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), bell: self.bell.clone() }
    }
}

impl<T> Drop for Ringer<T> {
    /// The end of the last one is news as well.
    fn drop(&mut self) {
        self.sender = None;
        self.ring();
    }
}

impl<T> Listener<T> {
    /// Stops the bell; everything sent before is there to be taken.
    pub(crate) fn quiet(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
    }

    /// Takes the next one, if there is one.
    ///
    /// # Errors
    /// `Disconnected`: there will be none any more.
    pub(crate) fn next(&self) -> Result<Option<T>, TryRecvError> {
        match self.receiver.try_recv() {
            Ok(what) => Ok(Some(what)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(gone) => Err(gone),
        }
    }

    /// Rings once more: something was left there.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }

    /// Descriptor to poll for reading.
    pub(crate) fn watched(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings<T>(listener: &Listener<T>) -> bool {
        let bell = listener.watched();
        let mut fds = [PollFd::from_borrowed_fd(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("polled") > 0
    }

    #[test]
    fn a_bell_rings_until_it_is_quieted() {
        let (ringer, listener) = belled().expect("descriptors");
        assert!(!rings(&listener));
        ringer.send(1);
        ringer.clone().send(2);
        assert!(rings(&listener));
        listener.quiet();
        assert!(!rings(&listener));
        assert_eq!((listener.next(), listener.next()), (Ok(Some(1)), Ok(Some(2))));
        assert_eq!(listener.next(), Ok(None));
        drop(ringer);
        assert!(rings(&listener), "the end is told");
        listener.quiet();
        assert_eq!(listener.next(), Err(TryRecvError::Disconnected));
    }
}
