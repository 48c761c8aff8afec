use std::net::{Ipv4Addr, Shutdown};

use fpm_peer::{By, Stream};
use netlink::{NextHop, Prefix};

use super::*;
use crate::session::Stage;

fn listening() -> (Zebra, std::net::SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("bound");
    (Zebra::new(listener).expect("non-blocking"), address)
}

fn table(nets: u8) -> Stream {
    let mut stream = Stream::default();
    let hop = NextHop { via: None, index: 3, weight: 1 };
    for net in 0..nets {
        stream.add(Prefix::new([10, net, 0, 0], 16).expect("a prefix"), By::Hop(hop));
    }
    stream
}

/// Takes turns until the condition holds.
fn until(zebra: &mut Zebra, session: &mut Session, mut holds: impl FnMut(&Session, Turn) -> bool) {
    loop {
        let turn = zebra.turn(session).expect("a turn");
        if holds(session, turn) {
            return;
        }
        std::thread::yield_now();
    }
}

#[test]
fn zebra_comes_goes_and_comes_again() {
    let ((mut zebra, address), mut session) = (listening(), Session::default());
    assert_eq!(zebra.turn(&mut session).expect("a turn"), Turn::Empty);
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(table(200).octets()).expect("sent");
    until(&mut zebra, &mut session, |session, _| session.rib().len() == 200);
    assert_eq!(zebra.descriptors().count(), 2);
    peer.shutdown(Shutdown::Both).expect("closed");
    until(&mut zebra, &mut session, |_, turn| turn == Turn::Closed(None));
    assert_eq!((session.stage(), session.rib().len(), zebra.descriptors().count()), (Stage::Away, 200, 1));
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(table(200).octets()).expect("sent");
    until(&mut zebra, &mut session, |session, _| session.stage() == Stage::Whole);
    assert_eq!(session.counters().sessions.get(), 2);
}

#[test]
fn a_newer_connection_takes_the_place_of_the_former() {
    let ((mut zebra, address), mut session) = (listening(), Session::default());
    let former = TcpStream::connect(address).expect("connected");
    until(&mut zebra, &mut session, |session, _| session.stage() != Stage::Away);
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(table(3).octets()).expect("sent");
    until(&mut zebra, &mut session, |session, _| session.rib().len() == 3);
    let mut rest = Vec::new();
    assert_eq!((&former).read_to_end(&mut rest).expect("closed"), 0);
}

#[test]
fn a_peer_that_speaks_something_else_is_left() {
    let ((mut zebra, address), mut session) = (listening(), Session::default());
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(&[1, 2, 0, 8, 0, 0, 0, 0]).expect("sent");
    until(&mut zebra, &mut session, |_, turn| turn == Turn::Closed(Some(Broken::Kind(2))));
    assert_eq!(session.stage(), Stage::Away);
}

#[test]
fn answers_go_back_as_far_as_zebra_reads() {
    let ((mut zebra, address), mut session) = (listening(), Session::new(true));
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(table(9).octets()).expect("sent");
    until(&mut zebra, &mut session, |session, _| session.rib().len() == 9);
    session.changes(&mut |_| {});
    session.published();
    let len = session.answers().waiting().len();
    assert_eq!(len, table(9).octets().len(), "each route as it came, but for the flag");
    assert!(zebra.blocked(&session).is_some(), "they are to be sent by the next turn");
    until(&mut zebra, &mut session, |_, _| true);
    assert!(zebra.blocked(&session).is_none());
    let mut answers = vec![0; len];
    peer.read_exact(&mut answers).expect("answers");
}

#[test]
fn answers_that_zebra_does_not_take_wait_until_it_does() {
    const ROUTES: u64 = 200;
    let ((mut zebra, address), mut session) = (listening(), Session::new(true));
    let mut peer = TcpStream::connect(address).expect("connected");
    let stream = table(ROUTES as u8);
    // More than the kernel holds for a peer that does not read, and less than is kept here.
    let times = (7 << 20) / stream.octets().len();
    for time in 1..=times as u64 {
        peer.write_all(stream.octets()).expect("sent");
        until(&mut zebra, &mut session, |session, _| session.counters().routes_added.get() == time * ROUTES);
    }
    session.changes(&mut |_| {});
    session.published();
    until(&mut zebra, &mut session, |_, _| true);
    if zebra.blocked(&session).is_none() {
        return println!("SKIPPED: this kernel holds all answers");
    }
    let mut answers = vec![0; times * stream.octets().len()];
    let reader = std::thread::spawn(move || peer.read_exact(&mut answers));
    until(&mut zebra, &mut session, |session, _| !session.has_answers());
    assert!(zebra.blocked(&session).is_none());
    reader.join().expect("no panic").expect("all answers");
}

#[test]
fn after_hanging_up_nothing_is_heard_that_was_said_before() {
    let ((mut zebra, address), mut session) = (listening(), Session::default());
    let mut peer = TcpStream::connect(address).expect("connected");
    until(&mut zebra, &mut session, |session, _| session.stage() != Stage::Away);
    let mut waiting = TcpStream::connect(address).expect("connected");
    for peer in [&mut peer, &mut waiting] {
        peer.write_all(table(3).octets()).expect("sent");
    }
    zebra.hang_up(&mut session);
    assert_eq!(zebra.turn(&mut session).expect("a turn"), Turn::Empty);
    assert_eq!((session.stage(), session.rib().len(), zebra.descriptors().count()), (Stage::Away, 0, 1));
    let mut peer = TcpStream::connect(address).expect("connected");
    peer.write_all(table(3).octets()).expect("sent");
    until(&mut zebra, &mut session, |session, _| session.rib().len() == 3);
}
