use std::collections::BTreeMap;
use std::thread::spawn;

use fpm::{Key, Paths, Session};
use netlink::{NextHop, Prefix};

use super::*;
use crate::{By, Stream};

const PATIENCE: Duration = Duration::from_secs(60);

fn net(n: u8) -> Prefix {
    Prefix::new([10, n, 0, 0], 16).expect("a prefix")
}

fn hop(host: u8, index: u32) -> NextHop {
    NextHop { via: Some([192, 0, 2, host].into()), index, weight: 1 }
}

/// A stream with each way to name an interface.
fn stream() -> Stream {
    let mut stream = Stream::default();
    stream.hop(7, hop(1, 3)).hop(8, hop(2, 4)).group(9, &[(7, 1), (8, 3)]);
    stream.add(net(1), By::Group(9)).add(net(2), By::Hop(hop(1, 3)));
    stream.add(net(3), By::Hops(&[hop(1, 3), hop(2, 4)])).replace(net(2), By::Group(7)).delete(net(1));
    stream.add(net(4), By::Hop(hop(5, 4)));
    stream
}

/// Next hops of all routes after a stream.
fn routes(octets: &[u8]) -> BTreeMap<Key, Vec<NextHop>> {
    let mut session = Session::default();
    session.connected();
    session.room()[..octets.len()].copy_from_slice(octets);
    session.filled(octets.len());
    session.take().expect("frames");
    session.changes(&mut |_| {});
    let hops = |paths: Option<Paths<'_>>| match paths {
        Some(Paths::Hops(hops)) => hops.to_vec(),
        _ => Vec::new(),
    };
    session.rib().iter().map(|found| (found.key, hops(found.paths))).collect()
}

#[test]
fn what_was_recorded_is_played_again() {
    let sent = stream();
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
    let place = listener.local_addr().expect("an address");
    let octets = sent.octets().to_vec();
    let sender = spawn(move || {
        let mut stream = TcpStream::connect(place).expect("a connection");
        // In pieces that end within frames.
        octets.chunks(37).for_each(|piece| stream.write_all(piece).expect("sent"));
    });
    let mut recorder = Recorder::accept(&listener, PATIENCE).expect("a connection");
    assert!(recorder.take(PATIENCE, |content| content.added == 5).expect("frames"));
    let end = recorder.take(PATIENCE, |content| content.added > 5).expect_err("there are no more");
    assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
    sender.join().expect("it ends");
    let recording = recorder.finish();
    assert_eq!(recording.octets(), sent.octets());
    let content = Content { frames: 9, added: 5, deleted: 2, groups: 3, others: 0 };
    assert_eq!(recording.content(), content);
    let (mut played, mut player) = (Vec::new(), Player::new(&recording));
    let counts: Vec<usize> = (0..4).map(|_| player.play(4, &mut played).expect("written")).collect();
    assert_eq!(counts, [4, 4, 1, 0]);
    assert_eq!(routes(&played), routes(sent.octets()));
    assert_eq!(routes(&played).len(), 3);
}

#[test]
fn interfaces_are_renamed_wherever_they_are_named() {
    let sent = stream();
    let mut recording = Recording::new(sent.octets().to_vec()).expect("frames");
    assert_eq!(recording.interfaces(), BTreeSet::from([3, 4]));
    recording.rename(|index| index + 100);
    assert_eq!(recording.interfaces(), BTreeSet::from([103, 104]));
    let mut wanted = routes(sent.octets());
    wanted.values_mut().flatten().for_each(|hop| hop.index += 100);
    assert_eq!(routes(recording.octets()), wanted);
    recording.rename(|index| index - 100);
    assert_eq!(recording.octets(), sent.octets(), "nothing else was changed");
}

#[test]
fn a_frame_that_was_cut_off_is_left_out_and_others_are_refused() {
    let sent = stream();
    let cut = sent.octets()[..sent.octets().len() - 1].to_vec();
    let recording = Recording::new(cut).expect("frames");
    assert_eq!(recording.content().frames, 8);
    assert!(sent.octets().starts_with(recording.octets()));
    assert_eq!(Recording::new(vec![2, 1, 0, 4]), Err(Broken::Version(2)));
    assert_eq!(Recording::new(Vec::new()).expect("nothing").content(), Content::default());
}
