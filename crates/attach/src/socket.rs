//! vhost-user sockets as attachments: grammar and checks of both kinds, and opening them.

use std::os::fd::BorrowedFd;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use uplink::{Door, Error, Undo};

use crate::attach::path;
use crate::files::{self, is_served, is_socket};
use crate::{
    Finding, FixedDescriptors, HandedOver, HostResource, Key, Keywords, MissingRequirement, NicRequirements,
    State, Takes, lack,
};

/// The key that selects the side that creates the socket.
const KEY: &str = "socket";
const LISTEN: &str = "listen";

/// Sides of a socket: the one that creates it, or the one that connects to it.
const SIDES: Keywords<()> =
    Keywords { noun: ("side of a socket", "sides"), now: &[(LISTEN, ()), ("connect", ())], later: &[] };

/// Returns that key, with this default.
pub(crate) const fn key(otherwise: &'static str) -> Key {
    Key::new(
        KEY,
        Takes::Word(SIDES),
        ("listen, connect", otherwise),
        "which side of vhost-user makes the socket",
    )
}

/// Maximum octets of a socket's path, unix(7).
const LONGEST: usize = 107;

/// Checks the path of a socket.
pub(crate) fn read(text: &str, name: &str, example: &str) -> Result<(), String> {
    if name.len() > LONGEST {
        let (has, most) = (name.len(), LONGEST);
        return Err(format!(
            "the path of a socket has at most {most} octets, and this one {has}; choose a shorter one"
        ));
    }
    path(text, name, example)
}

fn listens(wanted: &NicRequirements) -> bool {
    wanted.attach.key(KEY) == Some(LISTEN)
}

/// Checks a path at which we listen, or to which we connect. Does not connect: a listening program would take
/// that for its peer.
pub(crate) fn look(wanted: &NicRequirements) -> Result<Finding, Vec<MissingRequirement>> {
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

/// Returns the undo of the socket, if we create it.
pub(crate) fn undo(wanted: &NicRequirements) -> Option<Undo> {
    if listens(wanted) { Undo::of_socket(Path::new(wanted.attach.name())) } else { None }
}

/// Opens the socket of a NIC.
pub(crate) fn open(wanted: &NicRequirements) -> Result<Box<dyn HostResource>> {
    let path = Path::new(wanted.attach.name());
    let door = if listens(wanted) { Door::listen(path) } else { Door::connect(path) };
    let door = door.map_err(Error::from)?;
    let HandedOver { what, descriptors } = HandedOver::of(of_door(&door))?;
    Ok(Box::new(FixedDescriptors { what, descriptors, door: Some(door), renewed: None }))
}

/// Returns a socket in the form in which it is handed over.
pub fn of_door(door: &Door) -> (Value, Vec<BorrowedFd<'_>>) {
    (json!([door.path().to_string_lossy(), door.listens()]), vec![door.descriptor()])
}

/// Adopts a socket that was opened elsewhere.
pub(crate) fn door(mut handed: HandedOver) -> Result<Door> {
    let (path, listens): (String, bool) = handed.parts()?;
    Ok(Door::adopt(Path::new(&path), listens, handed.last()?))
}

#[cfg(test)]
mod tests;
