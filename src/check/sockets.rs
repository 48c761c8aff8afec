//! What becomes of the path of a vhost-user socket. Nobody is called there: a program that listens would take a caller for its
//! peer.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use config::SocketSide;

use super::attachments::{Found, folder};
use crate::doctor::State;

/// Unix sockets of this network namespace, with flags and paths.
const SOCKETS: &str = "/proc/net/unix";
/// `__SO_ACCEPTCON` of `linux/net.h`: it listens.
const LISTENS: u32 = 0x1_0000;

/// What is to be said of a path where we listen, or the other side does.
pub(super) fn finding(path: &Path, side: SocketSide) -> Found {
    let shown = path.display();
    let Some(folder) = folder(path) else { return (State::No, format!("{shown} names no file")) };
    if !folder.is_dir() {
        return (State::No, format!("there is no folder {0}: mkdir -p {0}", folder.display()));
    }
    let is_socket = fs::symlink_metadata(path).ok().map(|file| file.file_type().is_socket());
    match (side, is_socket) {
        (_, Some(false)) => {
            (State::No, format!("{shown} is there and no socket: remove it, or choose another path"))
        }
        (SocketSide::Listen, None) => (State::Ok, "makes the socket and waits for the other side".to_owned()),
        (SocketSide::Listen, Some(true)) if is_served(path) => {
            (State::No, "another program listens there: stop that one, or choose another path".to_owned())
        }
        (SocketSide::Listen, Some(true)) => {
            (State::Note, "a socket is left there, which is replaced if nobody listens at it".to_owned())
        }
        (SocketSide::Connect, Some(true)) if is_served(path) => {
            (State::Ok, "connects to the program that listens there".to_owned())
        }
        (SocketSide::Connect, Some(true)) => {
            (State::Note, "a socket is there; tries until somebody listens at it".to_owned())
        }
        (SocketSide::Connect, None) => {
            (State::Note, "nobody has made the socket yet; tries again until it is there".to_owned())
        }
    }
}

/// Whether somebody of this network namespace listens there. Others are not shown.
fn is_served(path: &Path) -> bool {
    let (Ok(list), Some(path)) = (fs::read_to_string(SOCKETS), path.to_str()) else { return false };
    let absolute = std::path::absolute(path).unwrap_or_default();
    list.lines().any(|line| listens_at(line).is_some_and(|at| at == path || Path::new(at) == absolute))
}

/// The path of a line if its socket listens: number, count, protocol, flags, type, state, inode, path.
fn listens_at(line: &str) -> Option<&str> {
    let (flags, at) = (line.split_whitespace().nth(3)?, line.split_whitespace().nth(7)?);
    // A path may have spaces.
    let path = line.find(at).and_then(|begin| line.get(begin..)).unwrap_or(at);
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0).then_some(path)
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

    #[test]
    fn lines_of_the_kernel_are_read() {
        let begin = "ffff0000: 00000002 00000000 0001";
        assert_eq!(listens_at(&format!("{begin}0000 0001 01 1234 /run/a.sock")), Some("/run/a.sock"));
        assert_eq!(listens_at("ffff0000: 00000003 00000000 00000000 0001 03 1234 /run/a.sock"), None);
        assert_eq!(listens_at("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }
}
