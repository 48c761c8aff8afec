use frame::nd::option;

use super::*;

const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PREFIX: PrefixInfo = PrefixInfo {
    prefix: 0x2001_0db8 << 96,
    len: 64,
    on_link: true,
    autonomous: true,
    valid: 86_400,
    preferred: 14_400,
};

fn lasting(lifetime: u16) -> Advertising {
    let advert = RouterAdvert { hop_limit: 64, managed: true, lifetime, ..RouterAdvert::default() };
    Advertising::new(&Advertise {
        advert,
        interval: (200, 600),
        tells_mtu: true,
        prefixes: &[PREFIX],
        dns: &[7],
    })
}

fn host(number: u8) -> Option<(u128, Mac)> {
    Some((u128::from(number), Mac([2, 0, 0, 0, 1, number])))
}

/// Sends what is due to all at the time for which it is planned, with the longest pauses; returns that time.
fn next(own: &mut Advertising) -> u64 {
    let due = own.deadline().expect("one is due");
    assert!(own.is_due(due) && !own.is_due(due - 1));
    own.sent_to_all(due, |most| most - 1);
    due
}

#[test]
fn the_first_ones_follow_each_other_quickly() {
    let mut own = lasting(1800);
    assert!(own.deadline().is_none() && !own.is_due(u64::MAX), "it has not begun");
    own.begin(1000);
    let times: [u64; 5] = core::array::from_fn(|_| next(&mut own));
    assert_eq!(times, [1000, 17_000, 33_000, 633_000, 1_233_000]);
}

#[test]
fn a_node_that_asks_is_answered_alone_and_several_with_one_to_all() {
    let mut own = lasting(1800);
    own.begin(1000);
    assert_eq!(next(&mut own), 1000);
    own.hear(host(1), 10_000, |_| 400);
    own.hear(host(1), 10_100, |_| 400);
    assert_eq!((own.deadline(), own.take_answer(10_399)), (Some(10_400), None));
    assert_eq!(own.take_answer(10_400), host(1));
    assert_eq!((own.take_answer(10_400), own.is_due(10_400)), (None, false));
    for _ in 0..2 {
        next(&mut own);
    }
    own.hear(host(1), 100_000, |_| 400);
    own.hear(host(2), 100_000, |_| 100);
    assert_eq!(next(&mut own), 100_100);
    assert_eq!((own.deadline(), own.take_answer(100_400)), (Some(100_400), host(1)));
}

#[test]
fn two_to_all_are_three_seconds_apart() {
    let mut own = lasting(1800);
    own.begin(1000);
    assert_eq!(next(&mut own), 1000);
    own.hear(None, 1100, |_| 0);
    assert_eq!(next(&mut own), 4000);
    own.hear(None, 9000, |_| 499);
    assert_eq!(next(&mut own), 9499);
}

#[test]
fn those_that_ask_too_often_are_answered_with_the_next_one_to_all() {
    let mut own = lasting(1800);
    for _ in 0..50 {
        own.hear(host(1), 0, |_| 0);
        assert_eq!(own.take_answer(0), host(1));
    }
    own.hear(host(1), 0, |_| 0);
    assert_eq!((own.take_answer(0), own.is_due(0)), (None, true));
}

#[test]
fn one_that_rests_waits_for_a_solicitation() {
    let mut own = lasting(1800);
    own.begin(1000);
    own.rest();
    assert_eq!(own.deadline(), None);
    own.hear(None, 2000, |_| 0);
    assert_eq!(own.deadline(), Some(2000));
}

#[test]
fn all_that_is_wanted_is_written() {
    let mut octets = [0; 256];
    let (len, header) = lasting(1800).write(OWN, 1400, &mut octets).expect("it fits");
    let (advert, options) = RouterAdvert::parse(&header, &octets[..len]).expect("an advertisement");
    assert_eq!((advert.hop_limit, advert.managed, advert.lifetime), (64, true, 1800));
    let read: ArrayVec<_, 8> = options.map(|option| option.expect("an option")).collect();
    let kinds: ArrayVec<u8, 8> = read.iter().map(|option| option.kind).collect();
    assert_eq!(kinds[..], [option::SOURCE_MAC, option::MTU, option::PREFIX, option::DNS]);
    assert_eq!(read[0].mac(option::SOURCE_MAC), Some(OWN));
    assert_eq!(read[1].body, [0, 0, 0, 0, 5, 120]);
    assert_eq!(PrefixInfo::parse(read[2].body), Ok(PREFIX));
    assert_eq!(read[3].body[2..6], 1800_u32.to_be_bytes(), "three of the longest pauses");
    assert!(lasting(1800).write(OWN, 1400, &mut [0; 256][..len - 1]).is_err());
}

#[test]
fn the_last_one_takes_the_router_back_and_nothing_else() {
    let mut octets = [0; 64];
    let (len, header) = lasting(1800).write_farewell(OWN, &mut octets).expect("it was a default router");
    let (advert, options) = RouterAdvert::parse(&header, &octets[..len]).expect("an advertisement");
    assert_eq!((advert.hop_limit, advert.managed, advert.lifetime), (64, true, 0));
    let mut kinds = options.map(|option| option.expect("an option").kind);
    assert_eq!((kinds.next(), kinds.next()), (Some(option::SOURCE_MAC), None));
    assert!(lasting(0).write_farewell(OWN, &mut octets).is_none());
}
