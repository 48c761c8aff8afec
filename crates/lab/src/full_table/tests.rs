use super::*;

fn table() -> FullTable {
    FullTable::new((20_000, 5_000), 4, 7)
}

#[test]
fn a_table_has_as_many_networks_as_asked_for_each_once() {
    let table = table();
    assert_eq!((table.of(Family::V4).len(), table.of(Family::V6).len()), (20_000, 5_000));
    assert!(table.routes().windows(2).all(|pair| (pair[0].to, pair[0].len) < (pair[1].to, pair[1].len)));
    for route in table.routes() {
        assert_eq!(masked(route.to, route.len), route.to, "{route:?}");
        assert!(route.hop < 4);
    }
    let bits = |ip| masked(ip, 8) == IpAddr::from([10, 0, 0, 0]);
    assert!(!table.of(Family::V4).iter().any(|route| bits(route.to)), "addresses of tests stay free");
    assert_eq!(table.routes(), FullTable::new((20_000, 5_000), 4, 7).routes());
    assert!(table.routes() != FullTable::new((20_000, 5_000), 4, 8).routes());
}

#[test]
fn its_lengths_are_those_of_the_internet() {
    assert_eq!(FOUR.iter().map(|(_, share)| share).sum::<u32>(), WHOLE);
    let table = table();
    let routes = table.of(Family::V4);
    for (len, share) in FOUR.iter().filter(|(_, share)| *share >= 500) {
        let found = routes.iter().filter(|route| route.len == *len).count() as f64;
        let wanted = f64::from(*share) / f64::from(WHOLE) * routes.len() as f64;
        assert!((found / wanted - 1.0).abs() < 0.2, "/{len}: {found} of {wanted}");
    }
    let longest = |family| table.of(family).iter().map(|route| route.len).max();
    assert_eq!((longest(Family::V4), longest(Family::V6)), (Some(24), Some(64)));
}

#[test]
fn the_longest_match_is_found() {
    let mut table = table();
    let all = |ip: IpAddr, table: &FullTable| {
        let of_family = table.routes().iter().filter(|route| route.to.is_ipv4() == ip.is_ipv4());
        let matches = of_family.filter(|route| masked(ip, route.len) == route.to);
        matches.max_by_key(|route| route.len).copied()
    };
    for ip in table.addresses(200, 3) {
        assert_eq!(table.find(ip).copied(), all(ip, &table), "{ip}");
        assert!(table.find(ip).is_some());
    }
    let (to, ip) = (IpAddr::from([203, 0, 113, 0]), IpAddr::from([203, 0, 113, 9]));
    let route = TableRoute { to, len: 24, hop: 3 };
    table.put([route, TableRoute { hop: 2, ..route }]);
    assert_eq!(table.find(ip), Some(&TableRoute { hop: 2, ..route }));
    assert_eq!(table.routes().len(), 25_001);
}
