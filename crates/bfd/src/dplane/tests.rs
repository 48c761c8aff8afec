use proptest::prelude::*;

use super::*;

/// A session as bfdd sends it: number 7 over interface 3.
fn session(flags: u32) -> [u8; SESSION] {
    let mut octets = [0; SESSION];
    octets[..4].copy_from_slice(&flags.to_be_bytes());
    octets[4..8].copy_from_slice(&[192, 0, 2, 1]);
    octets[20..24].copy_from_slice(&[192, 0, 2, 2]);
    let words = [(36, 7), (40, 50_000), (44, 60_000), (48, 70_000), (52, 80_000), (56, 2), (64, 3u32)];
    words.iter().for_each(|(at, word)| octets[*at..at + 4].copy_from_slice(&word.to_be_bytes()));
    (octets[60], octets[61]) = (254, 3);
    octets[68..72].copy_from_slice(b"wan\0");
    octets
}

fn message(kind: u16, id: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    put_header(&mut octets, kind, id, payload.len() as u16);
    octets.extend(payload);
    octets
}

#[test]
fn a_session_is_read_field_by_field() {
    let octets = message(types::ADD_SESSION, 0, &session(flags::PASSIVE | flags::ECHO));
    let orders = Orders::default().take(&octets).expect("sound");
    let config = Config {
        number: 7,
        min_tx: 50_000,
        min_rx: 60_000,
        multiplier: 3,
        is_passive: true,
        is_shut: false,
        is_independent: true,
    };
    let path = Path {
        local: [192, 0, 2, 1].into(),
        remote: [192, 0, 2, 2].into(),
        index: 3,
        is_multihop: false,
        least_ttl: 254,
    };
    let wanted = Wanted {
        watch: Watch { config, path, hold: 2000 },
        interface: "wan".to_owned(),
        unsupported: vec!["echo"],
    };
    assert_eq!(orders, [Order::Add(wanted)]);
}

#[test]
fn ipv6_and_several_hops() {
    let mut session = session(flags::IPV6 | flags::MULTIHOP | flags::SHUTDOWN);
    session[20..36].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
    let orders = Orders::default().take(&message(types::ADD_SESSION, 0, &session)).expect("sound");
    let [Order::Add(wanted)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(wanted.watch.path.remote, IpAddr::from(Ipv6Addr::LOCALHOST));
    assert!(wanted.watch.path.is_multihop && wanted.watch.config.is_shut && wanted.unsupported.is_empty());
}

#[test]
fn other_orders() {
    let stream = [
        message(types::DELETE_SESSION, 0, &session(0)),
        message(types::REQUEST_COUNTERS, 9, &7u32.to_be_bytes()),
        message(types::ECHO_REQUEST, 8, &[5; 16]),
        message(77, 0, &[]),
    ];
    let expected = [
        Order::Delete(7),
        Order::Counters { id: 9, number: 7 },
        Order::Echo { id: 8, payload: [5; 16] },
        Order::Other(77),
    ];
    assert_eq!(Orders::default().take(&stream.concat()), Ok(expected.to_vec()));
}

#[test]
fn replies_have_the_lengths_of_their_structures() {
    let mut stream = Vec::new();
    put_counters(&mut stream, 9, 7, Traffic { packets_in: 2, packets_out: 3 });
    assert_eq!((stream.len(), be16(stream.first_chunk::<8>().expect("a header"), 6)), (80, 80));
    assert_eq!(
        stream[16..40],
        [[0, 0, 0, 0, 0, 0, 0, 104], [0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 156]].concat()
    );
    let mut stream = Vec::new();
    put_state(&mut stream, &Session::new(Config { number: 7, is_shut: true, ..Config::default() }, 0, 0, 1));
    assert_eq!(stream[..12], [1, 0, 0, 4, 0, 0, 0, 36, 0, 0, 0, 7]);
    assert_eq!((stream.len(), &stream[32..]), (36, &[0, 7, 0, 0][..]));
    let mut down = Vec::new();
    put_down(&mut down, 7);
    assert_eq!((down.len(), down[32]), (36, State::Down as u8));
    let mut echo = Vec::new();
    put_echo(&mut echo, 8, &[5; 16]);
    assert_eq!(Orders::default().take(&echo), Ok(vec![Order::Other(types::ECHO_REPLY)]));
}

#[test]
fn a_stream_of_something_else_is_refused() {
    let mut octets = message(types::ECHO_REQUEST, 0, &[0; 16]);
    octets[0] = 2;
    assert_eq!(Orders::default().take(&octets), Err(Error::Version(2)));
    octets[0] = 1;
    for length in [0u16, 7, 4097, 23] {
        octets[6..8].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Orders::default().take(&octets), Err(Error::Length(length)), "{length}");
    }
}

proptest! {
    #[test]
    fn messages_may_be_cut_anywhere(cuts in prop::collection::vec(1usize..90, 1..9)) {
        let stream = [
            message(types::ADD_SESSION, 0, &session(0)),
            message(types::ECHO_REQUEST, 1, &[1; 16]),
            message(types::DELETE_SESSION, 0, &session(0)),
        ].concat();
        let whole = Orders::default().take(&stream).expect("sound");
        let (mut orders, mut came, mut rest) = (Orders::default(), Vec::new(), stream.as_slice());
        for len in cuts.iter().cycle() {
            if rest.is_empty() { break; }
            let (piece, after) = rest.split_at((*len).min(rest.len()));
            came.extend(orders.take(piece).expect("sound"));
            rest = after;
        }
        prop_assert_eq!(came, whole);
        prop_assert!(orders.waiting.is_empty());
    }

    #[test]
    fn arbitrary_octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut orders = Orders::default();
        if orders.take(&octets).is_ok() {
            prop_assert!(orders.waiting.len() <= LONGEST);
        }
    }
}
