use std::net::Ipv4Addr;

use vmm::Room6;

use super::*;

fn table() -> Arc<RouteTable> {
    let room = Room6 { nodes: 64, ranges: 4096 };
    Arc::new(RouteTable::with_six(16, Some(room)).expect("memory"))
}

fn route(to: &str, len: u8, fate: Option<LearnedFate>) -> LearnedRoute {
    LearnedRoute { to: to.parse().expect("an address"), len, fate }
}

fn hop(nic: u8, via: &str) -> Option<LearnedFate> {
    Some(LearnedFate::Hop(nic, Some(via.parse().expect("an address"))))
}

/// Number of routes of both families.
fn count(table: &RouteTable) -> (usize, usize) {
    let four = table.routes().len();
    (four, table.change_six(MAIN, |six| six.len()).expect("a table"))
}

#[test]
fn a_table_has_what_was_learned_before_it_was_built_and_what_is_learned_later() {
    let learned = Learned::default();
    let routes = vec![
        route("10.1.0.0", 16, hop(0, "192.0.2.2")),
        route("2001:db8:1::", 48, hop(1, "2001:db8::2")),
        route("10.2.0.0", 16, Some(LearnedFate::Blackhole)),
    ];
    assert_eq!(learned.take(&Lesson { routes, ..Lesson::default() }), 0);
    let table = table();
    learned.adopt(&table, 2);
    assert_eq!(count(&table), (2, 1));
    let routes = vec![route("10.1.0.0", 16, None), route("10.3.0.0", 16, Some(LearnedFate::Hop(1, None)))];
    assert_eq!(learned.take(&Lesson { routes, ..Lesson::default() }), 0);
    assert_eq!(count(&table), (2, 1));
    let gone = route("10.9.0.0", 16, None);
    assert_eq!(learned.take(&Lesson { routes: vec![gone], ..Lesson::default() }), 0, "it was never there");
}

#[test]
fn what_does_not_come_again_is_gone_at_the_end_and_no_earlier() {
    let (learned, table) = (Learned::default(), table());
    learned.adopt(&table, 2);
    let [one, two] = ["10.1.0.0", "10.2.0.0"].map(|to| route(to, 16, hop(0, "192.0.2.2")));
    learned.take(&Lesson { routes: vec![one, two], ..Lesson::default() });
    learned.take(&Lesson { begins: true, routes: vec![two], ..Lesson::default() });
    assert_eq!(count(&table).0, 2, "what may come again stays");
    learned.take(&Lesson { ends: true, ..Lesson::default() });
    assert_eq!(count(&table).0, 1);
}

#[test]
fn a_full_table_gets_the_rest_as_soon_as_it_has_room() {
    let (learned, table) = (Learned::default(), Arc::new(RouteTable::new(1).expect("memory")));
    learned.adopt(&table, 1);
    let long = |net: u32| LearnedRoute {
        to: Ipv4Addr::from_bits(0x0a00_0001 | net << 8).into(),
        len: 32,
        fate: Some(LearnedFate::Hop(0, None)),
    };
    let routes = (0..4000).map(long).collect();
    let late = learned.take(&Lesson { routes, ..Lesson::default() });
    assert!(late > 0, "there is room for some /24 networks with longer prefixes");
    assert_eq!(learned.take(&Lesson { begins: true, ends: true, ..Lesson::default() }), 0);
    assert_eq!(table.routes().len(), 0);
}

#[test]
fn links_that_are_not_there_and_gateways_of_another_family_lead_nowhere() {
    let to = |text: &str| text.parse::<IpAddr>().expect("an address");
    let nowhere = NextHop::Refused(Refusal::Unreachable);
    assert_eq!(next_hop(to("10.0.0.0"), LearnedFate::Hop(3, None), 3), nowhere);
    let four = LearnedFate::Hop(0, Some(to("192.0.2.2")));
    assert_eq!(next_hop(to("2001:db8::"), four, 3), nowhere);
    let six = LearnedFate::Hop(0, Some(to("fe80::2")));
    assert!(matches!(next_hop(to("10.0.0.0"), six, 3), NextHop::Gateway6 { nic: 0, .. }));
}

#[test]
fn addresses_have_a_version() {
    let learned = Learned::default();
    let before = learned.version();
    learned.take(&Lesson::default());
    assert_eq!(learned.version(), before);
    let addresses = ["10.0.0.2", "10.0.0.1"].map(|ip| ip.parse().expect("an address")).to_vec();
    learned.take(&Lesson { addresses: Some(addresses), ..Lesson::default() });
    assert_ne!(learned.version(), before);
    assert!(learned.addresses().is_sorted());
}
