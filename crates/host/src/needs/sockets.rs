//! What becomes of the path of a vhost-user socket. Nobody is called there: a program that listens would take a caller for its
//! peer.

use std::path::Path;

use config::SocketSide;

use super::attachments::Found;
use crate::State;
use crate::named::{self, is_served, is_socket};

/// What is to be said of a path where we listen, or the other side does.
pub(super) fn finding(path: &Path, side: SocketSide) -> Found {
    if let Err(what) = named::socket(path) {
        return (State::No, what);
    }
    match (side, is_socket(path).is_some()) {
        (SocketSide::Listen, false) => {
            (State::Ok, "makes the socket and waits for the other side".to_owned())
        }
        (SocketSide::Listen, true) if is_served(path) => {
            (State::No, "another program listens there: stop that one, or choose another path".to_owned())
        }
        (SocketSide::Listen, true) => {
            (State::Note, "a socket is left there, which is replaced if nobody listens at it".to_owned())
        }
        (SocketSide::Connect, true) if is_served(path) => {
            (State::Ok, "connects to the program that listens there".to_owned())
        }
        (SocketSide::Connect, true) => {
            (State::Note, "a socket is there; tries until somebody listens at it".to_owned())
        }
        (SocketSide::Connect, false) => {
            (State::Note, "nobody has made the socket yet; tries again until it is there".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn whoever_listens_is_seen_and_not_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a b.sock");
        assert!(!is_served(&path));
        let listener = UnixListener::bind(&path).expect("bound");
        listener.set_nonblocking(true).expect("set");
        assert!(is_served(&path));
        assert_eq!(finding(&path, SocketSide::Listen).0, State::No);
        assert_eq!(finding(&path, SocketSide::Connect).0, State::Ok);
        assert!(listener.accept().is_err(), "it was called");
        drop(listener);
        assert_eq!(finding(&path, SocketSide::Listen).0, State::Note);
        assert_eq!(finding(&path, SocketSide::Connect).0, State::Note);
    }
}
