use proptest::prelude::*;

use super::*;

fn packet() -> Packet {
    Packet {
        state: State::Up,
        is_poll: true,
        multiplier: 3,
        mine: 7,
        yours: 9,
        desired_tx: 50_000,
        required_rx: 60_000,
        ..Packet::default()
    }
}

#[test]
fn octets_are_those_of_the_standard() {
    let octets = packet().octets();
    assert_eq!(octets[..4], [0x20, 0xe0, 3, 24]);
    assert_eq!(octets[4..12], [0, 0, 0, 7, 0, 0, 0, 9]);
    assert_eq!(octets[12..20], [0, 0, 0xc3, 0x50, 0, 0, 0xea, 0x60]);
}

#[test]
fn what_the_standard_discards_is_refused() {
    let refused = |change: fn(&mut [u8; LEN])| {
        let mut octets = packet().octets();
        change(&mut octets);
        Packet::parse(&octets)
    };
    assert_eq!(refused(|_| {}), Ok(packet()));
    assert_eq!(refused(|o| o[0] = 0x40), Err(Error::Version));
    assert_eq!(refused(|o| o[3] = 23), Err(Error::Short));
    assert_eq!(refused(|o| o[3] = 25), Err(Error::Short));
    assert_eq!(refused(|o| o[1] |= AUTHENTICATED), Err(Error::Short));
    assert_eq!(refused(|o| o[1] |= MULTIPOINT), Err(Error::Multipoint));
    assert_eq!(refused(|o| o[2] = 0), Err(Error::Multiplier));
    assert_eq!(refused(|o| o[7] = 0), Err(Error::Discriminator));
    assert_eq!(refused(|o| o[11] = 0), Err(Error::Discriminator), "up, and names no session of ours");
    assert_eq!(Packet::parse(&packet().octets()[..23]), Err(Error::Short));
}

#[test]
fn a_first_packet_names_no_session_of_ours() {
    for state in [State::Down, State::AdminDown] {
        let first = Packet { state, yours: 0, ..packet() };
        assert_eq!(Packet::parse(&first.octets()), Ok(first));
    }
}

#[test]
fn authentication_is_seen_and_octets_behind_are_ignored() {
    let mut octets = [&packet().octets()[..], &[0; 8]].concat();
    assert_eq!(Packet::parse(&octets), Ok(packet()));
    octets[1] |= AUTHENTICATED;
    octets[3] = 28;
    assert_eq!(Packet::parse(&octets), Ok(Packet { is_authenticated: true, ..packet() }));
}

proptest! {
    #[test]
    fn what_is_read_is_written_the_same(octets in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut octets = octets;
        if let Some(first) = octets.first_mut() { *first = *first & 0x1f | 0x20; }
        if let Some(len) = octets.get_mut(3) { *len = LEN as u8; }
        if let Ok(packet) = Packet::parse(&octets) {
            prop_assert_eq!(&packet.octets()[..], &octets[..LEN]);
        }
    }
}
