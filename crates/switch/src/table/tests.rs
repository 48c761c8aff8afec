use super::*;

fn key(n: u64) -> Key {
    Key::from_word(n << 8 | 2)
}

#[test]
fn knows_moves_and_forgets() {
    let table = MacTable::new(64, 300);
    assert_eq!(table.lookup(key(1), 0), None);
    assert_eq!(table.learn(key(1), 3, 0), Learned::New);
    assert_eq!(table.learn(key(1), 3, 0), Learned::Known);
    assert_eq!(table.learn(key(1), 3, 5), Learned::Known);
    assert_eq!(table.lookup(key(1), 5), Some(3));
    assert_eq!(table.learn(key(1), 4, 5), Learned::Moved);
    assert_eq!(table.lookup(key(1), 5), Some(4));
    table.forget(4);
    assert_eq!(table.lookup(key(1), 5), None);
}

#[test]
fn a_silent_station_ages_and_its_place_is_used_again() {
    let table = MacTable::new(1, 10);
    for n in 1..=4 {
        assert_eq!(table.learn(key(n), n as u16, 0), Learned::New);
    }
    assert_eq!(table.learn(key(5), 5, 9), Learned::Full);
    assert_eq!(table.learn(key(1), 1, 9), Learned::Known);
    assert_eq!(table.lookup(key(2), 9), Some(2));
    assert_eq!(table.lookup(key(2), 10), None);
    assert_eq!(table.learn(key(5), 5, 10), Learned::New);
    assert_eq!(table.lookup(key(1), 10), Some(1), "it was heard at 9");
    assert_eq!(table.learn(key(2), 7, 10), Learned::New, "aged, so this is no move");
}

#[test]
fn the_clock_may_wrap() {
    let table = MacTable::new(4, 10);
    table.learn(key(1), 1, u32::MAX - 2);
    assert_eq!(table.lookup(key(1), 5), Some(1));
    assert_eq!(table.lookup(key(1), 8), None);
}

#[test]
fn a_station_that_another_thread_has_heard_a_second_later_has_not_aged() {
    let table = MacTable::new(1, 10);
    assert_eq!(table.learn(key(1), 3, 8), Learned::New);
    // This thread has read the clock before the other one.
    assert_eq!(table.lookup(key(1), 7), Some(3));
    assert_eq!(table.learn(key(1), 3, 7), Learned::Known);
    table.tick(6);
    let mut listed = Vec::new();
    table.each(&mut |_, port, age| listed.push((port, age)));
    assert_eq!(listed, [(3, 0)]);
}

#[test]
fn without_ageing_nothing_is_forgotten() {
    let table = MacTable::new(4, 0);
    table.learn(key(1), 1, 0);
    assert_eq!(table.lookup(key(1), u32::MAX), Some(1));
}

#[test]
fn as_many_stations_as_were_asked_for_find_a_place() {
    let table = MacTable::new(4096, 0);
    let full = (0..4096).filter(|&n| table.learn(key(n), 1, 0) == Learned::Full).count();
    assert!(full < 4, "{full} of 4096 addresses found no place");
    let mut listed = 0;
    table.each(&mut |_, port, _| {
        assert_eq!(port, 1);
        listed += 1;
    });
    assert_eq!(listed + full, 4096);
}

#[test]
fn keys_and_addresses_are_the_same_thing() {
    let mac = Mac([2, 0x11, 0x22, 0x33, 0x44, 0x55]);
    assert_eq!(Mac::from(Key::from(mac)), mac);
    assert!(Key::from(Mac::BROADCAST).is_group());
    assert!(!Key::from(mac).is_group());
    assert!(Key::from(Mac([0; 6])).is_zero());
}

#[test]
fn readers_never_see_a_port_of_another_station() {
    let table = MacTable::new(4, 1);
    std::thread::scope(|scope| {
        for t in 0..2u64 {
            let table = &table;
            scope.spawn(move || {
                for n in 0..20_000u64 {
                    // The port always equals the low octet of the address; threads compete for places.
                    let id = (n * 7 + t) & 63;
                    table.learn(key(id), id as u16, n as u32 / 64);
                    if let Some(port) = table.lookup(key(n & 63), n as u32 / 64) {
                        assert_eq!(u64::from(port), n & 63);
                    }
                }
            });
        }
    });
}
