use std::net::IpAddr;

use fpm_peer::{By, MAIN, Stream};
use netlink::{NextHop, Prefix};

use super::*;
use crate::rib::Key;

const HOP: NextHop =
    NextHop { via: Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1))), index: 3, weight: 1 };

fn ten(net: u8) -> Prefix {
    Prefix::new([10, net, 0, 0], 16).expect("a prefix")
}

fn hears(session: &mut Session, octets: &[u8]) -> Result<(), Broken> {
    for piece in octets.chunks(7) {
        let room = session.room();
        room[..piece.len()].copy_from_slice(piece);
        session.filled(piece.len());
        session.take()?;
    }
    Ok(())
}

/// Number of routes that a batch changes.
fn changes(session: &mut Session) -> usize {
    let mut routes = 0;
    session.changes(&mut |change| {
        routes += usize::from(matches!(change, Change::Route(..) | Change::NoRoute(_)))
    });
    session.published();
    routes
}

fn table() -> Stream {
    let mut stream = Stream::default();
    stream.hop(1, HOP);
    for net in 0..5 {
        stream.add(ten(net), By::Group(1));
    }
    stream
}

#[test]
fn routes_outlive_zebra_and_are_swept_when_the_kernel_lacks_them() {
    let mut session = Session::default();
    assert_eq!(session.stage(), Stage::Away);
    session.connected();
    assert!(!session.wants_dump(), "there is nothing to sweep");
    hears(&mut session, table().octets()).expect("sound");
    assert_eq!((changes(&mut session), session.stage()), (5, Stage::Whole));
    session.closed();
    assert_eq!((changes(&mut session), session.stage(), session.rib().len()), (0, Stage::Away, 5));
    session.connected();
    assert_eq!(session.stage(), Stage::Taking { stale: 5 });
    hears(&mut session, Stream::default().hop(1, HOP).add(ten(0), By::Group(1)).octets()).expect("sound");
    assert_eq!(changes(&mut session), 0);
    assert!(session.wants_dump());
    session.dumped(false);
    assert!(session.wants_dump(), "it was interrupted");
    (0..3).for_each(|net| session.rib_mut().seen(Key { table: MAIN, to: ten(net) }));
    session.dumped(true);
    assert_eq!((changes(&mut session), session.stage()), (2, Stage::Taking { stale: 2 }));
    assert!(!session.wants_dump(), "it would tell nothing new");
    session.kernel_changed();
    assert!(session.wants_dump());
    session.dumped(true);
    assert_eq!((changes(&mut session), session.stage()), (2, Stage::Whole));
    assert_eq!(session.counters().swept.get(), 4);
}

#[test]
fn half_a_frame_of_a_former_connection_is_forgotten() {
    let (mut session, octets) = (Session::default(), table().octets().to_vec());
    session.connected();
    hears(&mut session, &octets[..octets.len() - 3]).expect("sound");
    session.connected();
    hears(&mut session, &octets).expect("sound");
    assert_eq!((changes(&mut session), session.stage()), (5, Stage::Whole));
}

#[test]
fn each_message_is_counted_once() {
    let mut session = Session::default();
    session.connected();
    let mut stream = table();
    stream.replace(ten(1), By::Blackhole).delete(ten(2)).delete_group(77).raw(&[0; 5]);
    stream
        .raw(&[&20u32.to_ne_bytes()[..], &28u16.to_ne_bytes(), &[0; 14]].concat())
        .add(ten(9), By::Group(99));
    hears(&mut session, stream.octets()).expect("sound");
    let counters = session.counters();
    let mut sum = 0;
    ledger::Group::each(counters, &mut |name, value| {
        let counts =
            name.starts_with("routes_") || name.starts_with("groups_") || name.starts_with("refused_");
        sum += if counts || name == "other" { value } else { 0 };
    });
    assert_eq!(sum, counters.messages.get());
    assert_eq!((counters.routes_added.get(), counters.routes_deleted.get()), (7, 2));
    assert_eq!((counters.groups_added.get(), counters.groups_deleted.get(), counters.other.get()), (1, 1, 1));
    assert_eq!((counters.refused_malformed.get(), counters.group_unknown.get()), (1, 1));
}

#[test]
fn what_has_no_room_is_counted_and_a_new_connection_brings_it() {
    let mut session = Session { rib: Rib::with_room(3, 100), ..Session::default() };
    session.connected();
    hears(&mut session, table().octets()).expect("sound");
    assert_eq!((changes(&mut session), session.rib().is_short()), (3, true));
    let counters = session.counters();
    assert_eq!((counters.routes_added.get(), counters.refused_room.get()), (3, 2));
    session.closed();
    assert!(session.rib().is_short());
    session.connected();
    assert!(!session.rib().is_short());
}

#[test]
fn a_stream_of_something_else_ends_the_session() {
    let mut session = Session::default();
    session.connected();
    assert_eq!(hears(&mut session, b"GET / HTTP/1.1\r\n"), Err(Broken::Version(b'G')));
    assert_eq!(session.counters().sessions_broken.get(), 1);
}

#[test]
fn routes_are_answered_if_wished_once_published() {
    let mut later = Session::new(false);
    later.set_answering(true);
    for (mut session, answers) in [(Session::new(true), true), (Session::new(false), false), (later, true)] {
        session.connected();
        hears(&mut session, table().octets()).expect("sound");
        assert!(session.answers().waiting().is_empty());
        changes(&mut session);
        assert_eq!(!session.answers().waiting().is_empty(), answers);
    }
}
