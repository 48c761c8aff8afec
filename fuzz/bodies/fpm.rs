//! Arbitrary octets in place of zebra's, in pieces, with reconnects, sweeps and verdicts of BFD between them. Finds panics, and tables that
//! differ from those of a data path that was only told the changes.
//!
//! The input consists of pieces: an octet that says what happens (0 to 3 and others: octets arrive), a length, and octets.

use std::collections::BTreeMap;

use fpm::{Change, GroupId, Key, Paths, Session, Target};
use netlink::NextHop;

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let (mut session, mut told, mut rest) = (Session::new(true), Told::default(), input);
    session.connected();
    while let Some((&[what, length], after)) = rest.split_first_chunk() {
        let (octets, after) = after.split_at(after.len().min(usize::from(length)));
        rest = after;
        match what {
            0 => session.connected(),
            1 => session.closed(),
            2 => session.dumped(length & 1 == 0),
            3 => {
                session.rib_mut().judge(length.into(), [192, 0, 2, length].into(), length & 1 == 0);
            }
            _ => hear(&mut session, octets),
        }
        told.update(&mut session);
        session.answers().sent(length.into());
    }
    let listed: BTreeMap<Key, Target> = session.rib().iter().map(|found| (found.key, found.target)).collect();
    assert_eq!(told.routes, listed);
}

fn hear(session: &mut Session, octets: &[u8]) {
    let room = session.room();
    let len = room.len().min(octets.len());
    room[..len].copy_from_slice(&octets[..len]);
    session.filled(len);
    if session.take().is_err() {
        session.closed();
    }
}

/// A data path that knows only what it is told.
#[derive(Default)]
struct Told {
    groups: BTreeMap<GroupId, Option<Vec<NextHop>>>,
    routes: BTreeMap<Key, Target>,
}

impl Told {
    fn update(&mut self, session: &mut Session) {
        session.changes(&mut |change| match change {
            Change::Group(group, Paths::Hops(hops)) => {
                self.groups.insert(group, Some(hops.to_vec()));
            }
            Change::Group(group, Paths::Blackhole) => {
                self.groups.insert(group, None);
            }
            Change::Route(key, target) => {
                if let Target::Group(group) = target {
                    assert!(self.groups.contains_key(&group), "a route by a group that was not told");
                }
                self.routes.insert(key, target);
            }
            Change::NoRoute(key) => assert!(self.routes.remove(&key).is_some(), "it was not there"),
            Change::NoGroup(group) => assert!(self.groups.remove(&group).is_some(), "it was not there"),
        });
        session.published();
    }
}
