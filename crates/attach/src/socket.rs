//! Sockets of vhost-user as what is opened for a NIC: the grammar and the checks of both kinds, and who keeps them.

use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use uplink::{Door, Error, Undo};

use crate::attach::path;
use crate::files::{self, is_served, is_socket};
use crate::{Finding, Handed, Kept, Key, Lack, Opened, State, Takes, Wanted, Words, lack};

/// The key that says which side makes a socket.
const KEY: &str = "socket";
const LISTEN: &str = "listen";

/// Which side makes a socket, and which one connects to it.
const SIDES: Words<()> =
    Words { noun: ("side of a socket", "sides"), now: &[(LISTEN, ()), ("connect", ())], later: &[] };

/// That key, where this side makes it unless a file says otherwise.
pub(crate) const fn key(otherwise: &'static str) -> Key {
    Key::new(
        KEY,
        Takes::Word(SIDES),
        ("listen, connect", otherwise),
        "which side of vhost-user makes the socket",
    )
}

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

/// What is to be said of a path where we listen, or the other side does. Nobody is called there: a program that listens would take
/// a caller for its peer.
pub(crate) fn look(wanted: &Wanted) -> Result<Finding, Vec<Lack>> {
    let path = Path::new(wanted.attach.name());
    files::socket(path).map_err(lack)?;
    let (state, what) = match (listens(wanted), is_socket(path).is_some()) {
        (true, false) => (State::Ok, "makes the socket and waits for the other side"),
        (true, true) if is_served(path) => {
            (State::No, "another program listens there: stop that one, or choose another path")
        }
        (true, true) => (State::Note, "a socket is left there, which is replaced if nobody listens at it"),
        (false, true) if is_served(path) => (State::Ok, "connects to the program that listens there"),
        (false, true) => (State::Note, "a socket is there; tries until somebody listens at it"),
        (false, false) => (State::Note, "nobody has made the socket yet; tries again until it is there"),
    };
    Ok((state, what.to_owned()))
}

/// The socket, where it is ours.
pub(crate) fn undo(wanted: &Wanted) -> Option<Undo> {
    if listens(wanted) { Undo::of_socket(Path::new(wanted.attach.name())) } else { None }
}

/// Opens the socket of a NIC.
pub(crate) fn open(wanted: &Wanted) -> Result<Box<dyn Opened>> {
    let path = Path::new(wanted.attach.name());
    let door = if listens(wanted) { Door::listen(path) } else { Door::connect(path) };
    let door = door.map_err(Error::from)?;
    let Handed { what, descriptors } = Handed::of(of_door(&door))?;
    Ok(Box::new(Kept { what, descriptors, door: Some(door), renewed: None }))
}

/// A socket, as it is handed over.
pub fn of_door(door: &Door) -> (Value, Vec<BorrowedFd<'_>>) {
    (json!([door.path().to_string_lossy(), door.listens()]), vec![door.descriptor()])
}

/// A socket that was opened elsewhere.
pub(crate) fn door(mut handed: Handed) -> Result<Door> {
    let (path, listens): (String, bool) = handed.parts()?;
    Ok(Door::adopt(Path::new(&path), listens, handed.last()?))
}

#[cfg(test)]
mod tests;
