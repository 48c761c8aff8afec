//! Sockets of vhost-user as what is opened for a NIC: the grammar and the checks of both kinds, and who keeps them.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use sandbox::Confinement;
use serde::Deserialize;
use serde_json::{Value, json};
use uplink::{Door, Error, Undo};

use crate::attach::path;
use crate::attachment::Attachment;
use crate::files::{self, is_served, is_socket};
use crate::kind::{Finding, Verdict};
use crate::opened::{Counted, Opened, Turn, Watched, one};
use crate::wanted::Wanted;
use crate::words::Words;

/// The key that says which side makes a socket.
pub(crate) const KEY: &str = "socket";
const LISTEN: &str = "listen";

/// Which side makes a socket, and which one connects to it.
pub(crate) const SIDES: Words<()> =
    Words { noun: ("side of a socket", "sides"), now: &[(LISTEN, ()), ("connect", ())], later: &[] };

/// Octets of the path of a socket, unix(7).
const LONGEST: usize = 107;

/// What is wrong with the path of a socket.
pub(crate) fn read(text: &str, name: &str, example: &str) -> Result<(), String> {
    if name.len() > LONGEST {
        let (has, most) = (name.len(), LONGEST);
        return Err(format!(
            "the path of a socket has at most {most} octets, and this one {has}; choose a shorter one"
        ));
    }
    path(text, name, example)
}

fn listens(wanted: &Wanted) -> bool {
    wanted.attach.key(KEY) == Some(LISTEN)
}

/// What cannot be had of it.
pub(crate) fn check(wanted: &Wanted) -> Result<(), String> {
    files::socket(Path::new(wanted.attach.name()))
}

/// What is to be said of a path where we listen, or the other side does. Nobody is called there: a program that listens would take
/// a caller for its peer.
pub(crate) fn finding(wanted: &Wanted) -> Option<Finding> {
    if let Err(what) = check(wanted) {
        return Some((Verdict::No, what));
    }
    let path = Path::new(wanted.attach.name());
    let (verdict, what) = match (listens(wanted), is_socket(path).is_some()) {
        (true, false) => (Verdict::Ok, "makes the socket and waits for the other side"),
        (true, true) if is_served(path) => {
            (Verdict::No, "another program listens there: stop that one, or choose another path")
        }
        (true, true) => (Verdict::Note, "a socket is left there, which is replaced if nobody listens at it"),
        (false, true) if is_served(path) => (Verdict::Ok, "connects to the program that listens there"),
        (false, true) => (Verdict::Note, "a socket is there; tries until somebody listens at it"),
        (false, false) => (Verdict::Note, "nobody has made the socket yet; tries again until it is there"),
    };
    Some((verdict, what.to_owned()))
}

/// The socket, where it is ours.
pub(crate) fn undo(wanted: &Wanted) -> Option<Undo> {
    if listens(wanted) { Undo::of_socket(Path::new(wanted.attach.name())) } else { None }
}

/// What serves peers of a NIC.
pub(crate) type Serve = fn(Door, &Wanted, Confinement) -> Result<Arc<dyn Attachment>>;

/// A socket that is open, by the word of its kind.
#[derive(Debug)]
struct Socket {
    word: &'static str,
    door: Door,
    serve: Serve,
}

/// Opens a socket of this kind.
pub(crate) fn open(word: &'static str, wanted: &Wanted, serve: Serve) -> Result<Box<dyn Opened>> {
    let path = Path::new(wanted.attach.name());
    let door = if listens(wanted) { Door::listen(path) } else { Door::connect(path) };
    Ok(Box::new(Socket { word, door: door.map_err(Error::from)?, serve }))
}

/// What a socket is, beside its descriptor.
#[derive(Deserialize)]
struct Parts {
    path: String,
    listens: bool,
}

/// See [`crate::kind::Place::Outside`].
pub(crate) fn adopt(
    (word, serve): (&'static str, Serve),
    what: Value,
    descriptors: &mut dyn Iterator<Item = OwnedFd>,
) -> Result<Box<dyn Opened>> {
    let Parts { path, listens } = serde_json::from_value(what)?;
    let door = Door::adopt(Path::new(&path), listens, one(descriptors)?);
    Ok(Box::new(Socket { word, door, serve }))
}

/// A socket of this kind, as it is handed over.
pub(crate) fn described<'d>(word: &str, door: &'d Door) -> (Value, Vec<BorrowedFd<'d>>) {
    let what = json!({ "path": door.path().to_string_lossy(), "listens": door.listens() });
    (json!({ word: what }), vec![door.descriptor()])
}

impl Opened for Socket {
    fn hand_over(&self) -> (Value, Vec<BorrowedFd<'_>>) {
        described(self.word, &self.door)
    }

    fn serve(self: Box<Self>, wanted: &Wanted, confinement: Confinement) -> Result<Arc<dyn Attachment>> {
        (self.serve)(self.door, wanted, confinement)
    }

    fn resize(&mut self, _: &Wanted, _: &Wanted) -> Result<()> {
        Ok(())
    }

    fn succeed(&mut self, old: Box<dyn Opened>) {
        drop(old);
    }

    fn turn(&mut self, _: Turn) -> Result<()> {
        Ok(())
    }

    fn watch(&self) -> Option<Box<dyn Watched>> {
        None
    }

    fn counted(&self) -> Option<Counted<'_>> {
        None
    }

    fn notice(&self) -> Option<String> {
        None
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.door.asked()
    }

    fn attend(&self) {
        self.door.answer();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::wanted::tests::wanted;

    #[test]
    fn whoever_listens_is_seen_and_not_called() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a b.sock");
        assert!(!is_served(&path));
        let listener = UnixListener::bind(&path).expect("bound");
        listener.set_nonblocking(true).expect("set");
        assert!(is_served(&path));
        let found = |side: &str| {
            let mut wanted = wanted(&format!("vhost-user-backend:{}", path.display()));
            wanted.attach.set(KEY, side);
            finding(&wanted).map(|(verdict, _)| verdict)
        };
        assert_eq!(found(LISTEN), Some(Verdict::No));
        assert_eq!(found("connect"), Some(Verdict::Ok));
        assert!(listener.accept().is_err(), "it was called");
        drop(listener);
        assert_eq!(found(LISTEN), Some(Verdict::Note));
        assert_eq!(found("connect"), Some(Verdict::Note));
    }
}
