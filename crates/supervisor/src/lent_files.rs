//! Files of clients that are lent to the data plane, or not used at all, and closed by a thread of their own.
//!
//! close(2) may wait for the server of a file (FUSE, NFS), and so must not be called in the event loop.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// Files on their way to the data plane.
#[derive(Default)]
pub(crate) struct LentFiles {
    lent: Vec<Arc<OwnedFd>>,
    /// Leads to the thread that closes files. If one of them blocks it, further ones stay open.
    closer: Option<Sender<OwnedFd>>,
}

impl LentFiles {
    /// Lends a file until the other owners of the result have dropped it.
    pub(crate) fn lend(&mut self, file: OwnedFd) -> Arc<OwnedFd> {
        let file = Arc::new(file);
        self.lent.push(file.clone());
        file
    }

    /// Has the files closed that came back. Never blocks.
    pub(crate) fn attend(&mut self) {
        for file in std::mem::take(&mut self.lent) {
            match Arc::try_unwrap(file) {
                Ok(file) => self.close(file),
                Err(file) => self.lent.push(file),
            }
        }
    }

    /// Has a file closed. Never blocks, unless no thread can be started.
    pub(crate) fn close(&mut self, file: OwnedFd) {
        // If no thread could be started, the file is closed here, and the next one tries again.
        if self.closer.get_or_insert_with(closer).send(file).is_err() {
            self.closer = None;
        }
    }
}

/// Starts a thread that closes the files sent to it.
fn closer() -> Sender<OwnedFd> {
    let (sender, files) = channel::<OwnedFd>();
    let thread = Builder::new().name("ringroad/close".to_owned());
    // The error is noticed when a file is sent.
    let _ = thread.spawn(move || files.into_iter().for_each(drop));
    sender
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn a_file_is_closed_when_the_link_has_dropped_it() {
        let (mut reader, writer) = pipe().expect("a pipe");
        let mut files = LentFiles::default();
        let lent = files.lend(writer.into());
        files.attend();
        assert!(files.closer.is_none() && Arc::strong_count(&lent) == 2);
        drop(lent);
        files.attend();
        assert!(files.lent.is_empty() && files.closer.is_some());
        // Waits until the other end is closed.
        assert_eq!(reader.read(&mut [0]).expect("a pipe"), 0);
    }
}
